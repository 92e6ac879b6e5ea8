"""Drawn schedules as the task of a campaign: each seed is a cluster's whole story, drawn, run, and judged."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Final

from lab.batch.row import Row
from lab.errors import ExitCode, LabError, did_you_mean
from lab.search.draw import RandomDraw, Space, Strategy, draw_trial
from lab.search.runner import Wire, run_trial, trials
from lab.search.suspicion import named
from lab.search.trial import KINDS, Kind, Trial

WITHIN_ASSUMPTIONS: Final[tuple[Kind, ...]] = ("cut", "hold", "delay", "crash", "power_cut")
"""Faults that leave the assumptions of Redlock alone as long as nodes sync before they answer.

No clock jumps, no client is paused, and nothing that was acknowledged is forgotten.
"""


@dataclass(frozen=True, slots=True)
class ScheduleTask:
    """For each seed one trial from this space, judged by the whole checker. Any violation is unexpected."""

    space: Space
    strategy: Strategy = "guided"
    wire: Wire = "direct"

    @property
    def name(self) -> str:
        """After the lock, as far as a file may be called so."""
        return "schedules-" + "".join(c if c.isalnum() or c in "-_." else "-" for c in self.space.lock)

    def session(self) -> AbstractContextManager[None]:
        """Make the process fit to run trials."""
        return trials(self.wire)

    def trial(self, seed: int) -> Trial:
        """What is run for this seed."""
        return draw_trial(RandomDraw(Random(seed)), self.space, self.strategy)

    def __call__(self, seed: int) -> Row:
        """Run it, and keep of its history the hash and what the checker finds."""
        outcome = run_trial(self.trial(seed), self.wire)
        violations = [finding for finding in named(outcome) if finding.severity == "violation"]
        code = ExitCode.UNEXPECTED if violations else ExitCode.EXPECTED
        why = tuple(dict.fromkeys(f"{finding.name}: {finding.why}" for finding in violations))
        return Row(
            seed,
            int(code),
            findings=tuple(dict.fromkeys(finding.name for finding in violations)),
            reasons=why,
            digest=outcome.digest(),
        )

    def identity(self) -> dict[str, Any]:
        """All that is drawn from."""
        return {"space": asdict(self.space), "strategy": self.strategy, "wire": self.wire}

    def repeat(self, seed: int) -> str:
        """The campaign of this seed alone."""
        faults = ",".join(self.space.kinds)
        words = ["lab", "campaign", "--lock", self.space.lock, "--faults", faults, "--wire", self.wire]
        return shlex.join([*words, "--seeds", str(seed), "--json"])


def parse_kinds(text: str) -> tuple[Kind, ...]:
    """The kinds of faults that ``text`` names, with commas; ``all``, or ``safe``: within the assumptions.

    Raises:
        LabError: there is no such fault.
    """
    named_kinds = {"all": KINDS, "safe": WITHIN_ASSUMPTIONS}
    if text in named_kinds:
        return named_kinds[text]
    wanted = [part.strip() for part in text.split(",")]
    for part in wanted:
        if part not in KINDS:
            near = did_you_mean(part, KINDS)
            raise LabError(
                f"the fault {part!r}",
                where="--faults",
                expected=f"all, safe, or some of {', '.join(KINDS)} with commas",
                hint=f"did you mean {near!r}?" if near else "safe leaves the assumptions of Redlock alone",
            )
    return tuple(kind for kind in KINDS if kind in wanted)
