"""Locks whose node keeps no expiry: a correct one, and two that end another client's lease too early."""

from __future__ import annotations

from lab.locks.observed import ObservedLease, Record


class Watches(ObservedLease):
    """As it should be, with more patience."""

    name = "watches"

    def _over_ns(self, seen: Record) -> int:
        return super()._over_ns(seen) + seen.lease_ns // 10


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
