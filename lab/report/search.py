"""What a search looks like: one line while it goes on, where somebody looks on, and a summary at its end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lab.search.confirm import Confirmation, Replay
from lab.search.find import Ended
from lab.search.find import Progress as Searched


@contextlib.contextmanager
def search_progress(console: Console) -> Iterator[Callable[[Searched], None]]:
    """Give a function that is told how far the search is; without a terminal it shows nothing."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("searching")

        def on_progress(searched: Searched) -> None:
            shown.update(task, description=progress_line(searched))

        yield on_progress


def progress_line(searched: Searched) -> str:
    """How far a search is, in one line."""
    return (
        f"{searched.stage}: {searched.tried:,} schedules, {searched.per_second:.0f}/s, "
        f"{searched.violations} violations, {len(searched.covered)} pairs of fault and lock state"
    )


def print_ended(console: Console, ended: Ended, finding: str, replay: Replay | None) -> None:
    """Print what a search came to: what was found, whether that can be replayed, and what was spent.

    Args:
        console: where to.
        ended: the search.
        finding: what was searched for.
        replay: of the scenario that tells what was found; None if nothing was, or it cannot be told as one.
    """
    spent = (
        f"{ended.progress.tried:,} schedules in {ended.progress.seconds:.1f} s "
        f"({ended.progress.per_second:.0f}/s), {len(ended.progress.covered)} pairs of fault and lock state, "
        f"{ended.progress.sampled} cleared schedules checked in full"
    )
    if ended.found is None or ended.first is None:
        console.print(f"{finding}: not found", markup=False)
        console.print(f"  {spent}", markup=False)
        return
    first = ended.first
    if replay is None:
        words, style = "FOUND, not replayed: it cannot be told as a scenario", "bold yellow"
    elif replay.always:
        words, style = f"FOUND, reproduced in {replay.of} of {replay.of} replays on sim", "bold red"
    else:
        counts = f"{len(replay.seeds)} of {replay.of} replays on sim"
        words, style = f"FOUND, but reproduced in only {counts}", "bold yellow"
    console.print(f"{finding}: {words}", markup=False, style=style)
    console.print(f"  {spent}", markup=False)
    console.print(
        f"  first after {first.tried:,} schedules and {first.seconds:.1f} s with {len(first.trial.faults)} "
        f"faults; now {len(ended.found.faults)}",
        markup=False,
    )
    if ended.racy:
        console.print(
            "  it depends on the order in which packets arrive: more schedules may find one that does not",
            markup=False,
        )


def print_confirmation(console: Console, confirmation: Confirmation) -> None:
    """Print how often it was reproduced."""
    between = ""
    if confirmation.judged:
        low, high = confirmation.interval.low, confirmation.interval.high
        between = f" (95 % interval {low:.0%} to {high:.0%})"
    unknown = f", {confirmation.unknown} without a verdict" if confirmation.unknown else ""
    of = f"{confirmation.reproduced} of {confirmation.judged}"
    console.print(f"reproduced on {confirmation.on}: {of}{between}{unknown}", markup=False)
