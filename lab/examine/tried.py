"""What an examination asks of each trial; small enough to come from another process."""

from __future__ import annotations

from dataclasses import dataclass

from lab.examine.judge import Violation
from lab.examine.own_findings import all_violations
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a trial: all that is wrong in it by the finding's name, and which states faults hit.

    ``branches`` are the steps of the lock's code that were taken, ``grants`` how often a client was granted
    the lock, ``sendings`` how often one sent something to a node: what takes time in a trial.
    """

    violations: dict[str, Violation]
    covered: frozenset[tuple[str, str]]
    branches: frozenset[int]
    grants: int
    sendings: int

    @classmethod
    def of(cls, outcome: Outcome) -> Tried:
        """What an examination keeps of an outcome; only inside ``trials``."""
        grants = sum((event["f"], event["type"]) == ("acquire", "ok") for event in outcome.events)
        sendings = sum(len(nodes) for each in outcome.sendings.values() for nodes in each.targets)
        return cls(all_violations(outcome), outcome.covered, outcome.branches, grants, sendings)


def tried(trial: Trial) -> Tried:
    """Run a trial, and look at it. Raises what ``run_trial`` does."""
    return Tried.of(run_trial(trial))
