"""How far an examination is, and how much of its budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lab.examine.result import Defect

SLOWEST: Final = 4
"""How much slower a machine may be, for the load of others, until a budget ends by real time."""


class OutOfTime(Exception):
    """The budget is spent."""


class Budget:
    """How many seconds an examination may take, and how many it has taken.

    Processor time counts: that of the busiest process, with its drivers and servers. So an examination on a
    busy machine tries what it tries on an idle one, and ends later. Real time counts as well, but only a
    ``SLOWEST``-th of it, so that even a lock that waits without computing comes to an end.

    Args:
        seconds: how many there are.
        processor_s: the processor time of the busiest process so far.
        clock_s: the real time.
    """

    def __init__(
        self,
        seconds: float,
        processor_s: Callable[[], float] = time.process_time,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._processor_s, self._clock_s = processor_s, clock_s
        self._processor_began_s, self._began_s = processor_s(), clock_s()

    @property
    def real_s(self) -> float:
        """The real time that has passed."""
        return self._clock_s() - self._began_s

    @property
    def spent_s(self) -> float:
        """How much of it is spent."""
        return max(self._processor_s() - self._processor_began_s, self.real_s / SLOWEST)

    @property
    def left_s(self) -> float:
        """How much of it is left."""
        return self.seconds - self.spent_s

    def check(self) -> None:
        """Raise ``OutOfTime`` if nothing is left."""
        if self.left_s <= 0:
            raise OutOfTime


@dataclass
class Progress:
    """How far an examination is."""

    schedules: int = 0
    seconds: float = 0.0
    part: str = ""
    found: list[Defect] = field(default_factory=list)
    """The defects so far; the one at a place keeps its cause."""
    covered: set[tuple[str, str]] = field(default_factory=set)
    branches: set[int] = field(default_factory=set)
    """The steps of the lock's code that were taken."""
    grants: int = 0
    """How often a client was granted the lock."""

    @property
    def reached(self) -> int:
        """How much was reached that no schedule had reached before: states, and branches."""
        return len(self.covered) + len(self.branches)

    @property
    def defects(self) -> int:
        """How many there are so far."""
        return len(self.found)
