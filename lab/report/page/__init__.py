"""The page of a run: one HTML file with everything in it, for reading, zooming and printing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from checker.formats.whole import write_whole

if TYPE_CHECKING:
    from lab.run.result import RunResult

__all__ = ["PAGE", "write_page"]

PAGE = "index.html"


def write_page(result: RunResult, directory: Path) -> Path:
    """Write ``index.html`` into a directory; the file needs no other file and no network.

    Args:
        result: the run.
        directory: an existing directory; links lead to those of the run's files that are in it.

    Raises:
        OSError: it cannot be written.
    """
    from lab.report.page.build import page  # the template engine is not needed by most commands

    path = directory / PAGE
    write_whole(path, page(result, directory))
    return path
