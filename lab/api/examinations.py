"""Examining a lock against the reference of its kind, as ``lab test`` does."""

from __future__ import annotations

from pathlib import Path

from lab.examine import words
from lab.examine.command import Asked, examine
from lab.examine.junit import junit
from lab.examine.keep import keep
from lab.examine.kept import RESULT, directory_for
from lab.examine.options import parse_options
from lab.examine.replay import replay
from lab.examine.result import Examined

__all__ = ["RESULT", "Asked", "directory_for", "examine", "junit", "keep", "parse_options", "replay", "words"]


def test(asked: Asked, out: Path, command: str) -> Examined:
    """Examine a lock, and write the files of the result. Raises ``LabError``."""
    return keep(examine(asked), out, command=command).examined
