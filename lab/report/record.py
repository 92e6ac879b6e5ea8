"""The matrices in the gallery, for its index and docs/results.md; all numbers are from ``matrix.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lab.drivers import PREFIX
from lab.errors import LabError
from lab.report.page import PAGE
from lab.report.tables import markdown_table
from lab.report.words import verdict_words

MATRIX: Final = "matrix.json"
MARKDOWN: Final = "matrix.md"
CSV: Final = "matrix.csv"
NAME: Final = "matrix"
"""How the directories of the gallery begin that have one."""
BEGIN: Final = "<!-- The track record, written by `lab.report.docs` from the matrices in reports/gallery. -->"
END: Final = "<!-- The end of the track record. -->"
HEAD: Final = ("library", "what was seen", "verdict", "reproduced", "control clean", "shown by")


def read_kept(directory: Path) -> dict[str, Any]:
    """The content of ``matrix.json``. Raises ``LabError`` if there is none, or it is damaged."""
    path = directory / MATRIX
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(
            f"the matrix cannot be read: {error}",
            where=str(path),
            hint="lab suite --matrix --keep writes one",
        ) from error


def kept_in(gallery: Path) -> list[Path]:
    """The directories of the gallery that have a matrix, in the order of their names."""
    return sorted(path.parent for path in gallery.glob(f"{NAME}*/{MATRIX}"))


def matrix_sections(gallery: Path) -> list[str]:
    """What the gallery's index says of the matrices in it. Raises ``LabError``."""
    return [line for directory in kept_in(gallery) for line in _section(directory)]


def _section(directory: Path) -> list[str]:
    kept, name = read_kept(directory), directory.name
    files = {"the tables": MARKDOWN, "the page": PAGE, "a line per cell": CSV, "all of it": MATRIX}
    links = ", ".join(f"[{words}]({name}/{file})" for words, file in files.items())
    return [
        "",
        f"## {name}",
        "",
        f"{kept['title']}: {kept['summary'].partition(': ')[2]}.",
        "",
        f"{links[0].upper()}{links[1:]}. Each cell keeps the history of one of its runs, compressed; a test",
        f"checks all of them again, and so does `lab check reports/gallery/{name}/histories/….jsonl.gz`.",
    ]


def record_table(kept: Mapping[str, Any]) -> str:
    """The scenarios about libraries: which, the result, how often, and the command that shows it."""
    return markdown_table(HEAD, _rows(kept))


def with_record(text: str, gallery: Path) -> str:
    """A text with the track record between its two marks; the unchanged text if it has no marks.

    Raises:
        LabError: a matrix is damaged.
    """
    directories = kept_in(gallery)
    if BEGIN not in text or END not in text or not directories:
        return text
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    cells = [cell for directory in directories for cell in read_kept(directory)["cells"]]
    return f"{before}{BEGIN}\n\n{record_table({'cells': cells})}\n{END}{after}"


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
            verdict_words(cell["outcomes"], cell["findings"]),
            _rate(cell),
            f"{control['as_expected']} of {control['runs']}" if control else "–",
            f"`lab run {cell['scenario']}`",
        )


def _rate(cell: Mapping[str, Any]) -> str:
    low, high = cell["as_expected_wilson_95"]
    words = f"{cell['as_expected']} of {cell['runs']}"
    return f"{words} ({low:.0%} … {high:.0%})" if cell["runs"] > 1 else words
