"""The self-tests as batches: broken locks, the real one, and the scenarios."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from lab.batch.engine import Batch, OnRow, OnStart
from lab.batch.item import Item, Plan
from lab.batch.result import Result
from lab.batch.row import Row
from lab.batch.seeds import run_seeds
from lab.batch.task import Task
from lab.errors import LabError, did_you_mean
from lab.locks.broken import PREFIX, SHOWN_BY_SCENARIO
from lab.scenario.files import names as scenario_names
from lab.scenario.load import load_scenario
from lab.search.draw import Space
from lab.search.schedule_task import ScheduleTask
from lab.search.space import WITHIN_ASSUMPTIONS
from lab.selftest.change_task import ChangeTask
from lab.selftest.changes import scenario_of, written_in_steps
from lab.selftest.mutants import SelftestTask
from lab.selftest.pages import changes_page, mutants_page
from lab.substrates import AUTO, choose

REAL_LOCK: Final = "redlock"
SCHEDULES: Final = f"schedules/{REAL_LOCK}/sim"
SIMULATED: Final = 300
"""How many drawn schedules the real lock is tried with by default."""
SIMULATED_FULL: Final = 10_000
REAL_FULL: Final = 200
"""How many runs of its own scenarios it is tried with on real servers in a full self-test."""

Work = Callable[[Batch, OnStart, OnRow], Coroutine[Any, Any, Result]]


@dataclass(frozen=True)
class Selftest:
    """A self-test: its plan, the work on a batch of it, and its result as a page for docs/."""

    plan: Plan
    work: Work
    page: Callable[[Result], str]


@dataclass
class Trials:
    """How often the real lock is tried: with drawn schedules, and with its own scenarios on real servers."""

    full: bool = False
    simulated: int | None = None
    real: int | None = None
    on: str = AUTO
    jobs: int | None = None

    def __post_init__(self) -> None:
        if self.simulated is None:
            self.simulated = SIMULATED_FULL if self.full else SIMULATED
        if self.real is None:
            self.real = REAL_FULL if self.full else 0


def of_locks(only: Sequence[str], trials: Trials, seed: int = 1) -> Selftest:
    """Catch these mutants, or all that have a scenario, and test the real lock within its assumptions.

    Raises:
        LabError: there is no such mutant with a scenario, or no such substrate.
    """
    asked = [name.removeprefix(PREFIX) for name in only]
    names = chosen("the broken lock with a scenario", asked, tuple(SHOWN_BY_SCENARIO))
    if trials.on != AUTO:
        choose(trials.on)
    simulated = trials.simulated or 0
    mutants = SelftestTask(names, seed)
    within = ScheduleTask(Space(REAL_LOCK, kinds=WITHIN_ASSUMPTIONS))
    drawn = (Item(SCHEDULES, "schedules", REAL_LOCK, "sim", repeat=simulated),) if simulated else ()
    title = "Broken locks, and the real one within its assumptions"
    items = (*mutants.items, *drawn, *_real_items(trials.real, trials.on))
    plan = Plan("selftest", title, items, by_task=True)

    def tried(row: Row) -> Row:
        words = "no violation" if row.as_expected else ""
        return replace(row, item=SCHEDULES, words=words, repeat=within.repeat(row.seed))

    async def work(batch: Batch, on_start: OnStart, on_row: OnRow) -> Result:
        await _on_workers(batch, mutants, range(len(mutants.ways)), mutants.completed, on_row)
        await _on_workers(batch, within, range((seed - 1) * simulated, seed * simulated), tried, on_row)
        return await batch.run(jobs=trials.jobs, seed=seed, on_start=on_start, on_row=on_row)

    return Selftest(plan, work, mutants_page)


def of_scenarios(only: Sequence[str]) -> Selftest:
    """Try all changes of these scenarios, or of all that have steps and can be simulated.

    Raises:
        LabError: one of them is no such scenario.
    """
    names = chosen("the scenario", only, written_in_steps())
    task = ChangeTask(names)
    locks = {name: scenario_of(name).lock.name for name in names}
    items = tuple(Item(f"{name}/{lock}/sim", name, lock, "sim") for name, lock in locks.items())
    title = "Each step of each scenario makes a difference, or is explained"
    plan = Plan("selftest-scenarios", title, items, by_task=True)

    def completed(row: Row) -> Row:
        return replace(row, item=items[row.seed].id, repeat=task.repeat(row.seed))

    async def work(batch: Batch, on_start: OnStart, on_row: OnRow) -> Result:
        await _on_workers(batch, task, range(len(names)), completed, on_row)
        return batch.result

    return Selftest(plan, work, changes_page)


def chosen(what: str, only: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """These names, or all that are known. Raises ``LabError`` if there is no such one."""
    for name in only:
        if name not in known:
            near = did_you_mean(name, known)
            raise LabError(
                f"{what} {name!r}",
                where="--only",
                expected=f"one of {', '.join(known)}",
                hint=f"did you mean {near!r}?" if near else None,
            )
    return tuple(dict.fromkeys(only)) or known


def scenarios_within_assumptions() -> tuple[str, ...]:
    """The lab's own scenarios of the real lock in which it must not violate anything."""
    loaded = [load_scenario(name) for name in scenario_names()]
    return tuple(
        one.name
        for one in loaded
        if one.scenario.lock.name == REAL_LOCK
        and not one.scenario.expect.either
        and "violated" not in one.scenario.expect.outcomes.values()
    )


def _real_items(runs: int | None, on: str) -> tuple[Item, ...]:
    """Its own scenarios in turn, ``runs`` runs in all."""
    if not runs:
        return ()
    names = scenarios_within_assumptions()
    return tuple(
        Item(f"{name}/{REAL_LOCK}/{on}", name, REAL_LOCK, on, repeat=len(range(at, runs, len(names))))
        for at, name in enumerate(names[:runs])
    )


async def _on_workers(
    batch: Batch, task: Task, seeds: Sequence[int], completed: Callable[[Row], Row], on_row: OnRow
) -> None:
    items: Mapping[str, Item] = {item.id: item for item in batch.plan.items}

    def keep(row: Row) -> None:
        row = completed(row)
        batch.keep(row)
        on_row(items[row.item], row)

    await run_seeds(task, seeds, keep)
