"""What an examination asks of each trial, small enough to come from another process, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.examine.judge import Violation
from lab.examine.own_findings import all_violations
from lab.examine.result import Defect
from lab.search import loop
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a trial: all that is wrong in it by the finding's name, and which states faults hit.

    ``branches`` are the steps of the lock's code that were taken, ``grants`` how often a client was granted
    the lock, ``steps`` how much happened: what takes time in a trial.
    """

    violations: dict[str, Violation]
    covered: frozenset[tuple[str, str]]
    branches: frozenset[int]
    grants: int
    steps: int

    @classmethod
    def of(cls, outcome: Outcome) -> Tried:
        """What an examination keeps of an outcome; only inside ``trials``."""
        grants = sum((event["f"], event["type"]) == ("acquire", "ok") for event in outcome.events)
        return cls(all_violations(outcome), outcome.covered, outcome.branches, grants, outcome.steps)


def tried(trial: Trial) -> Tried:
    """Run a trial, and look at it. Raises what ``run_trial`` does."""
    return Tried.of(run_trial(trial))


@dataclass
class Progress(loop.Progress):
    """How far an examination is."""

    found: list[Defect] = field(default_factory=list)
    """The defects so far; the one at a place keeps its cause."""
    settled: int = 0
    """How many findings were made as small as there was time for, and decided by that."""
    branches: set[int] = field(default_factory=set)
    """The steps of the lock's code that were taken."""
    grants: int = 0
    """How often a client was granted the lock."""

    def note(self, answer: Tried) -> None:
        """Count a trial that was run."""
        super().note(answer)
        self.branches |= answer.branches

    @property
    def reached(self) -> int:
        """How much was reached that no schedule had reached before: states, and branches."""
        return len(self.covered) + len(self.branches)

    @property
    def defects(self) -> int:
        """How many there are so far."""
        return len(self.found)
