"""A suite in the terminal, while it runs and when it has ended, and as Markdown."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lab.batch.suite.load import Entry, labelled
from lab.batch.suite.results import EntryResult, SuiteResult
from lab.batch.verdicts import OneRun
from lab.errors import ExitCode
from lab.report.tables import WIDTH_FOR_FILES, markdown_table, run_words

HEADINGS: Final = ("scenario", "lock", "on", "result", "as expected", "seconds")
LAST: Final = 8
"""How many of the runs that have ended are shown while others run."""

OnStart = Callable[[Entry], None]
OnEnd = Callable[[Entry, OneRun], None]


@contextlib.contextmanager
def suite_progress(console: Console, entries: Sequence[Entry]) -> Iterator[tuple[OnStart, OnEnd]]:
    """Give functions that are told each run that begins and ends.

    In a terminal there is a table of what runs and what ended last; elsewhere a line for each run that ended.
    """
    board = _Board(entries)
    if not console.is_terminal:

        def tell(entry: Entry, run: OneRun) -> None:
            board.end(entry, run)
            console.print(_line(entry, run), soft_wrap=True)

        yield board.start, tell
        return
    with Live(board, console=console, refresh_per_second=4, transient=True):
        yield board.start, board.end


class _Board:
    """The live table."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._total = sum(entry.repeat for entry in entries)
        self._running: list[tuple[Entry, float]] = []
        self._last: list[Text] = []
        self._codes: list[int] = []

    def start(self, entry: Entry) -> None:
        self._running.append((entry, time.monotonic()))

    def end(self, entry: Entry, run: OneRun) -> None:
        at = next(at for at, (other, _) in enumerate(self._running) if other.id == entry.id)
        del self._running[at]
        self._codes.append(run.exit_code)
        self._last = [*self._last, _line(entry, run)][-LAST:]

    def __rich__(self) -> Group:
        table = Table.grid(padding=(0, 2))
        for entry, began_s in self._running:
            table.add_row(Text("running", "cyan"), entry.id, f"{time.monotonic() - began_s:.0f} s")
        wrong = sum(code == ExitCode.UNEXPECTED for code in self._codes)
        well = sum(code == ExitCode.EXPECTED for code in self._codes)
        unknown = len(self._codes) - wrong - well
        counts = Text(
            f"{len(self._codes)} of {self._total} runs: {well} as expected, {wrong} not, {unknown} unknown",
            "bold red" if wrong else "yellow" if unknown else "bold",
        )
        return Group(*self._last, table, counts)


def _line(entry: Entry, run: OneRun) -> Text:
    words, code = run_words([run])
    told = f"as expected: {words}" if code == ExitCode.EXPECTED else words
    return Text.assemble((f"{run.wall_s:6.1f} s  ", "dim"), (entry.id, "bold"), ": ", (told, _style(code)))


def _style(code: int) -> str:
    return {int(ExitCode.EXPECTED): "green", int(ExitCode.UNEXPECTED): "bold red"}.get(code, "yellow")


def _cells(entry: EntryResult) -> tuple[str, ...]:
    words, code = run_words(entry.runs)
    if len(entry.runs) < entry.wanted:
        missing = f"UNKNOWN: {entry.wanted - len(entry.runs)} of {entry.wanted} runs did not take place"
        words = missing if code == ExitCode.EXPECTED else f"{words}; {missing}"
    rate = f"{entry.as_expected} of {len(entry.runs)}"
    if len(entry.runs) > 1:
        rate += f" ({entry.rate.low:.0%} … {entry.rate.high:.0%})"
    seconds = sum(run.wall_s for run in entry.runs)
    scenario = entry.id.split("/")[0]
    return scenario, labelled(entry.lock, entry.label), entry.on, words, rate, f"{seconds:.1f}"


def _sum(result: SuiteResult) -> str:
    well, wrong = result.count(ExitCode.EXPECTED), result.count(ExitCode.UNEXPECTED)
    unknown = result.count(ExitCode.UNKNOWN)
    return (
        f"{result.name}: {well} of {len(result.entries)} as expected, {wrong} not, {unknown} unknown "
        f"({result.seconds:.1f} s)"
    )


def print_suite(console: Console, result: SuiteResult) -> None:
    """Print every entry, and what it all came to."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in HEADINGS:
        table.add_column(name, overflow="fold", justify="right" if name == "seconds" else "left")
    for entry in result.entries:
        style = _style(entry.exit_code)
        table.add_row(*(Text(cell, style if at == 3 else "") for at, cell in enumerate(_cells(entry))))
    wide = console if console.is_terminal else Console(emoji=False, highlight=False, width=WIDTH_FOR_FILES)
    wide.print(table)
    console.print(Text(_sum(result), _style(result.exit_code)), soft_wrap=True)


def suite_markdown(result: SuiteResult) -> str:
    """The same as Markdown, with the commands that repeat what did not come out as expected."""
    repeats = [f"- `{run.repeat}`\n" for entry in result.entries for run in entry.runs if not run.as_expected]
    table = markdown_table(HEADINGS, map(_cells, result.entries))
    again = "\nTo repeat:\n\n" + "".join(repeats) if repeats else ""
    return f"### {result.title}\n\n{_sum(result)}\n\n{table}{again}"
