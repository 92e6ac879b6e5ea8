"""Locks on several nodes that are wrong in ways which none of the lab's own broken locks is."""

from __future__ import annotations

from dataclasses import replace

from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_MS
from lab.locks.redlock import EXTEND_SCRIPT, Redlock, count_votes


class RefusedExtensionCounts(Redlock):
    """A node that answers has extended: also one whose script says that the key is not there."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        command = ("EVAL", EXTEND_SCRIPT, 1, lease.key, lease.token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, lambda _: True, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
        return self.options.extended(lease, ttl_ns, start_ns, self._surroundings.clock_ns())


class CountsFromReplies(Redlock):
    """A lease counts from when all had answered."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        late_ns = self._surroundings.clock_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
        return replace(lease, deadline_ns=late_ns, attempt_ns=None)
