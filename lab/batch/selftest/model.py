"""What a self-test comes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from lab.errors import ExitCode

Result = Literal["caught", "survived", "control", "unknown"]
"""``control``: the real lock is not clean in the same story, or under the same search, so that it shows
nothing about the mutant."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mutant, and one way to catch it.

    ``by`` is a story's name, or the search that was made; ``schedules`` says how many runs that took and
    ``seconds`` how long, the real lock's share left out. ``witness`` holds the indices of the events that
    prove the finding, ``why`` is the checker's sentence; for a search it is the story of what was left after
    shrinking. ``reasons`` say why it was not caught.
    """

    mutant: str
    breaks: str
    real: str
    by: str
    finding: str
    result: Result
    schedules: int = 0
    seconds: float = 0.0
    witness: tuple[int, ...] = ()
    why: str = ""
    reasons: tuple[str, ...] = ()
    repeat: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """0 caught, 1 not, 3 nobody knows."""
        codes = {"caught": ExitCode.EXPECTED, "unknown": ExitCode.UNKNOWN}
        return codes.get(self.result, ExitCode.UNEXPECTED)


class Innocence(msgspec.Struct, frozen=True):
    """How often a real lock was put to the test within its assumptions, and how often it was accused.

    ``accused`` and ``unknown`` hold a sentence and a command for each such run.
    """

    lock: str
    where: str
    runs: int
    accused: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """1 if it was accused; 3 if too little is known, or nothing was run."""
        if self.accused:
            return ExitCode.UNEXPECTED
        return ExitCode.UNKNOWN if self.unknown or not self.runs else ExitCode.EXPECTED


class Selftest(msgspec.Struct, frozen=True):
    """All of it."""

    rows: tuple[Row, ...]
    innocence: tuple[Innocence, ...]
    seconds: float

    @property
    def exit_code(self) -> ExitCode:
        """0 only if all mutants are caught and nobody real is accused; wrong outweighs unknown."""
        return worst([*(row.exit_code for row in self.rows), *(each.exit_code for each in self.innocence)])

    @property
    def mutants(self) -> tuple[str, ...]:
        """The names of the mutants that were tried."""
        return tuple(dict.fromkeys(row.mutant for row in self.rows))

    @property
    def caught(self) -> tuple[str, ...]:
        """The names of those that were caught in every way that was tried."""
        missed = {row.mutant for row in self.rows if row.result != "caught"}
        return tuple(name for name in self.mutants if name not in missed)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of several: 1 outweighs 3, which outweighs 0; nothing at all is unknown."""
    seen = set(codes)
    if ExitCode.UNEXPECTED in seen:
        return ExitCode.UNEXPECTED
    return ExitCode.EXPECTED if seen == {ExitCode.EXPECTED} else ExitCode.UNKNOWN
