"""The files drawn for a run, in its directory: the timeline, and the page."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from lab.run.result import RunResult

Picture = Literal["always", "unexpected", "never"]
"""Which runs get a timeline: all, only those with an unexpected result, or none."""


def write_files(result: RunResult, picture: Picture = "always") -> tuple[Path, ...]:
    """Write the page of a run, and draw its timeline if wanted; an error in it must not cost the verdict."""
    wanted = picture == "always" or (picture == "unexpected" and not result.as_expected)
    drawn = _kept("timeline", _timeline, result) if wanted else []  # first: the page links to it
    return (*_kept("page", _page, result), *drawn)


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
    except Exception:
        logging.getLogger("lab").exception("the %s could not be made; the verdict stands", what)
        return []
