"""The files drawn for a run, in its directory: the timeline, and the page."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from lab.errors import ELSEWHERE, ExitCode, LabError, cannot_write
from lab.run.result import RunResult

Picture = Literal["always", "unexpected", "never"]
"""Which runs get a timeline: all, only those with an unexpected result, or none."""


class Written(NamedTuple):
    """The files that were written for a run, and why one could not be, if the disk is full, for example."""

    files: tuple[Path, ...]
    lost: LabError | None = None

    def exit_code(self, result: RunResult) -> ExitCode:
        """That of the run, but unknown if a file is lost; a violation that was not expected is certain."""
        if self.lost is None or result.exit_code == ExitCode.UNEXPECTED:
            return result.exit_code
        return ExitCode.UNKNOWN


def write_files(result: RunResult, picture: Picture = "always") -> Written:
    """Write the page of a run, and draw its timeline if wanted; an error in it must not cost the verdict.

    That a file cannot be written is logged, and once: what hinders one hinders the next.
    """
    wanted = picture == "always" or (picture == "unexpected" and not result.as_expected)
    drawn: list[Path] = []
    try:
        if wanted:
            drawn = _kept("timeline", _timeline, result)  # first: the page links to it
        return Written((*_kept("page", _page, result), *drawn))
    except OSError as error:
        name = Path(error.filename or "").name or "the report"
        hint = f"{ELSEWHERE}; `lab check` writes it when there is room"
        lost = cannot_write(name, error, where=str(result.directory), hint=hint)
        logging.getLogger("lab").error("%s", lost.render())
        return Written(tuple(drawn), lost)


def preload(picture: Picture) -> None:
    """Import what writing them needs, while the run is waiting anyway."""
    from lab.report.page import build  # noqa: F401 - imported for later
    from lab.report.timeline import preload

    if picture == "always":
        preload()


def _timeline(result: RunResult) -> list[Path]:
    from lab.report.timeline import draw_timeline  # matplotlib is heavy

    return draw_timeline(result.history, result.verdict, result.loaded.scenario.title, result.directory)


def _page(result: RunResult) -> list[Path]:
    from lab.report.page import write_page

    return [write_page(result, result.directory)]


def _kept(what: str, draw: Callable[[RunResult], list[Path]], result: RunResult) -> list[Path]:
    try:
        return draw(result)
    except Exception as error:
        if isinstance(error, OSError) and Path(error.filename or "").parent == result.directory:
            raise  # it cannot be written; others come of drawing it
        logging.getLogger("lab").exception("the %s could not be made; the verdict stands", what)
        return []
