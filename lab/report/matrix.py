"""A matrix in the terminal, as Markdown and as CSV: locks × scenarios, and stories with one lock alone.

In the table a letter stands for each property that was violated, so that a screen holds it: see ``LETTERS``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from lab.batch.matrix.model import Cell, Line, Matrix, State, Table, is_known, library_of, lines_of, table_of
from lab.batch.suite.load import Entry
from lab.batch.verdicts import OneRun
from lab.errors import ExitCode
from lab.report.tables import WIDTH_FOR_FILES, markdown_table
from lab.report.words import SHORT, verdict_words
from lab.search.tally import Interval

LETTERS: Final = {
    "mutual_exclusion": "M",
    "lease_honesty": "H",
    "fencing": "F",
    "resource": "R",
    "deadlock_freedom": "D",
    "fault_tolerance": "T",
}
"""How a violated property stands in a cell."""
NOT_RUN: Final = "·"
RECORD: Final = (
    "lock",
    "version",
    "story",
    "verdict",
    "as expected",
    "its control",
    "as expected",
    "seconds",
)


def legend() -> str:
    """What stands in the cells, in a sentence."""
    letters = ", ".join(f"{letter} {SHORT[name]}" for name, letter in LETTERS.items())
    return (
        f"Violated: {letters}. ok: nothing was violated; a letter behind ? was not decided. "
        f"?: nothing is known. n/a: cannot be run. {NOT_RUN}: not asked for."
    )


def cell_text(cell: Cell | None) -> str:
    """A cell in a few characters."""
    if cell is None:
        return NOT_RUN
    if cell.state != "known":
        return {"n/a": "n/a", "unknown": "?", "missing": "–"}[cell.state]
    violated = "".join(letter for name, letter in LETTERS.items() if cell.outcomes.get(name) == "violated")
    open_ = "".join(letter for name, letter in LETTERS.items() if cell.outcomes.get(name) == "unknown")
    words = violated or "ok"
    if len(cell.known) > 1:
        words += f" {cell.violated()}/{len(cell.known)}"
    return f"{words} ?{open_}" if open_ else words


def cell_style(cell: Cell | None) -> str:
    """How it is coloured in a terminal."""
    if cell is None or cell.state in ("n/a", "missing"):
        return "dim"
    if cell.state == "unknown":
        return "yellow"
    return "red" if cell.violated() else "green"


def cell_words(cell: Cell) -> str:
    """A cell in words."""
    if cell.state == "n/a":
        return f"n/a: {cell.reason}"
    if cell.state == "unknown":
        return f"UNKNOWN: {first_line(cell.reason)}"
    if cell.state == "missing":
        return cell.reason
    return verdict_words(cell.outcomes, cell.findings)


def cell_rate(cell: Cell) -> str:
    """How often: of a scenario with its own lock as it expects, of others how often anything was violated."""
    if cell.own:
        return rate_words(cell.as_expected, len(cell.runs), cell.as_expected_rate)
    return f"violated in {rate_words(cell.violated(), len(cell.known), cell.rate)}"


def rate_words(hits: int, runs: int, rate: Interval) -> str:
    """``k of n``, and between which rates the true one lies if there is more than one run."""
    words = f"{hits} of {runs}"
    return f"{words} ({rate.low:.0%} … {rate.high:.0%})" if runs > 1 else words


def ended_line(entry: Entry, run: OneRun) -> Text:
    """One line about a run that has ended."""
    if run.refused:
        told, style = f"n/a: {run.refused}", "dim"
    elif is_known(run):
        told = verdict_words(run.outcomes, run.findings)
        style = "red" if "violated" in run.outcomes.values() else "green"
        if entry.own and run.exit_code == ExitCode.UNEXPECTED:
            told, style = f"NOT as expected: {'; '.join(run.reasons)}", "bold red"
    else:
        told, style = f"UNKNOWN: {first_line(run.reasons[0]) if run.reasons else 'no word'}", "yellow"
    return Text.assemble((f"{run.wall_s:6.1f} s  ", "dim"), (entry.id, "bold"), ": ", (told, style))


def print_matrix(console: Console, matrix: Matrix) -> None:
    """Print the tables, why cells are empty, and what it all came to."""
    wide = console
    if not console.is_terminal:
        wide = Console(file=console.file, emoji=False, highlight=False, width=WIDTH_FOR_FILES)
    table = table_of(matrix)
    if table.columns:
        wide.print(_grid(table))
        for number, name in enumerate(table.columns, 1):
            console.print(f"{number:>3} {name}", style="dim", markup=False)
        console.print(legend(), style="dim", markup=False)
    lines = lines_of(matrix)
    if lines:
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in RECORD:
            grid.add_column(name, overflow="fold", justify="right" if name == "seconds" else "left")
        for line in lines:
            style = "green" if line_is_well(line) else "bold red"
            grid.add_row(
                *(Text(cell, style if at in (4, 6) else "") for at, cell in enumerate(record_cells(line)))
            )
        wide.print(grid)
    for words in notes(matrix):
        console.print(words, style="yellow", markup=False)
    style = {ExitCode.EXPECTED: "green", ExitCode.UNEXPECTED: "bold red"}.get(matrix.exit_code, "yellow")
    console.print(summary(matrix), style=style, markup=False)


def _grid(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("lock", overflow="fold")
    for number in range(1, len(table.columns) + 1):
        grid.add_column(str(number), overflow="fold")
    for row in table.rows:
        cells = [table.cells.get((row, column)) for column in table.columns]
        grid.add_row(Text(row, "bold"), *(Text(cell_text(cell), cell_style(cell)) for cell in cells))
    return grid


def line_is_well(line: Line) -> bool:
    """Whether a story and its control came out as expected in every run."""
    cells = [cell for cell in (line.story, line.control) if cell is not None]
    return all(cell.as_expected == len(cell.runs) > 0 for cell in cells if cell.own)


def record_cells(line: Line) -> tuple[str, ...]:
    """One line of the list of stories."""
    story, control = line.story, line.control
    seconds = [cell.wall_s for cell in (story, control) if cell is not None and cell.runs]
    return (
        story.row,
        library_of(story.lock),
        story.scenario,
        cell_words(story),
        cell_rate(story),
        cell_words(control) if control else NOT_RUN,
        cell_rate(control) if control else NOT_RUN,
        f"{sum(seconds) / len(seconds):.1f}" if seconds else "",
    )


def notes(matrix: Matrix) -> Iterator[str]:
    """Why rows and cells are empty, each reason once."""
    for one in matrix.skipped:
        yield f"skipped: {one.row}: {one.reason}"
    for state, word in (("n/a", "n/a"), ("unknown", "unknown")):
        for reason, cells in _by_reason(cell for cell in matrix.cells if cell.state == state).items():
            yield f"{word}: {', '.join(cells)}: {first_line(reason)}"
    for cell in matrix.cells:
        if cell.state == "known" and cell.unknown:
            reason = next(
                (run.reasons[0] for run in cell.runs if not is_known(run) and run.reasons), "no word"
            )
            yield f"unknown: {cell.unknown} of {len(cell.runs)} runs of {cell.id}: {first_line(reason)}"


def first_line(reason: str) -> str:
    """What a reason begins with; what follows says where, and what to do."""
    return reason.strip().partition("\n")[0]


def _by_reason(cells: Iterable[Cell]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for cell in cells:
        found.setdefault(cell.reason, []).append(cell.id)
    return found


def summary(matrix: Matrix) -> str:
    """What it all came to, in a line."""
    runs = sum(len(cell.runs) for cell in matrix.cells)
    own = [cell for cell in matrix.cells if cell.own and cell.runs]
    states: tuple[State, ...] = ("known", "n/a", "unknown")
    counts = [f"{matrix.count(state)} {state}" for state in states]
    if missing := matrix.count("missing"):
        counts.append(f"{missing} not run yet")
    words = f"{matrix.name}: {len(matrix.cells)} cells: {', '.join(counts)}; {runs} runs"
    if own:
        well = sum(cell.as_expected for cell in own)
        words += f"; with its own lock {well} of {sum(len(cell.runs) for cell in own)} as expected"
    return words


def matrix_markdown(matrix: Matrix) -> str:
    """All of it as Markdown."""
    parts = [f"### {matrix.title}", summary(matrix)]
    table = table_of(matrix)
    if table.columns:
        head = ("lock", "version", *table.columns)
        body = (
            (row, library_of(lock), *(cell_text(table.cells.get((row, name))) for name in table.columns))
            for row, lock in table.rows.items()
        )
        parts += [markdown_table(head, body).rstrip("\n"), legend()]
    if lines := lines_of(matrix):
        parts.append(markdown_table(RECORD, map(record_cells, lines)).rstrip("\n"))
    if told := list(notes(matrix)):
        parts.append("\n".join(f"- {plain(words)}" for words in told))
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text in which Markdown finds nothing to do, on one line."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|" else char for char in " ".join(text.split()))


CSV_HEAD: Final = (
    "lock", "label", "library", "scenario", "on", "state", *LETTERS, "findings",
    "runs", "unknown", "violated", "low", "high", "own", "as_expected", "seconds", "reason", "command",
)  # fmt: skip


def matrix_csv(matrix: Matrix) -> str:
    """A line per cell, with a head."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_HEAD)
    writer.writerows(_csv_cells(cell) for cell in matrix.cells)
    return text.getvalue()


def _csv_cells(cell: Cell) -> Sequence[object]:
    known = cell.state == "known"
    return (
        cell.lock,
        cell.label,
        library_of(cell.lock),
        cell.scenario,
        cell.on,
        cell.state,
        *(cell.outcomes.get(name, "") for name in LETTERS),
        " ".join(cell.findings),
        len(cell.runs),
        cell.unknown,
        cell.violated() if known else "",
        f"{cell.rate.low:.4f}" if known else "",
        f"{cell.rate.high:.4f}" if known else "",
        "yes" if cell.own else "no",
        cell.as_expected if cell.own else "",
        f"{cell.wall_s:.1f}" if cell.runs else "",
        cell.reason,
        cell.command,
    )
