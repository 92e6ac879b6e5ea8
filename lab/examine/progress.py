"""How far an examination is."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.examine.result import Defect


class OutOfTime(Exception):
    """The budget is spent."""


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

    @property
    def reached(self) -> int:
        """How much was reached that no schedule had reached before: states, and branches."""
        return len(self.covered) + len(self.branches)

    @property
    def defects(self) -> int:
        """How many there are so far."""
        return len(self.found)
