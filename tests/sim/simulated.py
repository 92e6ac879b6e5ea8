"""Running scenarios in the simulation, in this process, without pictures."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checker import Verdict
from lab.analysis.comparison import Mismatch
from lab.run import run
from lab.run.events import Listener, RunEvent
from lab.run.request import RunRequest


@dataclass(frozen=True)
class Simulated:
    """The result of one run."""

    directory: Path
    verdict: Verdict
    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]
    lines: list[str]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of its history."""
        lines = (self.directory / "history.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines[1:-1]]


def fingerprint(directory: Path) -> str:
    """Hash the bytes of a run's history."""
    return hashlib.sha256((directory / "history.jsonl").read_bytes()).hexdigest()


def run_in_simulation(name: str, seed: int, out: Path, settings: list[str] | None = None) -> Simulated:
    """Run a scenario and check its history against its expectation."""
    lines = Lines()
    result = run(RunRequest(name, tuple(settings or ()), seed=seed, substrate="sim", out=out), lines)
    compared = result.comparison
    return Simulated(result.directory, result.verdict, compared.mismatches, compared.unknown, lines.so_far)


class Lines(Listener):
    """Keeps the lines of the output."""

    def __init__(self) -> None:
        self.so_far: list[str] = []

    def event(self, event: RunEvent) -> None:
        self.so_far.append(f"{event.actor} {event.text}")
