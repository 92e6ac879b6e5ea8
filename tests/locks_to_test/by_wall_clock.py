"""A lock that counts its leases on the wall clock, as one does who writes ``time.time_ns()``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from lab.addresses import Address
from lab.locks.base import Surroundings
from lab.locks.redlock import Redlock, RedlockOptions


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
