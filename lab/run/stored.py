"""Stored runs: read from their directories and checked again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from lab.errors import LabError
from lab.run.directory import RunDirectory
from lab.run.recorder import recover
from lab.run.result import RunResult
from lab.scenario.load import load_scenario


def read_run(path: Path) -> RunResult:
    """Check a stored run again, without writing a verdict.

    If the lab was killed during the run, the history is made from its logs.

    Raises:
        LabError: it is no run's directory, or its files are damaged.
    """
    directory = RunDirectory.existing(path)
    if not directory.history.exists() and recover(directory.path) is None:
        raise LabError(
            "this directory holds no history",
            where=str(directory.path),
            expected="history.jsonl, or the logs of a run that was killed",
            hint="is it the directory of a run? see reports/",
        )
    return RunResult.of(directory, load_scenario(directory.scenario), **_as_run(directory.verdict))


def _as_run(path: Path) -> dict[str, Any]:
    """What only the run itself knows: its name, substrate and versions, timings, how to repeat it."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        names = {"scenario": "name", "environment": "environment", "timings_s": "timings_s"}
        return {names.get(name, name): kept[name] for name in (*names, "repeat") if name in kept}
    return {}
