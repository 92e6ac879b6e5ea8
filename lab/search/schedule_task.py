"""Drawn schedules as the task of a campaign: each seed is drawn, run, and judged."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from lab.batch.row import Row
from lab.errors import ExitCode
from lab.search.draw import RandomDraw, Space, Strategy, draw_trial
from lab.search.runner import Wire, run_trial, trials
from lab.search.space import words_of
from lab.search.suspicion import named
from lab.search.trial import Trial


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
        """Run it, and keep of its history the hash and what the checker finds.

        Without a violation, a lock that failed with an exception of its own leaves the seed unknown.
        """
        outcome = run_trial(self.trial(seed), self.wire)
        violations = [finding for finding in named(outcome) if finding.severity == "violation"]
        why = tuple(dict.fromkeys(f"{finding.name}: {finding.why}" for finding in violations))
        code = ExitCode.UNEXPECTED if violations else ExitCode.EXPECTED
        if outcome.failures and not violations:
            code, why = ExitCode.UNKNOWN, (outcome.failures[0].sentence,)
        return Row(
            seed,
            int(code),
            findings=tuple(dict.fromkeys(finding.name for finding in violations)),
            reasons=why,
            digest=outcome.digest(),
        )

    def identity(self) -> dict[str, Any]:
        """All that is drawn from."""
        space = asdict(self.space) | {"kinds": [kind.KEY for kind in self.space.kinds]}
        return {"space": space, "strategy": self.strategy, "wire": self.wire}

    def repeat(self, seed: int) -> str:
        """The campaign of this seed alone."""
        words = ["lab", "campaign", *words_of(self.space, self.strategy, self.wire)]
        return shlex.join([*words, "--seeds", str(seed), "--json"])
