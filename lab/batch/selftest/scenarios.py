"""``lab selftest --scenarios``: does each step of each scenario make a difference to what it expects?"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.batch.selftest.change_task import ChangeRow, ChangeTask
from lab.batch.selftest.changes import told_in_steps
from lab.batch.selftest.explained import ScenarioSelftest, concluded
from lab.errors import ExitCode, LabError, did_you_mean
from lab.report.consoles import consoles
from lab.report.selftest_scenarios import print_scenarios, scenarios_markdown
from lab.search.processes import on_cores
from lab.search.tally import SeedResult
from lab.substrates.execute import Interrupted, execute


def chosen_scenarios(only: Sequence[str]) -> tuple[str, ...]:
    """These scenarios, or all that are told in steps and can be simulated.

    Raises:
        LabError: one of them is no such scenario.
    """
    known = told_in_steps()
    for name in only:
        if name not in known:
            near = did_you_mean(name, known)
            raise LabError(
                f"the scenario {name!r}",
                where="--only",
                expected="one that comes with the lab, is told in steps, and can be simulated",
                hint=f"did you mean {near!r}?" if near else "lab list shows them",
            )
    return tuple(dict.fromkeys(only)) or known


async def run_scenarios(
    names: Sequence[str], on_scenario: Callable[[], None] = lambda: None
) -> ScenarioSelftest:
    """Try all changes of these scenarios, on all cores.

    Raises:
        LabError: no worker can be started.
    """
    began_s = time.monotonic()
    task = ChangeTask(tuple(names))
    rows: dict[int, tuple[ChangeRow, ...]] = {}

    def keep(result: SeedResult) -> None:
        rows[result.seed] = task.rows(result)
        on_scenario()

    await on_cores(task, range(len(task.names)), keep, jobs=len(os.sched_getaffinity(0)))
    found = [row for seed in sorted(rows) for row in rows[seed]]
    return concluded(task.names, found, round(time.monotonic() - began_s, 1))


def scenarios_command(only: Sequence[str], *, markdown: Path | None, as_json: bool) -> int:
    """0: all makes a difference, or has its reason; 1: not; 3: unknown; 130: interrupted.

    Raises:
        LabError: an argument that cannot be (exit code 2).
    """
    data, talk = consoles()
    names = chosen_scenarios(only)
    try:
        ended = execute(_watched(names, talk))
    except Interrupted:
        talk.print("interrupted: what was running was stopped", style="yellow")
        return ExitCode.INTERRUPTED
    if markdown is not None:
        markdown.write_text(scenarios_markdown(ended), encoding="utf-8")
    if as_json:
        kept = {**msgspec.to_builtins(ended), "exit_code": int(ended.exit_code)}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    else:
        print_scenarios(data, ended)
    return ended.exit_code


async def _watched(names: Sequence[str], talk: Console) -> ScenarioSelftest:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=talk, transient=True, disable=not talk.is_terminal) as progress:
        bar = progress.add_task("scenarios", total=len(names))
        return await run_scenarios(names, lambda: progress.advance(bar))
