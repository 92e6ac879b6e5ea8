"""Locks whose node keeps no expiry: two correct ones, and three that take what another client has."""

from __future__ import annotations

import asyncio

from lab.locks.base import Lease, LeaseLost, NotAcquired
from lab.locks.observed import ObservedLease, Record

MS_NS = 1_000_000


class Watches(ObservedLease):
    """As it should be, with more patience."""

    name = "watches"

    def _over_ns(self, seen: Record) -> int:
        return super()._over_ns(seen) + seen.lease_ns // 10


class WaitsInside(ObservedLease):
    """An acquire waits until the lock is free, or was seen not to change for a lease; none is extended."""

    name = "waits-inside"
    extends = False

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired as refused:
                if not refused.refused_by:
                    raise
            await asyncio.sleep(0.4)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        raise LeaseLost("leases are not extended", no_effect=True)


class TakesOverEarly(ObservedLease):
    """It waits for half of a lease only."""

    name = "takes-over-early"

    def _over_ns(self, seen: Record) -> int:
        return seen.since_ns + seen.lease_ns // 2


class ForgetsRenewals(ObservedLease):
    """It goes on counting when the holder has renewed its lease."""

    name = "forgets-renewals"

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        before = self._seen.get(key)
        granted = await super()._set(key, token, ttl_ns)
        now = self._seen.get(key)
        if before is not None and now is not None and before.holder == now.holder:
            self._seen[key] = now._replace(since_ns=before.since_ns)
        return granted


class ComparesTheHolder(ObservedLease):
    """It replaces what the same holder has had since it looked, whether that was renewed meanwhile or not."""

    name = "compares-the-holder"
    TAKE = """
        local there = redis.call('hmget', KEYS[1], 'holder', 'version', 'lease_ms')
        if there[1] and there[1] ~= ARGV[3] then return there end
        redis.call('hset', KEYS[1], 'holder', ARGV[1], 'lease_ms', ARGV[2])
        return {redis.call('hincrby', KEYS[1], 'version', 1)}"""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        now_ns, seen = self._surroundings.clock_ns(), self._seen.get(key)
        expected = "" if seen is None or now_ns < self._over_ns(seen) else seen.holder
        reply = await self._call("EVAL", self.TAKE, 1, key, token, ttl_ns // MS_NS, expected)
        if len(reply) == 1:
            self._seen.pop(key, None)
            return True
        holder, version, lease_ms = (word.decode() for word in reply)
        if seen is None or (seen.holder, seen.version) != (holder, version):
            self._seen[key] = Record(holder, version, int(lease_ms) * MS_NS, self._surroundings.clock_ns())
        return False


class LooksThenReplaces(ObservedLease):
    """It looks whether a record that is over has stayed the same, and replaces it in a second command."""

    name = "looks-then-replaces"
    REPLACE = """
        redis.call('hset', KEYS[1], 'holder', ARGV[1], 'lease_ms', ARGV[2])
        return redis.call('hincrby', KEYS[1], 'version', 1)"""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        seen = self._seen.get(key)
        if seen is not None and self._surroundings.clock_ns() >= self._over_ns(seen):
            there = await self._call("HMGET", key, "holder", "version")
            if [seen.holder.encode(), seen.version.encode()] == there:
                await self._call("EVAL", self.REPLACE, 1, key, token, ttl_ns // MS_NS)
                self._seen.pop(key, None)
                return True
        return await super()._set(key, token, ttl_ns)
