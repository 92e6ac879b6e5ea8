"""A batch in a form for the repository: small, without paths of this machine, with histories to check again.

Each cell has the history of one run, compressed; the same history gives the same bytes.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from checker.formats.whole import write_whole
from lab.batch.page import to_html
from lab.batch.result import Cell, Result
from lab.batch.row import Row
from lab.batch.tables import markdown, summary, to_csv
from lab.errors import LabError, cannot_write
from lab.report.page import PAGE
from lab.report.record import CSV, MARKDOWN, MATRIX
from lab.report.servers import SERVERS
from lab.run.recorder import HISTORY

HISTORIES: Final = "histories"
ELSEWHERE: Final = "choose another directory with --keep"
_SUFFIX: Final = ".jsonl.gz"


def keep(result: Result, out: Path) -> None:
    """Write the form into a directory, in place of an earlier one.

    Raises:
        LabError: it cannot be written, or has something else in it (exit code 2).
    """
    names = _names(result)
    cleaned = _without_paths(result)
    try:
        _emptied(out)
        packed = {cell.item.id: content for cell in result.cells if (content := _packed(cell)) is not None}
        for name, content in packed.items():
            path = out / names[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)

        def links(cell: Cell) -> Sequence[str]:
            return [names[cell.item.id]] if cell.item.id in packed else []

        data = {**cleaned.to_dict(rows=False), "summary": summary(cleaned, seconds=False)}
        for cell, entry in zip(cleaned.cells, data["cells"], strict=True):
            entry |= _history(cell, names[cell.item.id] if cell.item.id in packed else None)
        write_whole(out / MATRIX, msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
        write_whole(out / MARKDOWN, markdown(cleaned, seconds=False))
        write_whole(out / CSV, to_csv(cleaned))
        leads = "the history of one of its runs, which `lab check` reads"
        write_whole(out / PAGE, to_html(cleaned, links, leads, seconds=False))
    except OSError as error:
        raise cannot_write("the tables", error, where=str(out), hint=ELSEWHERE) from error


def compressed(content: bytes) -> bytes:
    """Content as gzip without name and time: the same bytes for the same content."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def keepable(out: Path | None) -> None:
    """Check that the form can be written into a directory. Raises ``LabError``."""
    if out is None:
        return
    forms = (MATRIX, SERVERS)
    if out.exists() and not (
        out.is_dir() and (not any(out.iterdir()) or any((out / form).is_file() for form in forms))
    ):
        raise LabError(
            "something else is there",
            where=str(out),
            expected=f"a directory that is new, or empty, or has a {MATRIX}",
            hint="choose another with --keep",
        )


def _emptied(out: Path) -> None:
    """Remove an earlier form."""
    keepable(out)
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / HISTORIES, ignore_errors=True)


def _packed(cell: Cell) -> bytes | None:
    """The history of the shown run; None if there is none."""
    run = cell.shown
    if run is None or run.directory is None:
        return None
    path = Path(run.directory, HISTORY)
    return compressed(path.read_bytes()) if path.is_file() else None


def _history(cell: Cell, name: str | None) -> dict[str, Any]:
    """The history of a cell, and the checker's verdict on it."""
    run = cell.shown
    if name is None or run is None:
        return {"history": None}
    return {"history": {"file": name, "outcomes": run.outcomes, "findings": list(run.findings)}}


def _names(result: Result) -> dict[str, str]:
    """Cell → the file of its history, relative to the directory."""
    found: dict[str, str] = {}
    for cell in result.cells:
        place = "/".join(map(_word, (HISTORIES, cell.item.lock_label, cell.item.name)))
        taken = set(found.values())
        candidates = (place, *(f"{place}-{number}" for number in range(2, len(taken) + 3)))
        found[cell.item.id] = next(f"{one}{_SUFFIX}" for one in candidates if f"{one}{_SUFFIX}" not in taken)
    return found


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "x"


def _without_paths(result: Result) -> Result:
    """The result without paths of this machine: the user's home, and the directories of runs."""
    home = str(Path.home())

    def clean(text: str) -> str:
        return text.replace(home, "~") if len(home) > 1 else text

    def cleaned(row: Row) -> Row:
        return replace(
            row, directory=None, refused=clean(row.refused), reasons=tuple(map(clean, row.reasons))
        )

    cells = tuple(
        replace(
            cell,
            item=replace(cell.item, why_not=clean(cell.item.why_not)),
            rows=tuple(map(cleaned, cell.rows)),
        )
        for cell in result.cells
    )
    return replace(result, cells=cells)
