"""A correct semaphore on one Redis node: holders in a sorted set, each scored by the end of its lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import Single, SingleOptions

OVER_GO: Final = """
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
"""
LASTS: Final = """
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1
"""
TAKE_SCRIPT: Final = f"""{OVER_GO}
if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])
{LASTS}"""
PROLONG_SCRIPT: Final = f"""{OVER_GO}
if not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end
redis.call('zadd', KEYS[1], 'XX', 'GT', now + ARGV[2], ARGV[1])
{LASTS}"""
GIVE_BACK_SCRIPT: Final = "return redis.call('zrem', KEYS[1], ARGV[1])"


@dataclass(frozen=True, slots=True)
class SemaphoreOptions(SingleOptions):
    """Those of a lock on one node, and ``permits``: how many clients may hold it at once."""

    permits: int = 2

    def __post_init__(self) -> None:
        super(SemaphoreOptions, self).__post_init__()
        if self.permits < 1:
            raise ValueError("permits is how many may hold it: at least 1")


class Semaphore(Single):
    """One node that counts holders and time in one script, so that no client's clock matters.

    Source: "Redis in Action" (Carlson 2013), section 6.3, whose fair semaphore counts by the clients' clocks;
    here the node's own clock decides, and count and entry are one step.

    It promises at most so many holders at once as it has permits, each with its own lease, and that the
    permit of a client that is gone comes back when its lease is over, under the assumptions of ``Single``.
    """

    name: ClassVar[str] = "semaphore"
    OPTIONS = SemaphoreOptions
    permits: ClassVar[int] = 2
    extend_script: ClassVar[str] = PROLONG_SCRIPT
    unlock_script: ClassVar[str] = GIVE_BACK_SCRIPT

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        assert isinstance(self.options, SemaphoreOptions)
        lease_ms, permits = ttl_ns // NS_PER_MS, self.options.permits
        return bool(await self._call("EVAL", TAKE_SCRIPT, 1, key, token, lease_ms, permits))
