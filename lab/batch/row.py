"""The result of one run, in a batch of any kind."""

from __future__ import annotations

from typing import Any

import msgspec

from checker import Outcome
from lab.errors import ExitCode


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one run.

    ``outcomes``: property → ok, violated, unknown or absent. ``findings``: the names of the violations, each
    once. ``reasons``: what was not as expected, or why nothing is known. ``refused``: why nothing was run
    (exit code 2). ``digest``: the hash of the history. ``lost``: its process died, twice; it is tried again
    when the batch is resumed.

    ``item`` is the id of the plan's item. ``faults`` counts the faults, ``receipts`` those that are proved to
    have taken effect. Times are in seconds; ``steps_s`` is the part of ``wall_s`` from the first step to the
    last. ``versions``: the versions of what was under test, by name. ``words``: the result where it is no
    verdict about properties. ``repeat``: the command that runs it again. ``facts``: further fields of one
    kind of batch.
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
    steps_s: float = 0.0
    versions: dict[str, str] = {}
    directory: str | None = None
    words: str = ""
    repeat: str = ""
    facts: dict[str, Any] = {}

    @property
    def as_expected(self) -> bool:
        """Whether the result is the one the scenario expects."""
        return self.exit_code == ExitCode.EXPECTED

    @property
    def is_known(self) -> bool:
        """Whether it has a verdict, whatever its scenario expects; a violation is one in any case."""
        return self.exit_code in (ExitCode.EXPECTED, ExitCode.UNEXPECTED) or self.violates()

    def violates(self, name: str | None = None) -> bool:
        """Whether this property was violated, or any."""
        seen = self.outcomes.values() if name is None else (self.outcomes.get(name, ""),)
        return Outcome.VIOLATED in seen


def unknown(seed: int, reason: str, **more: Any) -> Row:
    """The row of a run about which nothing is known."""
    return Row(seed, ExitCode.UNKNOWN, reasons=(reason,), **more)
