"""What an examination leaves behind, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.examine.result import Examined
from lab.report.page import PAGE

RESULT: Final = "result.json"


@dataclass
class Kept:
    """The result with the paths of its files, and pictures as PNG by the numbers of defects."""

    examined: Examined
    directory: Path
    pictures: dict[int, bytes] = field(default_factory=dict)

    @property
    def page(self) -> Path:
        """The page's file."""
        return self.directory / PAGE


def directory_for(lock: str, seed: int) -> Path:
    """Where the files are if nothing else is asked for."""
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in lock)
    return Path("reports") / f"test-{plain}-{seed}"
