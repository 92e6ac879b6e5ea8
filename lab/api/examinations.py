"""Examining a lock against the reference of its kind, as ``lab test`` does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from lab.examine import command as of_command
from lab.examine.answer import words
from lab.examine.answer.junit import junit
from lab.examine.answer.keep import keep
from lab.examine.answer.on_real import run_on_real
from lab.examine.answer.replay import replay
from lab.examine.command import REAL, Asked, parse_options
from lab.examine.examination import Progress
from lab.examine.result import RESULT, Examined, Kept, directory_for

__all__ = [
    "RESULT",
    "Asked",
    "directory_for",
    "examine",
    "finish",
    "junit",
    "parse_options",
    "replay",
    "words",
]


def examine(asked: Asked, on_progress: Callable[[Progress], None] = lambda progress: None) -> Examined:
    """Examine a lock. Raises as ``lab.examine.command.examine`` does."""
    return of_command.examine(asked, on_progress)


def test(asked: Asked, out: Path, command: str) -> Examined:
    """Examine a lock, and write the files of the result. Raises ``LabError``."""
    return finish(examine(asked), asked, out, command=command).examined


def finish(examined: Examined, asked: Asked, out: Path, *, command: str) -> Kept:
    """Write the files of a result, and run a driver's defects on real Redis, in what is left of the budget.

    Raises:
        LabError: the files cannot be written.
    """
    began_s, left_s = time.monotonic(), max(0.0, examined.budget_s - examined.spent_s)
    real_s = min(left_s, REAL * examined.budget_s) if asked.runs_on_real else 0.0
    kept = keep(examined, out, command=command, limit_s=left_s - real_s)
    run_on_real(kept, asked, max(0.0, began_s + left_s - time.monotonic()))
    return kept
