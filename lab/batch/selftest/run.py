"""Running a self-test: mutants and drawn schedules on all cores, then real servers, two runs at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from lab.batch.selftest.model import Innocence, Row, Selftest
from lab.batch.selftest.task import SelftestTask
from lab.batch.verdicts import Case, OneRun, run_all
from lab.errors import ExitCode, LabError, did_you_mean
from lab.locks.broken import MUTANTS, PREFIX
from lab.scenario.files import names as scenario_names
from lab.scenario.load import load_scenario
from lab.search.draw import Space
from lab.search.processes import on_cores
from lab.search.schedule_task import WITHIN_ASSUMPTIONS, ScheduleTask
from lab.search.tally import SeedResult

REAL_LOCK: Final = "redlock"
SIMULATED: Final = 300
"""How many drawn schedules the real lock is tried with unless more are asked for."""
SIMULATED_FULL: Final = 10_000
REAL_FULL: Final = 200
"""How many of its own stories it is tried with on real servers in a full self-test."""

OnRow = Callable[[Row], None]
OnRun = Callable[[], None]


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The mutants of these names (``mutant:`` may stand before them), or all.

    Raises:
        LabError: there is no such mutant.
    """
    wanted = [name.removeprefix(PREFIX) for name in only]
    for name in wanted:
        if name not in MUTANTS:
            near = did_you_mean(name, MUTANTS)
            raise LabError(
                f"the broken lock {name!r}",
                where="--only",
                expected=f"one of {', '.join(MUTANTS)}",
                hint=f"did you mean {near!r}?" if near else None,
            )
    return tuple(dict.fromkeys(wanted)) or tuple(MUTANTS)


def stories_within_assumptions() -> tuple[str, ...]:
    """The lab's own stories of the real lock from which it must come out without any violation."""
    loaded = [load_scenario(name) for name in scenario_names()]
    return tuple(
        one.name
        for one in loaded
        if one.scenario.lock.name == REAL_LOCK
        and not one.scenario.expect.either
        and "violated" not in one.scenario.expect.outcomes.values()
    )


async def run_selftest(
    names: Sequence[str],
    *,
    simulated: int,
    real: int,
    seed: int,
    out: Path,
    on: str,
    jobs: int,
    on_row: OnRow = lambda row: None,
    on_run: OnRun = lambda: None,
) -> Selftest:
    """Try to catch these mutants, and put the real lock to the test so many times.

    Raises:
        LabError: no worker can be started.
    """
    began_s = time.monotonic()
    cores = len(os.sched_getaffinity(0))
    task = SelftestTask(tuple(names), seed)
    rows: dict[int, Row] = {}

    def keep(result: SeedResult) -> None:
        rows[result.seed] = task.row(result)
        on_row(rows[result.seed])

    ways = range(len(task.ways))
    await on_cores(task, ways, keep, jobs=cores)
    innocence = []
    if simulated:
        innocence.append(await _in_simulation(simulated, seed, cores, on_run))
    if real:
        innocence.append(await _on_servers(real, out, on, jobs, on_run))
    ordered = sorted(rows, key=lambda at: (list(names).index(rows[at].mutant), at))
    return Selftest(tuple(rows[at] for at in ordered), tuple(innocence), round(time.monotonic() - began_s, 1))


async def _in_simulation(runs: int, seed: int, cores: int, on_run: OnRun) -> Innocence:
    """Drawn schedules of faults that leave the assumptions alone."""
    task = ScheduleTask(Space(REAL_LOCK, kinds=WITHIN_ASSUMPTIONS))
    bad: dict[ExitCode, list[str]] = {ExitCode.UNEXPECTED: [], ExitCode.UNKNOWN: []}
    done = 0

    def keep(result: SeedResult) -> None:
        nonlocal done
        done += 1
        if result.exit_code != ExitCode.EXPECTED:
            bad[ExitCode(result.exit_code)].append(f"{'; '.join(result.reasons)}: {task.repeat(result.seed)}")
        on_run()

    await on_cores(task, range((seed - 1) * runs, seed * runs), keep, jobs=cores)
    where = f"simulated schedules ({', '.join(WITHIN_ASSUMPTIONS)})"
    return Innocence(REAL_LOCK, where, done, tuple(bad[ExitCode.UNEXPECTED]), tuple(bad[ExitCode.UNKNOWN]))


async def _on_servers(runs: int, out: Path, on: str, jobs: int, on_run: OnRun) -> Innocence:
    """The lab's own stories, round after round."""
    stories = stories_within_assumptions()
    lines = [Case(stories[at % len(stories)]) for at in range(runs)]
    ended: list[OneRun] = []

    def keep(run: OneRun) -> None:
        ended.append(run)
        on_run()

    await run_all(lines, out, jobs=jobs, on=on, on_end=keep)
    told = [
        (run, f"{run.scenario}: {'; '.join(run.reasons)}: {run.repeat}")
        for run in ended
        if not run.as_expected
    ]
    accused = tuple(words for run, words in told if run.exit_code == ExitCode.UNEXPECTED)
    unknown = tuple(words for run, words in told if run.exit_code != ExitCode.UNEXPECTED)
    return Innocence(REAL_LOCK, f"real runs of {len(stories)} stories ({on})", len(ended), accused, unknown)
