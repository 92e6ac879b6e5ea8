"""Progress of many runs: lines for finished ones, and a bar below them on a terminal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

QUIET_S: Final = 10.0
"""Without a terminal, the time between two lines of progress."""


class Advance(Protocol):
    """The callback for a finished run."""

    def __call__(self, line: Text | None = None, words: str = "", *, by: int = 1) -> None:
        """``line`` is printed. ``words`` are beside the bar; without a terminal, printed at times."""
        ...


@contextlib.contextmanager
def progress(console: Console, total: int) -> Iterator[Advance]:
    """Yield a callback for each finished run, or (``by=0``) for changed ``words``."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    printed_s, done = time.monotonic(), 0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("running", total=total)

        def advance(line: Text | None = None, words: str = "", *, by: int = 1) -> None:
            nonlocal printed_s, done
            done += by
            if line is not None:
                console.print(line, soft_wrap=True)
            elif words and by and not console.is_terminal and time.monotonic() - printed_s >= QUIET_S:
                printed_s = time.monotonic()
                console.print(f"{done} of {total} · {words}", markup=False, soft_wrap=True)
            if words:
                shown.update(task, advance=by, description=words)
            else:
                shown.advance(task, by)

        yield advance
