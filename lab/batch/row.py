"""What came out of one run, in a batch of any kind."""

from __future__ import annotations

from typing import Any

import msgspec

from checker import Outcome
from lab.errors import ExitCode


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one run came to.

    ``outcomes`` says ok, violated, unknown or absent of each property that was decided, ``findings`` names
    the violations, each once; ``reasons`` say what was not as expected, or why nothing is known; ``refused``
    why nothing was run at all (exit code 2). ``digest`` is the hash of the history. ``lost``: the run ended
    the process it was in, twice; it is tried again when the batch is resumed.

    ``item`` is the id of the plan's item that was run. ``receipts`` counts the faults that proved that they
    took effect, ``faults`` all of them. Times are in seconds; ``story_s`` is the part of ``wall_s`` that the
    story itself took. ``versions``: what was under test, by name. ``words`` say what
    came out where that is no verdict about properties. ``repeat`` is the command that runs it
    again. ``facts`` is what only one kind of batch knows of its runs.
    """

    seed: int
    exit_code: int = 0
    outcomes: dict[str, str] = {}
    findings: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    digest: str = ""
    lost: bool = False
    item: str = ""
    refused: str = ""
    receipts: int = 0
    faults: int = 0
    wall_s: float = 0.0
    story_s: float = 0.0
    versions: dict[str, str] = {}
    directory: str | None = None
    words: str = ""
    repeat: str = ""
    facts: dict[str, Any] = {}

    @property
    def as_expected(self) -> bool:
        """Whether it came out as its scenario says."""
        return self.exit_code == ExitCode.EXPECTED

    @property
    def is_known(self) -> bool:
        """Whether it came to a verdict, whatever its scenario expects; a violation stands in any case."""
        return self.exit_code in (ExitCode.EXPECTED, ExitCode.UNEXPECTED) or self.violates()

    def violates(self, name: str | None = None) -> bool:
        """Whether this property was violated, or any."""
        seen = self.outcomes.values() if name is None else (self.outcomes.get(name, ""),)
        return Outcome.VIOLATED in seen


def unknown(seed: int, reason: str, **more: Any) -> Row:
    """The row of a run about which nothing is known."""
    return Row(seed, ExitCode.UNKNOWN, reasons=(reason,), **more)
