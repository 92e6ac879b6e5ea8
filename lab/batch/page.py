"""A batch as a page: its tables, with a link from each cell to its runs. No scripts, no requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.batch.item import library_of
from lab.batch.result import Cell, Result
from lab.batch.tables import (
    NOT_RUN,
    cell_rate,
    cell_text,
    cell_words,
    grid_of,
    lines_of,
    named,
    notes,
    summary,
)
from lab.errors import ExitCode
from lab.report.page import PAGE
from lab.report.page.assets import asset, sha256, template
from lab.report.timeline.words import clean
from lab.report.words import SHORT

WORDS_MAX = 600
"""How many characters of a reason a cell shows."""


def to_html(
    result: Result, links: Callable[[Cell], Sequence[str]], leads: str, *, seconds: bool = True
) -> str:
    """The page; ``links`` lead from a cell to its runs, relative to the page; ``leads`` describes them."""
    table = grid_of(result)
    style = asset("page.css") + asset("matrix.css")
    return template("matrix.html.jinja").render(
        name=clean(result.plan.name, 120),
        title=result.plan.title,
        summary=summary(result, seconds=seconds),
        leads=leads,
        columns=table.columns,
        rows=[
            {
                "name": row,
                "library": library_of(lock),
                "cells": [_cell(table.cells.get((row, column)), links) for column in table.columns],
            }
            for row, lock in table.rows.items()
        ],
        skipped=result.plan.skipped,
        record=[
            {
                "library": library_of(line.cell.item.lock),
                "cell": _cell(line.cell, links),
                "control": _cell(line.control, links) if line.control else None,
            }
            for line in lines_of(result)
        ],
        notes=[clean(note, WORDS_MAX) for note in notes(result)],
        style=style,
        style_hash=sha256(style),
    )


def reports_from(base: Path) -> Callable[[Cell], Sequence[str]]:
    """Links to the reports of all runs that have one, from a page in this directory."""

    def links(cell: Cell) -> Sequence[str]:
        pages = (Path(run.directory, PAGE) for run in cell.rows if run.directory)
        return [quote(os.path.relpath(page, base)) for page in pages]

    return links


def _text(cell: Cell) -> str:
    """What was violated, by its short names; else as in the grid of a terminal."""
    violated = named(cell, "violated") if cell.state == "known" else []
    if not violated:
        return cell_text(cell).partition(" ?")[0].removesuffix(", rest ?")
    times = f" ({cell.violated()} of {len(cell.known)} runs)" if len(cell.known) > 1 else ""
    return ", ".join(SHORT[name] for name in violated) + times


def _cell(cell: Cell | None, links: Callable[[Cell], Sequence[str]]) -> dict[str, Any]:
    if cell is None:
        return {"text": NOT_RUN, "words": "not in the plan", "status": "none", "links": [], "open": []}
    if cell.survey:
        status = {"known": "bad" if cell.violated() else "fine", "unknown": "doubt"}.get(cell.state, "none")
    else:
        status = {ExitCode.EXPECTED: "fine", ExitCode.UNEXPECTED: "bad"}.get(cell.exit_code, "doubt")
    unknown = named(cell, "unknown") if cell.state == "known" else []
    return {
        "open": [SHORT[name] for name in unknown],
        "text": _text(cell),
        "words": clean(cell_words(cell), WORDS_MAX),
        "status": status,
        "links": list(links(cell)),
        "scenario": cell.item.name,
        "title": cell.item.title,
        "lock": cell.item.lock_label,
        "rate": cell_rate(cell),
        "command": cell.command,
    }
