"""The page of a matrix: its tables, with a link from each cell to its runs. No script, and no request."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.batch.matrix.model import Cell, Matrix, library_of, lines_of, table_of
from lab.report.matrix import NOT_RUN, cell_rate, cell_text, cell_words, legend, notes, summary
from lab.report.page import PAGE
from lab.report.page.assets import asset, sha256, template
from lab.report.timeline.words import clean

WORDS_MAX = 600
"""How many characters of a reason a cell tells."""


def matrix_page(matrix: Matrix, links: Callable[[Cell], Sequence[str]], leads: str) -> str:
    """The page; ``links`` says where the runs of a cell are, seen from the page, ``leads`` what is there."""
    table = table_of(matrix)
    style = asset("page.css") + asset("matrix.css")
    return template("matrix.html.jinja").render(
        name=clean(matrix.name, 120),
        title=matrix.title,
        summary=summary(matrix),
        legend=legend(),
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
        skipped=matrix.skipped,
        record=[
            {
                "library": library_of(line.story.lock),
                "story": _cell(line.story, links),
                "control": _cell(line.control, links) if line.control else None,
            }
            for line in lines_of(matrix)
        ],
        notes=[clean(note, WORDS_MAX) for note in notes(matrix)],
        style=style,
        style_hash=sha256(style),
    )


def reports_from(base: Path) -> Callable[[Cell], Sequence[str]]:
    """Links to the reports of all runs that left one, from a page in this directory."""

    def links(cell: Cell) -> Sequence[str]:
        pages = (Path(run.directory, PAGE) for run in cell.runs if run.directory)
        return [quote(os.path.relpath(page, base)) for page in pages]

    return links


def _cell(cell: Cell | None, links: Callable[[Cell], Sequence[str]]) -> dict[str, Any]:
    if cell is None:
        return {"text": NOT_RUN, "words": "not asked for", "mood": "none", "links": []}
    moods = {"known": "bad" if cell.violated() else "fine", "unknown": "doubt"}
    return {
        "text": cell_text(cell),
        "words": clean(cell_words(cell), WORDS_MAX),
        "mood": moods.get(cell.state, "none"),
        "links": list(links(cell)),
        "scenario": cell.scenario,
        "title": cell.title,
        "lock": cell.row,
        "rate": cell_rate(cell),
        "command": cell.command,
    }
