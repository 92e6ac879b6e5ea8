"""The table of verdicts, in a terminal and as Markdown; and what all tables share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.batch.verdicts import OneRun, Row
from lab.errors import ExitCode
from lab.report.words import verdict_words

VERDICTS = ("scenario", "verdict", "its control", "as expected", "receipts", "time (beyond the story)")
WIDTH_FOR_FILES = 160
"""How wide a table is drawn, in characters, where no terminal says how wide it may be."""


def run_words(runs: Sequence[OneRun]) -> tuple[str, int]:
    """What some runs of one scenario came to, in words, and the exit code of the worst of them."""
    if not runs:
        return "–", ExitCode.EXPECTED
    worst = max(runs, key=lambda run: (not run.as_expected, run.exit_code == ExitCode.UNEXPECTED))
    if worst.as_expected:
        words = dict.fromkeys(verdict_words(run.outcomes, run.findings) for run in runs)
        return " / ".join(words), ExitCode.EXPECTED
    head = "NOT as expected" if worst.exit_code == ExitCode.UNEXPECTED else "UNKNOWN"
    return f"{head}: {'; '.join(worst.reasons)}", worst.exit_code


def run_line(run: OneRun) -> Text:
    """One line about a run that has ended."""
    words, code = run_words([run])
    told = f"as expected: {words}" if code == ExitCode.EXPECTED else words
    return Text.assemble(
        (f"{run.wall_s:6.1f} s  ", "dim"), (run.scenario, "bold"), ": ", (told, _style(code))
    )


def _cells(row: Row) -> tuple[tuple[str, str], ...]:
    """The cells of one line with their styles."""
    story, story_code = run_words(row.of(row.case.name))
    control, control_code = run_words(row.of(row.case.control)) if row.case.control else ("–", 0)
    all_well = row.as_expected == len(row.runs)
    received, faults = sum(run.receipts for run in row.runs), sum(run.faults for run in row.runs)
    walls = [run.wall_s for run in row.runs]
    beyond = [run.wall_s - run.story_s for run in row.runs]
    return (
        (row.case.name, "bold"),
        (story, _style(story_code)),
        (control, _style(control_code)),
        (f"{row.as_expected} of {len(row.runs)}", "green" if all_well else "bold red"),
        (f"{received} of {faults}" if faults else "no fault", "" if received == faults else "bold red"),
        (f"{_mean(walls):.1f} s ({_mean(beyond):.1f} s)", ""),
    )


def _style(code: int) -> str:
    return {int(ExitCode.EXPECTED): "green", int(ExitCode.UNEXPECTED): "bold red"}.get(code, "yellow")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def verdict_table(rows: Iterable[Row]) -> Table:
    """The table of verdicts for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in VERDICTS:
        table.add_column(name, overflow="fold", no_wrap=name == "scenario")
    for row in rows:
        table.add_row(*(Text(text, style) for text, style in _cells(row)))
    return table


def verdict_markdown(rows: Iterable[Row]) -> str:
    """The table of verdicts as Markdown."""
    return markdown_table(VERDICTS, ([text for text, _ in _cells(row)] for row in rows))


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table as Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, body)]) + "\n"


def print_table(console: Console, table: Table) -> None:
    """Print as wide as the terminal is, or as a file may be."""
    wide = console if console.is_terminal else Console(emoji=False, highlight=False, width=WIDTH_FOR_FILES)
    wide.print(table)
