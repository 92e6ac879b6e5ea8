"""The self-test in the terminal and as Markdown: each mutant, what caught it, and how soon."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lab.batch.selftest.model import Row, Selftest
from lab.report.tables import markdown_table

HEADINGS: Final = ("mutant", "what is broken", "caught by", "finding", "schedules", "seconds", "witness")
RESULTS: Final = {"caught": "", "survived": "SURVIVED ", "control": "NO PROOF ", "unknown": "UNKNOWN "}
WIDTH_FOR_FILES: Final = 200
NOTE: Final = "<!-- Written by `lab selftest --markdown`. -->"


@contextlib.contextmanager
def selftest_progress(
    console: Console, ways: int, runs: int
) -> Iterator[tuple[Callable[[Row], None], Callable[[], None]]]:
    """Give a function that is told each row, and one that is told that a run of the real lock ended.

    Only what was not caught is a line of its own; where somebody looks on there are two bars.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        mutants = progress.add_task("broken locks", total=ways)
        real = progress.add_task("the real lock", total=runs)

        def on_row(row: Row) -> None:
            progress.advance(mutants)
            if row.result != "caught":
                console.print(f"{RESULTS[row.result]}{row.mutant}: {'; '.join(row.reasons)}", markup=False)

        def on_run() -> None:
            progress.advance(real)

        yield on_row, on_run


def _cells(row: Row, *, short: bool) -> tuple[str, ...]:
    proof = row.why if not row.reasons else "; ".join(row.reasons)
    events = f"events {', '.join(map(str, row.witness))}" if row.witness and not row.reasons else ""
    if events:
        proof = events if short else f"{events}: {proof}"
    return (
        row.mutant,
        row.breaks,
        f"{RESULTS[row.result]}{row.by}",
        row.finding,
        str(row.schedules),
        f"{row.seconds:.2f}",
        proof,
    )


def _sentences(ended: Selftest) -> Iterator[tuple[str, str]]:
    """What it all came to, line by line, with a style."""
    caught, tried = len(ended.caught), len(ended.mutants)
    style = "green" if caught == tried else "bold red"
    yield f"{caught} of {tried} broken locks are caught by the finding that each must give", style
    for each in ended.innocence:
        words = f"{each.lock}, {each.where}: accused in {len(each.accused)} of {each.runs} runs"
        unknown = f", unknown in {len(each.unknown)}" if each.unknown else ""
        yield words + unknown, "bold red" if each.accused else "yellow" if each.unknown else "green"
        for words in (*each.accused, *each.unknown)[:5]:
            yield f"  {words}", "yellow"
    yield f"{ended.seconds:.1f} s", "dim"


def print_selftest(console: Console, ended: Selftest) -> None:
    """Print the table and what it comes to."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in HEADINGS:
        right = name in ("schedules", "seconds")
        table.add_column(name, overflow="fold", justify="right" if right else "left")
    for row in ended.rows:
        style = "" if row.result == "caught" else "bold red"
        table.add_row(*(Text(cell, style) for cell in _cells(row, short=True)))
    wide = console if console.is_terminal else Console(emoji=False, highlight=False, width=WIDTH_FOR_FILES)
    wide.print(table)
    for words, style in _sentences(ended):
        console.print(Text(words, style), soft_wrap=True)


def selftest_markdown(ended: Selftest) -> str:
    """The same as Markdown."""
    lines = "".join(f"- {words.strip()}\n" for words, _ in _sentences(ended))
    table = markdown_table(HEADINGS, (_cells(row, short=False) for row in ended.rows))
    return f"# Broken locks, and what caught them\n\n{NOTE}\n\n{table}\n{lines}"
