"""A run that ended, for programs: its verdict, its history, and why it came out as it did."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import ExitCode


@dataclass(frozen=True)
class LabResult:
    """A run that ended, and what the checker says about it.

    Args:
        exit_code: as of ``lab run``: 0 as expected, 1 not, 3 unknown.
        directory: the run's directory, with history, verdict and, if there is one, the picture.
        repeat: the command that repeats it; empty where no command can.
    """

    exit_code: int
    directory: Path
    repeat: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether it came out as its scenario says; ``unknown`` never does."""
        return self.exit_code == ExitCode.EXPECTED

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """What stands in ``verdict.json``."""
        read: dict[str, Any] = msgspec.json.decode((self.directory / "verdict.json").read_bytes())
        return read

    @property
    def outcomes(self) -> dict[str, str]:
        """Property → ok, violated, unknown or absent."""
        return {name: seen["outcome"] for name, seen in self._properties.items()}

    @property
    def findings(self) -> tuple[str, ...]:
        """The names of the violations that were found, each once."""
        found = [
            finding["name"]
            for seen in self._properties.values()
            for finding in seen["findings"]
            if finding["severity"] == "violation"
        ]
        return tuple(dict.fromkeys(found))

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The history: operations, faults with their receipts, observations."""
        lines = (self.directory / "history.jsonl").read_bytes().splitlines()
        return [event for event in map(msgspec.json.decode, lines) if "process" in event]

    def explain(self) -> str:
        """Why it came out as it did, a line for each property, and where to look."""
        words = {0: "as expected", 1: "NOT as expected"}.get(self.exit_code, "UNKNOWN")
        lines = [f"{self.verdict['scenario']}: {words}"]
        lines += [
            f"  {name.replace('_', ' ')}: {seen['outcome']}: {seen['why']}"
            for name, seen in self._properties.items()
        ]
        lines += [f"  unknown: {reason}" for reason in self.verdict["unknown"]]
        lines += [f"  report: {self.directory}"]
        return "\n".join([*lines, f"  repeat: {self.repeat}"] if self.repeat else lines)

    @property
    def _properties(self) -> dict[str, Any]:
        properties: dict[str, Any] = self.verdict["verdict"]["properties"]
        return properties
