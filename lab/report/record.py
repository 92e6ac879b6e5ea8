"""The matrix that is kept in the gallery, as the gallery's index and the README tell of it.

Nothing is said here that does not stand in its ``matrix.json``, so that no number can drift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lab.drivers import PREFIX
from lab.errors import LabError
from lab.report.page import PAGE
from lab.report.tables import markdown_table

MATRIX: Final = "matrix.json"
MARKDOWN: Final = "matrix.md"
CSV: Final = "matrix.csv"
NAME: Final = "matrix"
"""Its directory in the gallery."""
BEGIN: Final = (
    "<!-- The track record, written by `lab.report.docs` from reports/gallery/matrix/matrix.json. -->"
)
END: Final = "<!-- The end of the track record. -->"
HEAD: Final = ("library", "what was seen", "reproduced", "control clean", "shown by")


def read_kept(directory: Path) -> dict[str, Any]:
    """What stands in ``matrix.json``. Raises ``LabError`` if there is none, or it is damaged."""
    path = directory / MATRIX
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(
            f"the matrix cannot be read: {error}",
            where=str(path),
            hint="lab suite --matrix --keep writes one",
        ) from error


def matrix_section(gallery: Path) -> list[str]:
    """What the gallery's index says of the matrix in it; nothing if there is none. Raises ``LabError``."""
    directory = gallery / NAME
    if not (directory / MATRIX).is_file():
        return []
    kept = read_kept(directory)
    files = {"the tables": MARKDOWN, "the page": PAGE, "a line per cell": CSV, "all of it": MATRIX}
    links = ", ".join(f"[{words}]({NAME}/{file})" for words, file in files.items())
    return [
        "",
        f"## {NAME}",
        "",
        f"{kept['title']}: {kept['summary'].partition(': ')[2]}.",
        "",
        f"{links[0].upper()}{links[1:]}. Each cell keeps the history of one of its runs, compressed; a test",
        f"checks all of them again, and so does `lab check reports/gallery/{NAME}/histories/….jsonl.gz`.",
    ]


def record_table(kept: Mapping[str, Any]) -> str:
    """The stories about libraries: which, what was seen, how often, and the command that shows it."""
    return markdown_table(HEAD, _rows(kept))


def with_record(text: str, gallery: Path) -> str:
    """A text with the track record between its two marks; the text itself if it has none.

    Raises:
        LabError: the matrix is damaged.
    """
    directory = gallery / NAME
    if BEGIN not in text or END not in text or not (directory / MATRIX).is_file():
        return text
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{record_table(read_kept(directory))}\n{END}{after}"


def _rows(kept: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    cells = [cell for cell in kept["cells"] if cell["own"] and cell["lock"].startswith(PREFIX)]
    controls = {cell["control_of"]: cell for cell in cells if cell["control_of"]}
    last = ""
    for cell in cells:
        if cell["control_of"]:
            continue
        library = "" if cell["library"] == last else cell["library"]
        last = cell["library"]
        control = controls.get(cell["scenario"])
        yield (
            library,
            cell["title"],
            _rate(cell),
            f"{control['as_expected']} of {control['runs']}" if control else "–",
            f"`lab run {cell['scenario']}`",
        )


def _rate(cell: Mapping[str, Any]) -> str:
    low, high = cell["as_expected_wilson_95"]
    words = f"{cell['as_expected']} of {cell['runs']}"
    return f"{words} ({low:.0%} … {high:.0%})" if cell["runs"] > 1 else words
