"""``lab test --replay``: run a kept trial or scenario again, with other seeds, and count what it shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from lab.batch.scenario_task import ScenarioTask, simulated
from lab.errors import ExitCode, UnknownOutcome
from lab.examine.answer.narrative import schedule_words
from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.violations.judge import Violation
from lab.scenario.load import load_scenario
from lab.search.loop import variant
from lab.search.replay import read_trial
from lab.search.runner import run_trial, trials
from lab.search.space import must_run_in_virtual_time

TIMES: Final = 20
"""With how many seeds it is run."""
TRIAL: Final = ".json"


@dataclass
class Replayed:
    """What a kept trial or scenario shows when it is run again.

    ``violated`` of ``of`` runs violated something, ``unknown`` came to no verdict, the first of them for
    the reason ``why_unknown``; ``shown`` says how many had each finding. ``headline``, ``evidence`` and
    ``causes`` are those of the first run that violated.
    """

    path: str
    lock: str
    of: int = TIMES
    violated: int = 0
    unknown: int = 0
    why_unknown: str = ""
    shown: Counter[str] = field(default_factory=Counter)
    headline: str = ""
    evidence: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    schedule: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """1 if something was violated, 3 if nothing was but not all runs came to a verdict, else 0."""
        if self.violated:
            return ExitCode.UNEXPECTED
        return ExitCode.UNKNOWN if self.unknown else ExitCode.EXPECTED

    def count(self, found: dict[str, Violation]) -> bool:
        """Count one run; whether it is the first that violated something."""
        self.shown.update(found.keys())
        self.violated += bool(found)
        if self.violated != 1 or not found:
            return False
        first = next(iter(found.values()))
        self.headline, self.evidence = first.headline, first.evidence
        return True

    def to_json(self) -> bytes:
        """All of it, for programs."""
        data: dict[str, Any] = {**vars(self), "exit_code": int(self.exit_code)}
        return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


def replay(path: Path) -> Replayed:
    """Run a kept trial (``.json``) or a scenario so often, with other seeds.

    Raises:
        LabError: no such file, it is damaged, or its lock is not there or cannot be simulated.
    """
    return _trial(path) if path.suffix == TRIAL else _scenario(path)


def _trial(path: Path) -> Replayed:
    trial = read_trial(path)
    replayed = Replayed(str(path), trial.lock, schedule=schedule_words(trial))
    with trials():
        for number in range(TIMES):
            each = variant(trial, number) if number else trial
            try:
                found = all_violations(run_trial(each))
            except UnknownOutcome as error:
                replayed.unknown += 1
                replayed.why_unknown = replayed.why_unknown or error.seen
                continue
            if replayed.count(found):
                first = next(iter(found.values()))
                causes = causes_of(each, first.finding)
                replayed.causes = tuple(dict.fromkeys(cause.seen for cause in causes))[:1]
    return replayed


def _scenario(path: Path) -> Replayed:
    loaded = load_scenario(path)
    must_run_in_virtual_time(loaded.scenario.lock.name)
    replayed = Replayed(str(path), loaded.scenario.lock.name, schedule=(loaded.scenario.why.strip(),))
    with ScenarioTask.of(loaded, str(path)).session():
        for seed in range(TIMES):
            run = simulated(loaded, seed)
            found = {
                each.name: Violation(each.name, each.headline or each.why, each.evidence)
                for seen in run.verdict.properties.values()
                for each in seen.violations
            }
            if run.aborted and not found:
                replayed.unknown += 1
                replayed.why_unknown = replayed.why_unknown or run.aborted
            replayed.count(found)
    return replayed
