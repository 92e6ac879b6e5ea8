"""Broken ways to count grants: fences that come from counters on the nodes, and do not grow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from lab.channel import NodeError
from lab.locks.base import Lease, NotAcquired
from lab.locks.counter import SET_AND_COUNT, CountingRedlock, counter_key
from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import Single


class SmallestCount(CountingRedlock):
    """The fence is the smallest count of the nodes that granted the key."""

    def fence_of(self, counts: list[int]) -> int:
        """The smallest."""
        return min(counts)


class FastestCount(CountingRedlock):
    """The fence is the count of the node that answered first."""

    def fence_of(self, counts: list[int]) -> int:
        """The first."""
        return counts[0]


class SumOfCounts(CountingRedlock):
    """The fence is the sum of the counts that were heard, so it depends on how many nodes were."""

    def fence_of(self, counts: list[int]) -> int:
        """All together."""
        return sum(counts)


class FencedSingle(Single):
    """A lock on one node that counts its grants in the same script as it sets the key; it is right."""

    hands_out_fences: ClassVar[bool] = True
    script: ClassVar[str] = SET_AND_COUNT

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._fences: dict[str, int] = {}

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        fence: Any = await self._call(
            "EVAL", self.script, 2, key, counter_key(key), token, ttl_ns // NS_PER_MS
        )
        self._fences[token] = int(fence)
        return bool(fence)

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str]:
        lease, reason = await super()._attempt(key, token, ttl_ns)
        fence = self._fences.pop(token, None)
        return lease if lease is None else replace(lease, fence=fence), reason


class FenceBeforeLock(FencedSingle):
    """Draws its fence before it asks for the lock, and keeps it for the next time if it does not get it."""

    _drawn: int | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """INCR, then the lock."""
        if self._drawn is None:
            try:
                self._drawn = int(await self._call("INCR", counter_key(key)))
            except NodeError as error:
                raise NotAcquired(f"{key}: no fence: {error}", refused_by=0) from error
        lease = replace(await super().acquire(key, ttl_ns), fence=self._drawn)
        self._drawn = None
        return lease

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS) is not None


class FenceExpires(FencedSingle):
    """The counter expires with the lock, and begins anew."""

    script = """
if not redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 0 end
local fence = redis.call('incr',KEYS[2])
redis.call('pexpire',KEYS[2],ARGV[2])
return fence
"""


class FenceRaisedAtRelease(FencedSingle):
    """Reads the counter for its fence, and raises it only when it releases the lock."""

    script = """
if not redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 0 end
return 1 + (redis.call('get',KEYS[2]) or 0)
"""

    async def _give_back(self, lease: Lease) -> bool:
        released = await super()._give_back(lease)
        await self._call("INCR", counter_key(lease.key))
        return released
