"""Examining a lock against the reference of its kind, as ``lab test`` does."""

from __future__ import annotations

from pathlib import Path

from lab.examine import words
from lab.examine.command import Asked, examine
from lab.examine.junit import junit
from lab.examine.keep import keep, limit_s
from lab.examine.kept import RESULT, directory_for
from lab.examine.on_real import real_limit_s, run_on_real
from lab.examine.options import parse_options
from lab.examine.replay import replay
from lab.examine.result import Examined

__all__ = [
    "RESULT",
    "Asked",
    "directory_for",
    "examine",
    "junit",
    "keep",
    "limit_s",
    "parse_options",
    "real_limit_s",
    "replay",
    "run_on_real",
    "words",
]


def test(asked: Asked, out: Path, command: str) -> Examined:
    """Examine a lock, and write the files of the result. Raises ``LabError``."""
    kept = keep(examine(asked), out, command=command, limit_s=limit_s(asked.budget_s))
    run_on_real(kept, asked)
    return kept.examined
