"""The output of ``lab search``: its progress, what it found, and how often that was reproduced."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lab.api import searches
from lab.api.searches import Asked
from lab.durations import format_duration
from lab.errors import ExitCode
from lab.report.consoles import consoles

if TYPE_CHECKING:
    from lab.search.command import Saved
    from lab.search.confirm import Confirmation, Replay
    from lab.search.draw import Space
    from lab.search.find import Ended
    from lab.search.find import Progress as Searched


def search_command(asked: Asked, *, as_json: bool) -> int:
    """0: the search ended as asked and found nothing; 1: the lock is broken; 130: interrupted.

    Raises:
        LabError: an impossible argument (exit code 2), or a defect in the client's code (3).
    """
    data, talk = consoles()
    search = searches.begin(asked)
    talk.print(
        f"searching {asked.lock} for {asked.find}: seed {asked.seed}, {_space_line(asked, search.space)}",
        style="dim",
        markup=False,
    )
    with signals_interrupt(), search_progress(talk) as on_progress:
        search.on_progress = on_progress
        ended = search.run()
    confirmation: Confirmation | None = None
    saved = None if ended.found is None else searches.save(asked, ended.found)
    if not as_json:
        print_ended(data, ended, asked.find, None if saved is None else saved.replay)
    if saved is not None:
        if not as_json:
            _print_saved(data, saved)
        if asked.confirm is not None and saved.scenario is not None and not ended.interrupted:
            try:
                confirmation = _confirm(asked, saved.path, talk)
            except searches.Interrupted:
                return ExitCode.INTERRUPTED
            if not as_json:
                print_confirmation(data, confirmation, asked.drawn.server or "")
    if as_json:
        sys.stdout.buffer.write(searches.to_json(ended, saved, confirmation))
    if ended.interrupted:
        talk.print("interrupted: what was found is kept", style="yellow")
        return ExitCode.INTERRUPTED
    return ExitCode.UNEXPECTED if ended.found is not None else ExitCode.EXPECTED


def _space_line(asked: Asked, space: Space) -> str:
    """The space of schedules and how they are drawn, on one line."""
    strategy, wire = asked.drawn.how()
    nodes = f"{searches.servers_of_trials(space.server)}, {space.persistence or searches.ANY}"
    kinds = ", ".join(kind.KEY for kind in space.kinds)
    return (
        f"{strategy}, {wire} wire, {space.nodes} nodes ({nodes}), "
        f"{space.clients} clients, TTL {format_duration(space.ttl_ns)}, faults {kinds}"
    )


def _confirm(asked: Asked, path: Path, talk: Console) -> Confirmation:
    ended = 0

    def on_end(run: Any) -> None:
        nonlocal ended
        ended += 1
        words = {0: "reproduced", 1: "not reproduced"}.get(run.exit_code, "no verdict")
        talk.print(f"{asked.confirm}: run {ended} of {asked.repeat}: {words}", style="dim", markup=False)

    return searches.replay(asked, path, Path("reports"), on_end)


def _print_saved(console: Console, saved: Saved) -> None:
    path, scenario = saved.path, saved.scenario
    if scenario is None:
        console.print(f"saved: {path}, as a trial, which is no scenario: {saved.why_not}", markup=False)
        return
    console.print(f"  {scenario.why}", markup=False)
    console.print(f"saved: {path} (lab run {shlex.quote(str(path))})", markup=False)


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that what was found is kept."""
    before: Callable[..., Any] | int | None = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def search_progress(console: Console) -> Iterator[Callable[[Searched], None]]:
    """Yield a callback that shows the progress of the search, if there is a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("searching")

        def on_progress(searched: Searched) -> None:
            shown.update(task, description=progress_line(searched))

        yield on_progress


def progress_line(searched: Searched) -> str:
    """The progress of a search, on one line."""
    return (
        f"{searched.stage}: {searched.schedules:,} schedules, {searched.per_second:.0f}/s, "
        f"{searched.violations} violations, {len(searched.covered)} pairs of fault and lock state"
    )


def print_ended(console: Console, ended: Ended, finding: str, replay: Replay | None) -> None:
    """Print the result of a search: what was found, whether that can be replayed, and the effort.

    Args:
        console: where to.
        ended: the search.
        finding: what was searched for.
        replay: of the scenario of what was found; None if nothing was, or it makes no scenario.
    """
    spent = (
        f"{ended.progress.schedules:,} schedules in {ended.progress.seconds:.1f} s "
        f"({ended.progress.per_second:.0f}/s), {len(ended.progress.covered)} pairs of fault and lock state, "
        f"{ended.progress.sampled} cleared schedules checked in full"
    )
    if ended.found is None or ended.first is None:
        console.print(f"{finding}: not found", markup=False)
        console.print(f"  {spent}", markup=False)
        return
    first = ended.first
    if replay is None:
        words, style = "FOUND, not replayed: it makes no scenario", "bold yellow"
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


def print_confirmation(console: Console, confirmation: Confirmation, server: str = "") -> None:
    """Print how often it was reproduced; ``server`` is what the search was asked for."""
    between = ""
    if confirmation.judged:
        low, high = confirmation.interval.low, confirmation.interval.high
        between = f" (95 % interval {low:.0%} to {high:.0%})"
    unknown = f", {confirmation.unknown} without a verdict" if confirmation.unknown else ""
    of = f"{confirmation.reproduced} of {confirmation.judged}"
    differ = searches.versions_differ(searches.servers_of_trials(server), confirmation.servers)
    console.print(
        f"reproduced on {confirmation.on}: {of}{between}{unknown}" + (f" ({differ})" if differ else ""),
        markup=False,
        soft_wrap=True,
    )
