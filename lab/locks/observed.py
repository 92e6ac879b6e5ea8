"""A correct lock whose node keeps no expiry: clients watch the record of its holder for a lease."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import Single, SingleOptions

TAKE_SCRIPT: Final = """
local holder = redis.call('hget', KEYS[1], 'holder')
local version = redis.call('hget', KEYS[1], 'version')
if holder and not (holder == ARGV[3] and version == ARGV[4]) then
  return {holder, version, redis.call('hget', KEYS[1], 'lease_ms')}
end
redis.call('hset', KEYS[1], 'holder', ARGV[1], 'lease_ms', ARGV[2], 'version', (version or 0) + 1)
return {ARGV[1]}
"""
RENEW_SCRIPT: Final = """
if redis.call('hget', KEYS[1], 'holder') ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[1], 'lease_ms', ARGV[2])
redis.call('hincrby', KEYS[1], 'version', 1)
return 1
"""
GIVE_BACK_SCRIPT: Final = """
if redis.call('hget', KEYS[1], 'holder') == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end
"""


class Record(NamedTuple):
    """What a client has seen of a holder, and since when by its own clock."""

    holder: str
    version: str
    lease_ns: int
    since_ns: int


class ObservedLease(Single):
    """One node that never lets a key expire; a client that saw a record unchanged for its lease replaces it.

    Source: leader election in Kubernetes' client-go, and the DynamoDB lock client: they keep the length of
    a lease in the record, and compare only times that one client has measured itself.

    It promises mutual exclusion whatever the node's clock shows, as long as the clients' monotonic clocks
    run at nearly the same rate: a contender counts a lease from when it first saw the record, which is after
    its holder began to count. The price is time: after the death of a holder a client gets the lock a lease
    after it first looked, so one that looks seldom waits for longer than with an expiry on the node.
    """

    name: ClassVar[str] = "observed-lease"
    OPTIONS = SingleOptions
    extend_script: ClassVar[str] = RENEW_SCRIPT
    unlock_script: ClassVar[str] = GIVE_BACK_SCRIPT

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seen: dict[str, Record] = {}

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        clock_ns, seen = self._surroundings.clock_ns, self._seen.get(key)
        expected = ("", "") if seen is None or clock_ns() < self._over_ns(seen) else seen[:2]
        reply = await self._call("EVAL", TAKE_SCRIPT, 1, key, token, ttl_ns // NS_PER_MS, *expected)
        if len(reply) == 1:
            self._seen.pop(key, None)
            return True
        holder, version, lease_ms = (
            word.decode() if isinstance(word, bytes) else str(word) for word in reply
        )
        if seen is None or seen[:2] != (holder, version):
            self._seen[key] = Record(holder, version, int(lease_ms) * NS_PER_MS, clock_ns())
        return False

    def _over_ns(self, seen: Record) -> int:
        """When a record that has not changed may be replaced, by this client's clock."""
        return seen.since_ns + seen.lease_ns + self.options.drift_ns(seen.lease_ns)
