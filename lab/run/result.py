"""The result of a run: its verdict compared with the expectation, and its files."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from checker import HistoryError, load
from checker.history.history import History
from checker.verdict import Verdict
from lab.analysis.analyse import analyse
from lab.analysis.belief import CrossCheck
from lab.analysis.comparison import Comparison
from lab.analysis.metrics import Measures
from lab.errors import ExitCode, LabError
from lab.run.directory import RunDirectory
from lab.scenario.load import LoadedScenario, load_scenario
from lab.servers import Server
from lab.substrates import is_simulated


@dataclass(frozen=True)
class RunResult:
    """A finished run and its verdict.

    Args:
        directory: the run's directory: scenario, history, verdict, pictures.
        name: the scenario's.
        verdict: the checker's.
        comparison: what in it differs from the expectation, and what is unknown.
        measures: how soon and how often the lock was acquired; of a workload only.
        belief: belief windows compared with the presence of tokens on the nodes; it decides nothing.
        environment: the substrate, the server (`redis@7.0.15`), and the versions of what else ran.
        timings_s: how long each part took, in seconds.
        repeat: the command that repeats it; None if it is not known.
    """

    directory: Path
    name: str
    verdict: Verdict
    comparison: Comparison = field(default_factory=Comparison)
    measures: Measures | None = None
    belief: CrossCheck | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    timings_s: Mapping[str, float] = field(default_factory=dict)
    repeat: str | None = None

    @classmethod
    def of(
        cls,
        directory: RunDirectory,
        loaded: LoadedScenario,
        *,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
        timings_s: Mapping[str, float] | None = None,
        repeat: str | None = None,
    ) -> RunResult:
        """Check the history in a run's directory against its scenario. Raises ``LabError``: it is damaged."""
        history = load_history(directory)
        found = analyse(history, loaded.scenario, _server(environment or {}))
        about = environment or {}, timings_s or {}, repeat
        result = cls(directory.path, name or loaded.name, *found, *about)
        result.__dict__.update(history=history, loaded=loaded)  # as the cached properties below would
        return result

    @cached_property
    def history(self) -> History:
        """The history: operations, faults with their receipts, observations. Raises ``LabError``."""
        return load_history(RunDirectory.existing(self.directory))

    @cached_property
    def loaded(self) -> LoadedScenario:
        """The scenario as it was run. Raises ``LabError``."""
        return load_scenario(self.directory / "scenario.yaml")

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state: history and scenario are read again from the directory."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def exit_code(self) -> ExitCode:
        """That of ``lab run``: 0 as expected, 1 not, 3 unknown."""
        return self.comparison.exit_code

    @property
    def simulated(self) -> bool:
        """Whether it took place in virtual time."""
        return is_simulated(self.environment.get("substrate", ""))

    @property
    def server(self) -> Server | None:
        """What the nodes were, as they reported themselves; None if that is not recorded."""
        return _server(self.environment)

    @property
    def servers(self) -> str:
        """Product and version of the nodes for people, "simulated Redis 7.0.15"; empty if not recorded."""
        return self.server.words if self.server is not None else ""

    @property
    def as_expected(self) -> bool:
        """Whether the result is as its scenario expects; ``unknown`` never is."""
        return self.exit_code == ExitCode.EXPECTED

    @property
    def outcomes(self) -> dict[str, str]:
        """Property → ok, violated, unknown or absent."""
        return {str(name): str(seen.outcome) for name, seen in self.verdict.properties.items()}

    @property
    def findings(self) -> tuple[str, ...]:
        """The names of the violations that were found, each once."""
        found = (one.name for seen in self.verdict.properties.values() for one in seen.violations)
        return tuple(dict.fromkeys(found))

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The events of the history file, without header and footer. Raises ``LabError``."""
        lines = RunDirectory.existing(self.directory).history.read_bytes().splitlines()
        return [event for event in map(msgspec.json.decode, lines) if "process" in event]

    def explain(self) -> str:
        """The result as text: a line for each property, and the directory."""
        words = {0: "as expected", 1: "NOT as expected"}.get(self.exit_code, "UNKNOWN")
        lines = [f"{self.name}: {words}" + (f" ({self.servers})" if self.servers else "")]
        for name, seen in self.verdict.properties.items():
            lines.append(f"  {str(name).replace('_', ' ')}: {seen.outcome}: {seen.why}")
        lines += [f"  unknown: {reason}" for reason in self.comparison.unknown]
        lines += [f"  report: {self.directory}"]
        return "\n".join([*lines, f"  repeat: {self.repeat}"] if self.repeat else lines)

    def to_dict(self) -> dict[str, Any]:
        """The content of ``verdict.json``."""
        content: dict[str, Any] = {
            "scenario": self.name,
            "exit_code": int(self.exit_code),
            "expected": dict(self.loaded.scenario.on(self.server).expect.outcomes),
            "mismatches": [msgspec.to_builtins(one) for one in self.comparison.mismatches],
            "unknown": list(self.comparison.unknown),
            "verdict": self.verdict.to_dict(),
            "environment": dict(self.environment),
            "timings_s": {part: round(seconds, 3) for part, seconds in self.timings_s.items()},
            "repeat": self.repeat,
        }
        if self.measures is not None:
            content["measures"] = self.measures.to_dict()
            content["schedule"] = RunDirectory.existing(self.directory).read_schedule()
        if self.belief is not None:
            content["belief_and_truth"] = self.belief.to_dict()
        return content

    def write(self) -> None:
        """Write the verdict beside the history. Raises ``LabError``: it cannot be written."""
        text = msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2)
        RunDirectory(self.directory, self.directory.name).write_verdict(text + b"\n")


def _server(environment: Mapping[str, str]) -> Server | None:
    with contextlib.suppress(ValueError):
        return Server.parse(environment.get("server", ""))
    return None


def load_history(directory: RunDirectory) -> History:
    """The history of a run. Raises ``LabError``: it is damaged."""
    try:
        return load(directory.history)
    except HistoryError as error:
        raise LabError(str(error), hint="the history was changed after the run: run it again") from error
