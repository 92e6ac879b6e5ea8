"""A scenario as the task of a campaign: simulated with each seed, and compared with its expectation."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

from checker import Verdict, check, load
from checker.history.history import History
from lab.analysis.comparison import compare
from lab.batch.row import Row
from lab.drivers.place import virtual_time_of
from lab.errors import ExitCode
from lab.run import many_runs
from lab.run.execution import Run
from lab.run.request import Plan
from lab.scenario.load import LoadedScenario, load_text
from lab.substrates.execute import execute_on


class Simulated(NamedTuple):
    """A simulated run: the verdict, why it was aborted, if it was, and the history with its hash."""

    verdict: Verdict
    aborted: str | None
    digest: str
    history: History


def simulated(loaded: LoadedScenario, seed: int) -> Simulated:
    """Simulate a scenario once."""
    with tempfile.TemporaryDirectory(prefix="lock-lab-campaign-") as scratch:
        on = virtual_time_of(loaded.scenario.lock.name)
        plan = Plan(loaded, seed, on, "asked for", Path(scratch), "")
        recorded = execute_on(on, seed, Run(plan).prepare())
        path = recorded.directory.history
        history = load(path)
        return Simulated(check(history), recorded.aborted, sha256(path.read_bytes()).hexdigest(), history)


@dataclass(frozen=True, slots=True)
class ScenarioTask:
    """A scenario by its text: the same on every machine; ``words`` is the command that runs it."""

    name: str
    text: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, loaded: LoadedScenario, given: str) -> Self:
        """The task for a scenario that was ``given`` as a name or a path."""
        on = virtual_time_of(loaded.scenario.lock.name)
        overrides = [word for override in loaded.overrides for word in ("--set", override)]
        return cls(loaded.name, loaded.text, ("lab", "run", given, "--on", on, *overrides))

    def session(self) -> AbstractContextManager[None]:
        """Prepare the process for many runs in virtual time."""
        return many_runs()

    def __call__(self, seed: int) -> Row:
        """Simulate it, and keep the verdict and the hash of its history."""
        loaded = load_text(self.text, self.name)
        verdict, aborted, digest, history = simulated(loaded, seed)
        compared = compare(verdict, history, loaded.scenario)
        code = ExitCode.UNKNOWN if aborted and not compared.is_certain else compared.exit_code
        wrong = tuple(f"{m.what}: {m.seen}, not {m.expected}" for m in compared.mismatches)
        found = tuple(dict.fromkeys(f.name for seen in verdict.properties.values() for f in seen.violations))
        return Row(
            seed,
            int(code),
            {str(name): str(seen.outcome) for name, seen in verdict.properties.items()},
            found,
            (*((aborted,) if aborted else ()), *wrong, *compared.unknown),
            digest,
        )

    def identity(self) -> dict[str, Any]:
        """The scenario as it is run."""
        return {"scenario": self.text}

    def repeat(self, seed: int) -> str:
        """``lab run`` with this seed."""
        return shlex.join([*self.words, "--seed", str(seed)])
