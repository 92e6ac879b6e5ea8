"""The results of a batch: in the terminal, as Markdown, CSV and JSON.

The grid of a survey has one letter per violated property (``LETTERS``), so that it fits on a screen. All
other results are in one table, each scenario beside its control.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from rich.console import Console
from rich.text import Text

from lab.batch.item import Item, library_of
from lab.batch.rate import Interval
from lab.batch.result import Cell, Result, State
from lab.batch.row import Row
from lab.errors import ExitCode
from lab.report.meanings import PROMISES
from lab.report.tables import grid, markdown_table, plain, print_table
from lab.report.words import SHORT, verdict_words

LETTERS: Final = {str(name): one.letter for name, one in PROMISES.items() if one.letter}
"""Property → its letter in the grid."""
NOT_RUN: Final = "·"
HEAD: Final = (
    "scenario", "lock", "version", "on", "verdict", "as expected", "its control", "as expected", "receipts",
    "seconds",
)  # fmt: skip
VERDICT: Final = 4
CONTROL: Final = 6


class Grid(NamedTuple):
    """Rows of locks (and the library's lock of each), columns of scenarios; ``cells`` by (row, column)."""

    rows: dict[str, str]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


class Line(NamedTuple):
    """A scenario with one lock, and its control where that was run beside it."""

    cell: Cell
    control: Cell | None


def grid_of(result: Result) -> Grid:
    """The scenarios of a survey that have several locks; with several substrates, a column for each."""
    shared = _shared(result)
    cells = [cell for cell in result.cells if cell.item.name in shared]
    substrates = {cell.item.on for cell in cells}

    def column(item: Item) -> str:
        return f"{item.name} ({item.on})" if len(substrates) > 1 else item.name

    rows = {cell.item.lock_label: cell.item.lock for cell in cells}
    columns = dict.fromkeys(column(cell.item) for cell in cells)
    return Grid(rows, tuple(columns), {(cell.item.lock_label, column(cell.item)): cell for cell in cells})


def lines_of(result: Result) -> tuple[Line, ...]:
    """The scenarios that are not in the grid, each with its control."""
    shared = _shared(result)
    alone = [cell for cell in result.cells if cell.item.name not in shared]
    controls: dict[tuple[str, str, str], Cell] = {}
    keys = {(cell.item.name, cell.item.lock_label, cell.item.on) for cell in alone}
    for cell in alone:
        controlled = cell.item.control_of, cell.item.lock_label, cell.item.on
        if controlled in keys:
            controls.setdefault(controlled, cell)
    beside = {cell.item.id for cell in controls.values()}
    return tuple(
        Line(cell, controls.pop((cell.item.name, cell.item.lock_label, cell.item.on), None))
        for cell in alone
        if cell.item.id not in beside
    )


def _shared(result: Result) -> frozenset[str]:
    locks: dict[str, set[str]] = {}
    for cell in result.cells if result.plan.survey else ():
        locks.setdefault(cell.item.name, set()).add(cell.item.lock_label)
    return frozenset(name for name, several in locks.items() if len(several) > 1)


def legend() -> str:
    """The meaning of the grid's cells."""
    letters = ", ".join(f"{letter} {SHORT[name]}" for name, letter in LETTERS.items())
    return (
        f"Violated: {letters}. ok: nothing was violated. ?D: D was not decided; rest ?: all others were not. "
        f"?: nothing is known. n/a: cannot be run. {NOT_RUN}: not requested."
    )


def cell_text(cell: Cell | None) -> str:
    """A cell of the grid in a few characters."""
    if cell is None:
        return NOT_RUN
    if cell.state != "known":
        return {"n/a": "n/a", "unknown": "?", "missing": "–"}[cell.state]
    violated = "".join(LETTERS[name] for name in named(cell, "violated"))
    open_ = "".join(LETTERS[name] for name in named(cell, "unknown"))
    words = violated or "ok"
    if len(cell.known) > 1:
        words += f" {cell.violated()}/{len(cell.known)}"
    if len(open_) > 1 and len(violated + open_) == len(LETTERS):
        return f"{words}, rest ?"
    return f"{words} ?{open_}" if open_ else words


def named(cell: Cell, outcome: str) -> list[str]:
    """The properties of the grid with this outcome."""
    return [name for name in LETTERS if cell.outcomes.get(name) == outcome]


def cell_style(cell: Cell | None) -> str:
    """Its colour in a terminal."""
    if cell is None or cell.state in ("n/a", "missing"):
        return "dim"
    if not cell.survey or cell.item.own:
        return style_of(cell.exit_code)
    return "yellow" if cell.state == "unknown" else "red" if cell.violated() else "green"


def style_of(code: int) -> str:
    """Green: as expected; red: not; yellow: unknown."""
    return {int(ExitCode.EXPECTED): "green", int(ExitCode.UNEXPECTED): "bold red"}.get(code, "yellow")


def cell_words(cell: Cell) -> str:
    """A cell in words."""
    if cell.survey:
        if cell.state == "known":
            return verdict_words(cell.outcomes, cell.findings)
        words = first_line(cell.reason)
        return words if cell.state == "missing" else f"{'n/a' if cell.state == 'n/a' else 'UNKNOWN'}: {words}"
    words = rows_words(cell.rows)
    if cell.missing:
        missing = f"UNKNOWN: {cell.missing} of {cell.item.repeat} runs did not take place"
        words = missing if all(row.as_expected for row in cell.rows) else f"{words}; {missing}"
    return words


def rows_words(rows: Sequence[Row]) -> str:
    """The result of some runs of one item, in words: that of the worst of them."""

    def badness(row: Row) -> tuple[bool, bool]:
        return not row.as_expected, row.exit_code == ExitCode.UNEXPECTED

    worst = max(rows, key=badness, default=None)
    if worst is None or worst.as_expected:
        return (
            " / ".join(dict.fromkeys(row.words or verdict_words(row.outcomes, row.findings) for row in rows))
            or "–"
        )
    head = "NOT as expected" if worst.exit_code == ExitCode.UNEXPECTED else "UNKNOWN"
    return f"{head}: {'; '.join(worst.reasons) or 'no reason was given'}"


def cell_rate(cell: Cell) -> str:
    """How often it was as expected; where nothing is expected, how often anything was violated."""
    if cell.item.own or not cell.survey:
        return rate_words(cell.as_expected, len(cell.rows), cell.as_expected_rate)
    return f"violated in {rate_words(cell.violated(), len(cell.known), cell.rate)}"


def rate_words(hits: int, runs: int, rate: Interval) -> str:
    """``k of n``, and the confidence interval of the rate if there is more than one run."""
    words = f"{hits} of {runs}"
    return f"{words} ({rate.low:.0%} … {rate.high:.0%})" if runs > 1 else words


def row_line(item: Item, row: Row, *, survey: bool) -> Text:
    """One line about a run that has ended."""
    cell = Cell(msgspec.structs.replace(item, repeat=1), (row,), survey)
    words = cell_words(cell)
    if row.as_expected and not survey:
        words = f"as expected: {words}"
    return Text.assemble(
        (f"{row.wall_s:6.1f} s  ", "dim"), (item.id, "bold"), ": ", (words, cell_style(cell))
    )


def line_cells(line: Line) -> tuple[str, ...]:
    """One line of the table of scenarios."""
    cell, control = line
    rows = (*cell.rows, *(control.rows if control else ()))
    received, faults = sum(row.receipts for row in rows), sum(row.faults for row in rows)
    return (
        cell.item.name,
        cell.item.lock_label,
        library_of(cell.item.lock),
        cell.item.on,
        cell_words(cell),
        cell_rate(cell),
        cell_words(control) if control else NOT_RUN,
        cell_rate(control) if control else NOT_RUN,
        f"{received} of {faults}" if faults else "no fault" if any(row.directory for row in rows) else "",
        f"{sum(row.wall_s for row in rows) / len(rows):.1f}" if rows else "",
    )


def _table(result: Result) -> tuple[tuple[str, ...], list[tuple[str, ...]], tuple[int, ...]]:
    """Head and lines of the table of scenarios without its empty columns; the indices of those it has."""
    lines = [line_cells(line) for line in lines_of(result)]
    kept = tuple(
        at for at in range(len(HEAD)) if any(line[at] not in ("", NOT_RUN) for line in lines) or at == VERDICT
    )
    head = tuple(HEAD[at] for at in kept)
    return head, [tuple(line[at] for at in kept) for line in lines], kept


def print_result(console: Console, result: Result) -> None:
    """Print the tables, why cells are empty, and a summary."""
    table = grid_of(result)
    if table.columns:
        drawn = grid(("lock", *(str(number) for number in range(1, len(table.columns) + 1))))
        for row in table.rows:
            cells = [table.cells.get((row, column)) for column in table.columns]
            drawn.add_row(Text(row, "bold"), *(Text(cell_text(cell), cell_style(cell)) for cell in cells))
        print_table(console, drawn)
        for number, name in enumerate(table.columns, 1):
            console.print(f"{number:>3} {name}", style="dim", markup=False)
        console.print(legend(), style="dim", markup=False)
    head, body, kept = _table(result)
    if body:
        drawn = grid(head, right=("seconds",))
        for line, words in zip(lines_of(result), body, strict=True):
            styles = {VERDICT: cell_style(line.cell), CONTROL: cell_style(line.control), 0: "bold"}
            drawn.add_row(*(Text(word, styles.get(at, "")) for at, word in zip(kept, words, strict=True)))
        print_table(console, drawn)
    for words_ in notes(result):
        console.print(words_, style="yellow", markup=False)
    console.print(Text(summary(result), style_of(result.exit_code)), soft_wrap=True)


def notes(result: Result) -> Iterator[str]:
    """Why locks were left out, and cells of a survey are empty, each reason once."""
    for one in result.plan.skipped:
        yield f"skipped: {one.lock}: {one.reason}"
    cells = result.cells if result.plan.survey else ()
    for state, word in (("n/a", "n/a"), ("unknown", "unknown")):
        found: dict[str, list[str]] = {}
        for cell in (cell for cell in cells if cell.state == state):
            found.setdefault(cell.reason, []).append(cell.item.id)
        for reason, ids in found.items():
            yield f"{word}: {', '.join(ids)}: {first_line(reason)}"
    for cell in cells:
        if cell.state == "known" and cell.unknown:
            why = next((row.reasons[0] for row in cell.rows if not row.is_known and row.reasons), "no reason")
            yield f"unknown: {cell.unknown} of {len(cell.rows)} runs of {cell.item.id}: {first_line(why)}"


def first_line(reason: str) -> str:
    """The first line of a reason; the lines after it say where, and what to do."""
    return reason.strip().partition("\n")[0]


def summary(result: Result, *, seconds: bool = True) -> str:
    """The result in one line."""
    name, runs = result.plan.name, len(result.rows)
    took = f" ({result.seconds:.1f} s)" if seconds else ""
    if result.servers:
        took = f" on {' and '.join(result.servers)}{took}"
    if not result.plan.survey:
        well, wrong, unknown = (result.count(code) for code in (ExitCode(0), ExitCode(1), ExitCode(3)))
        counted = f"{well} of {len(result.cells)} as expected, {wrong} not, {unknown} unknown"
        return f"{name}: {counted}; {runs} runs{took}"
    states: tuple[State, ...] = ("known", "n/a", "unknown", "missing")
    count = {state: sum(cell.state == state for cell in result.cells) for state in states}
    counts = [f"{count[state]} {state}" for state in states if state != "missing"]
    if count["missing"]:
        counts.append(f"{count['missing']} not run yet")
    words = f"{name}: {len(result.cells)} cells: {', '.join(counts)}; {runs} runs"
    if own := [cell for cell in result.cells if cell.item.own and cell.rows]:
        well = sum(cell.as_expected for cell in own)
        words += f"; with its own lock {well} of {sum(len(cell.rows) for cell in own)} as expected"
    return words + took


def markdown(result: Result, *, seconds: bool = True) -> str:
    """The tables as Markdown, with the commands that repeat the runs that were not as expected."""
    parts = [f"### {result.plan.title}", summary(result, seconds=seconds)]
    table = grid_of(result)
    if table.columns:
        body = (
            (row, library_of(lock), *(cell_text(table.cells.get((row, name))) for name in table.columns))
            for row, lock in table.rows.items()
        )
        parts += [markdown_table(("lock", "version", *table.columns), body).rstrip("\n"), legend()]
    head, lines, _ = _table(result)
    if lines:
        parts.append(markdown_table(head, lines).rstrip("\n"))
    if noted := list(notes(result)):
        parts.append("\n".join(f"- {plain(words)}" for words in noted))
    if repeats := to_repeat(result):
        parts += ["To repeat:", "\n".join(f"- `{command}`" for command in repeats)]
    return "\n\n".join(parts) + "\n"


def to_repeat(result: Result) -> list[str]:
    """The commands that repeat the runs that were not as expected, where anything is expected."""
    return [row.repeat for cell in result.cells for row in cell.rows if cell.code_of(row) and row.repeat]


CSV_HEAD: Final = (
    "lock", "label", "library", "scenario", "on", "state", *LETTERS, "findings",
    "runs", "unknown", "violated", "low", "high", "own", "as_expected", "seconds", "reason", "command",
)  # fmt: skip


def to_csv(result: Result) -> str:
    """A line per item, with a head."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_HEAD, restval="", extrasaction="ignore")
    writer.writeheader()
    for cell in result.cells:
        fields = cell.to_dict()
        known = fields["state"] == "known"
        fields |= fields["outcomes"] | {
            "findings": " ".join(fields["findings"]),
            "violated": fields["violated"] if known else "",
            "low": f"{cell.rate.low:.4f}" if known else "",
            "high": f"{cell.rate.high:.4f}" if known else "",
            "own": "yes" if fields["own"] else "no",
            "seconds": f"{cell.wall_s:.1f}" if cell.rows else "",
        }
        writer.writerow({name: "" if value is None else value for name, value in fields.items()})
    return text.getvalue()


def to_json(value: object) -> bytes:
    """Indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
