"""Replaying what was found, in simulations and elsewhere, and counting how often it came out the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.batch.item import Item
from lab.batch.one_run import run_one
from lab.batch.rate import Interval, wilson
from lab.batch.row import Row
from lab.batch.scenario_task import ScenarioTask
from lab.drivers.place import virtual_time_of
from lab.errors import ExitCode, LabError
from lab.scenario.load import dump
from lab.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How often the scenario came out as it says, of so many runs that came to a verdict."""

    on: str
    reproduced: int
    judged: int
    unknown: int
    interval: Interval
    """Wilson's, 95 %."""


@dataclass(frozen=True, slots=True)
class Replay:
    """With which seeds the scenario came out as it says, in so many simulations (seeds from 0 on)."""

    seeds: tuple[int, ...]
    of: int

    @property
    def always(self) -> bool:
        """Whether every simulation reproduced it."""
        return len(self.seeds) == self.of

    @property
    def sentence(self) -> str:
        """What the replay showed, for the scenario's own text."""
        if self.always:
            return f"Replayed in simulation: reproduced with each of {self.of} seeds."
        seeds = f" (seeds {', '.join(map(str, self.seeds))})" if self.seeds else ""
        return (
            f"Replayed in simulation: reproduced with only {len(self.seeds)} of {self.of} seeds{seeds}: "
            "it depends on the order in which packets arrive."
        )


def replayed(scenarios: Iterable[Scenario], name: str, of: int) -> tuple[Scenario, Replay]:
    """The scenario that most seeds reproduce, from 0 on, and with which seeds; of equal ones the first.

    Args:
        scenarios: at least one, the likeliest first; they may all show the same.
        name: what they are called where something goes wrong.
        of: how many seeds each is simulated with, as long as it may still be the best.

    Raises:
        LabError: none can be run.
    """
    best: tuple[Scenario, Replay] | None = None
    for scenario in scenarios:
        seen = _reproduced(scenario, name, of, least=0 if best is None else len(best[1].seeds) + 1)
        if best is None or len(seen.seeds) > len(best[1].seeds):
            best = scenario, seen
        if seen.always:
            break
    if best is None:
        raise LabError("no scenario to replay", where=name)
    return best


def _reproduced(scenario: Scenario, name: str, of: int, *, least: int) -> Replay:
    """With which seeds it comes out as it says; the rest are left out once ``least`` can't be reached."""
    task = ScenarioTask(
        name, dump(scenario), ("lab", "run", name, "--on", virtual_time_of(scenario.lock.name))
    )
    seeds: list[int] = []
    with task.session():
        for seed in range(of):
            if len(seeds) + of - seed < least:
                break
            if task(seed).exit_code == ExitCode.EXPECTED:
                seeds.append(seed)
    return Replay(tuple(seeds), of)


async def confirm(
    scenario: Path, on: str, repeat: int, out: Path, on_end: Callable[[Row], None] = lambda run: None
) -> Confirmation:
    """Run the scenario so often, one run after the other, each with a seed of its own."""
    codes = []
    item = Item(scenario.stem, str(scenario), "", on)
    for seed in range(repeat):
        run = await run_one(item, seed, out)
        on_end(run)
        codes.append(run.exit_code)
    reproduced = codes.count(ExitCode.EXPECTED)
    judged = reproduced + codes.count(ExitCode.UNEXPECTED)
    return Confirmation(on, reproduced, judged, repeat - judged, wilson(reproduced, judged))
