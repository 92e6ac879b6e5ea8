"""A campaign in the terminal: its results so far, and the tally at its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.batch.rate import wilson
from lab.batch.row import Row
from lab.batch.tally import Tally
from lab.report.progress import progress

SHOWN: Final = 3
"""How many seeds of each kind are shown."""


@contextlib.contextmanager
def tally_progress(console: Console, total: int) -> Iterator[Callable[[Row, Tally], None]]:
    """Show the progress; the function that is given takes each result."""
    began_s = time.monotonic()
    ran = 0
    with progress(console, total) as advance:

        def on_result(result: Row, tally: Tally) -> None:
            nonlocal ran
            ran += 1
            per_s = ran / max(time.monotonic() - began_s, 1e-9)
            by = 1 if ran > 1 else tally.runs  # the first time, the earlier results of a resumed campaign too
            advance(words=f"{per_s:.1f} seeds/s · {found_words(tally)}", by=by)

        yield on_result


def found_words(tally: Tally) -> str:
    """The findings so far, in one line."""
    parts = [f"{name} {len(seeds)}" for name, seeds in sorted(tally.found.items())]
    if tally.unknown:
        parts.append(f"unknown {len(tally.unknown)}")
    return ", ".join(parts) or "no violation"


def print_tally(console: Console, tally: Tally, repeat: Callable[[int], str]) -> None:
    """Print how often each property was violated, and the commands that repeat the first seeds."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "violated", "of", "share", "95 % interval (Wilson)", "first seeds"):
        table.add_column(heading, justify="right" if heading in ("violated", "of", "share") else "left")
    for name in sorted(tally.outcomes):
        seeds = tally.violating.get(name, [])
        table.add_row(name.replace("_", " "), *_share(len(seeds), tally.decided(name)), _first(seeds))
    for name in sorted(tally.found):
        table.add_row(f"  {name}", *_share(len(tally.found[name]), tally.judged), _first(tally.found[name]))
    if not table.row_count:
        table.add_row("any violation", *_share(0, tally.judged), "")
    console.print(table)
    if unknown := sum(outcomes["unknown"] for outcomes in tally.outcomes.values()):
        console.print(f"  unknown, and not counted above: {unknown} properties", style="yellow")
    _print_seeds(console, "not as expected", tally.unexpected, repeat, "red")
    _print_seeds(console, "unknown", tally.unknown, repeat, "yellow")
    console.print(
        f"{tally.runs} seeds, digest of all histories {tally.digest[:16]}", style="dim", soft_wrap=True
    )


def _print_seeds(
    console: Console, what: str, results: dict[int, Row], repeat: Callable[[int], str], style: str
) -> None:
    if not results:
        return
    console.print(Text(f"{len(results)} {what}:", style))
    for seed in sorted(results)[:SHOWN]:
        why = "; ".join(results[seed].reasons)
        console.print(Text(f"  seed {seed}: {why}"), soft_wrap=True)
        console.print(Text(f"    {repeat(seed)}"), soft_wrap=True)


def _share(hits: int, trials: int) -> tuple[str, str, str, str]:
    interval = wilson(hits, trials)
    share = f"{hits / trials:.2%}" if trials else "–"
    return str(hits), str(trials), share, f"{interval.low:.3%} … {interval.high:.3%}"


def _first(seeds: list[int]) -> str:
    return ", ".join(map(str, sorted(seeds)[:SHOWN]))
