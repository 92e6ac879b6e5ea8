"""The form of a matrix that is kept with the code: small, nothing of this machine in it, to be checked again.

Each cell keeps the history of one run, compressed; with the same history the file is the same, to the byte.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from lab.batch.matrix.model import Cell, Matrix
from lab.errors import LabError
from lab.report.matrix import matrix_csv, matrix_markdown, summary
from lab.run.recorder import HISTORY

HISTORIES: Final = "histories"
MATRIX: Final = "matrix.json"
MARKDOWN: Final = "matrix.md"
CSV: Final = "matrix.csv"
_SUFFIX: Final = ".jsonl.gz"


def keep(matrix: Matrix, out: Path) -> None:
    """Write the form into a directory, in place of what stood there of another one.

    Raises:
        LabError: it cannot be written, or has something else in it (exit code 2).
    """
    from lab.report.page import PAGE
    from lab.report.page.matrix import matrix_page  # the template engine

    told = _told_anywhere(matrix)
    names = _names(told)
    try:
        _emptied(out)
        packed = {cell.id: _packed(cell) for cell in matrix.cells}
        for cell in matrix.cells:
            content = packed[cell.id]
            if content is not None:
                path = out / names[cell.id]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

        def links(cell: Cell) -> Sequence[str]:
            return [names[cell.id]] if packed[cell.id] is not None else []

        data = {**told.to_dict(), "summary": summary(told)}
        for cell, entry in zip(told.cells, data["cells"], strict=True):
            entry |= _history(cell, names[cell.id] if packed[cell.id] is not None else None)
        (out / MATRIX).write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
        (out / MARKDOWN).write_text(matrix_markdown(told), encoding="utf-8")
        (out / CSV).write_text(matrix_csv(told), encoding="utf-8", newline="")
        (out / PAGE).write_text(
            matrix_page(told, links, "the history of one of its runs, which `lab check` reads"),
            encoding="utf-8",
        )
    except OSError as error:
        raise LabError(
            f"the matrix cannot be kept: {error.strerror or error}",
            where=str(error.filename or out),
            expected="a directory that can be made and written",
            hint="choose another with --keep",
        ) from error


def read_kept(directory: Path) -> dict[str, Any]:
    """What stands in ``matrix.json``. Raises ``LabError`` if there is none, or it is damaged."""
    path = directory / MATRIX
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(
            f"the matrix cannot be read: {error}", where=str(path), hint="lab matrix --keep writes one"
        ) from error


def compressed(content: bytes) -> bytes:
    """The same bytes for the same content: no name and no time in it."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def keepable(out: Path | None) -> None:
    """The same of the directory of the kept form. Raises ``LabError``."""
    if out is None:
        return
    if out.exists() and not (out.is_dir() and (not any(out.iterdir()) or (out / MATRIX).is_file())):
        raise LabError(
            "something else is there",
            where=str(out),
            expected=f"a directory that is new, or empty, or has a {MATRIX}",
            hint="choose another with --keep",
        )


def _emptied(out: Path) -> None:
    """Take away what an earlier matrix left."""
    keepable(out)
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / HISTORIES, ignore_errors=True)


def _packed(cell: Cell) -> bytes | None:
    """The history of the run that stands for the others; None if there is none."""
    run = cell.shown
    if run is None or run.directory is None:
        return None
    path = Path(run.directory, HISTORY)
    return compressed(path.read_bytes()) if path.is_file() else None


def _history(cell: Cell, name: str | None) -> dict[str, Any]:
    """Which history a cell keeps, and what the checker said of it."""
    run = cell.shown
    if name is None or run is None:
        return {"history": None}
    return {"history": {"file": name, "outcomes": run.outcomes, "findings": list(run.findings)}}


def _names(matrix: Matrix) -> dict[str, str]:
    """Cell → the file of its history, seen from the directory."""
    found: dict[str, str] = {}
    for cell in matrix.cells:
        place = "/".join(map(_word, (HISTORIES, cell.row, cell.scenario)))
        taken = set(found.values())
        candidates = (place, *(f"{place}-{number}" for number in range(2, len(taken) + 3)))
        found[cell.id] = next(f"{one}{_SUFFIX}" for one in candidates if f"{one}{_SUFFIX}" not in taken)
    return found


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "x"


def _told_anywhere(matrix: Matrix) -> Matrix:
    """The matrix without what is true on this machine only: the user's home, and where runs were left."""
    home = str(Path.home())

    def clean(text: str) -> str:
        return text.replace(home, "~") if len(home) > 1 else text

    cells = tuple(
        msgspec.structs.replace(
            cell,
            why_not=clean(cell.why_not),
            runs=tuple(
                msgspec.structs.replace(
                    run,
                    directory=None,
                    refused=clean(run.refused),
                    reasons=tuple(map(clean, run.reasons)),
                )
                for run in cell.runs
            ),
        )
        for cell in matrix.cells
    )
    return msgspec.structs.replace(matrix, cells=cells)
