"""Locks that read the wall clock, as one does who writes ``time.time_ns()``, or keeps a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from lab.addresses import Address
from lab.locks.base import Lease, Surroundings
from lab.locks.redlock import Redlock, RedlockOptions
from tests.locks_to_test.plain import S_NS, Plain

LOG = logging.getLogger(__name__)
LOG.propagate = False
LOG.addHandler(logging.NullHandler())


class ByWallClock(Redlock):
    """Redlock; the deadlines of its leases are instants of the wall clock."""

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: RedlockOptions | None = None,
        surroundings: Surroundings | None = None,
        owner: str | None = None,
    ) -> None:
        by_wall = replace(surroundings or Surroundings(), clock_ns=time.time_ns)
        super().__init__(nodes, options, by_wall, owner)


class ComparesWithWallClock(Plain):
    """Keeps the end of each lease as a date, and notes in a log what it is asked."""

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        LOG.warning("%s is asked for", key)
        lease = await super()._try(key, token, ttl_ns, start_ns)
        if lease is not None:
            self._over = {token: _now_s() + (lease.deadline_ns - start_ns) / S_NS}
        return lease

    def believes(self, lease: Lease) -> bool:
        LOG.warning("is %s held?", lease.key)
        return _now_s() < self._over.get(lease.token, 0)


def _now_s() -> float:
    return time.time()


class Logs(Plain):
    """Correct; it notes in a log what it is asked."""

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        LOG.warning("%s is asked for", key)
        return await super()._try(key, token, ttl_ns, start_ns)
