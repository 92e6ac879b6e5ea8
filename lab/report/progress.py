"""Progress of many runs: a line for some that ended, and a bar below them where somebody looks on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

QUIET_S: Final = 10.0
"""Without a terminal, the time between two lines that say how far it is."""


class Advance(Protocol):
    """Tell that one more has ended, and how it stands."""

    def __call__(self, line: Text | None = None, words: str = "", *, by: int = 1) -> None:
        """``line``: printed for good. ``words``: beside the bar; without one, printed now and then."""
        ...


@contextlib.contextmanager
def progress(console: Console, total: int) -> Iterator[Advance]:
    """Give a function that is called for each one that ended, or (``by=0``) when the words change."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    told_s, done = time.monotonic(), 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("running", total=total)

        def advance(line: Text | None = None, words: str = "", *, by: int = 1) -> None:
            nonlocal told_s, done
            done += by
            if line is not None:
                console.print(line, soft_wrap=True)
            elif words and by and not console.is_terminal and time.monotonic() - told_s >= QUIET_S:
                told_s = time.monotonic()
                console.print(f"{done} of {total} · {words}", markup=False, soft_wrap=True)
            if words:
                shown.update(task, advance=by, description=words)
            else:
                shown.advance(task, by)

        yield advance
