"""Progress of many runs: a line for each that ended, and a bar below them where somebody looks on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from lab.batch.verdicts import OneRun
from lab.report.tables import run_line


@contextlib.contextmanager
def ended_runs(console: Console, total: int) -> Iterator[Callable[[OneRun], None]]:
    """Give a function that is told each run that ended; without a terminal there is no bar."""
    with ended_lines(console, total) as tell:
        yield lambda run: tell(run_line(run))


@contextlib.contextmanager
def ended_lines(console: Console, total: int) -> Iterator[Callable[[Text], None]]:
    """Give a function that is told a line about each run that ended."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("running", total=total)

        def on_end(line: Text) -> None:
            console.print(line, soft_wrap=True)
            progress.advance(task)

        yield on_end
