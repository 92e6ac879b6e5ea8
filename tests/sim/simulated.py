"""Running scenarios in the simulation, in this process, without pictures."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from checker import Verdict, load
from checker.check import check
from lab.analysis.comparison import Mismatch, compare, compare_operations
from lab.run.execution import Run, RunOptions
from lab.scenario.load import load_scenario
from lab.substrates.sim.simulate import simulate


@dataclass(frozen=True)
class Simulated:
    """What came out of one run."""

    directory: Path
    verdict: Verdict
    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]
    aborted: str | None
    told: list[str]


def fingerprint(directory: Path) -> str:
    """Hash the bytes of a run's history."""
    return hashlib.sha256((directory / "history.jsonl").read_bytes()).hexdigest()


def lived(
    name: str, seed: int, out: Path, settings: list[str] | None = None
) -> tuple[Path, str | None, list[str]]:
    """Carry a scenario out up to its history: the directory, why it was aborted, and what was told."""
    told: list[str] = []
    run = Run(
        load_scenario(name, settings or []),
        RunOptions(seed, out, "", "sim"),
        lambda line: told.append(f"{line.actor} {line.text}"),
    )
    ended = simulate(run.prepare(), seed)
    return ended.directory.path, ended.aborted, told


def run_in_simulation(name: str, seed: int, out: Path, settings: list[str] | None = None) -> Simulated:
    """Run a scenario and check its history against its expectation."""
    directory, aborted, told = lived(name, seed, out, settings)
    history = load(directory / "history.jsonl")
    verdict, scenario = check(history), load_scenario(name, settings or []).scenario
    mismatches, unknown = compare(verdict, scenario.expect)
    mismatches += compare_operations(history, scenario)
    return Simulated(directory, verdict, mismatches, unknown, aborted, told)
