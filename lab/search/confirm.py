"""Replaying what was found, in simulations and elsewhere, and counting how often it came out the same."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.batch.item import Item
from lab.batch.one_run import run_one
from lab.batch.rate import Interval, wilson
from lab.batch.row import Row
from lab.batch.scenario_task import ScenarioTask
from lab.drivers.place import virtual_time_of
from lab.errors import ExitCode
from lab.scenario.load import dump
from lab.scenario.model import Scenario
from lab.servers import Server

AT_ONCE: Final = 2
"""How many runs in real time go side by side: most of the time they wait."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How often the scenario came out as it says, of so many runs that came to a verdict.

    ``reason``: why one of the others did not, or was refused.
    """

    on: str
    reproduced: int
    judged: int
    unknown: int
    interval: Interval
    """Wilson's, 95 %."""
    reason: str = ""
    servers: tuple[str, ...] = ()
    """Product and version of the nodes, as they said themselves."""

    @property
    def runs(self) -> int:
        """How many came to their end."""
        return self.judged + self.unknown


@dataclass(frozen=True, slots=True)
class Replay:
    """With which seeds the scenario came out as it says, in so many simulations (seeds from 0 on).

    ``cut``: there was no time for more of them.
    """

    seeds: tuple[int, ...]
    of: int
    cut: bool = False

    @property
    def always(self) -> bool:
        """Whether every simulation reproduced it."""
        return len(self.seeds) == self.of

    @property
    def sentence(self) -> str:
        """What the replay showed, for the scenario's own text."""
        ended = "; there was no time for more" if self.cut else ""
        if self.always and self.of == 1:
            return f"Replayed in simulation: reproduced once{ended}."
        if self.always:
            return f"Replayed in simulation: reproduced with each of {self.of} seeds{ended}."
        if self.cut and not self.seeds:
            return f"Replayed in simulation: not reproduced with {self.of} seeds{ended}."
        seeds = f" (seeds {', '.join(map(str, self.seeds))})" if self.seeds else ""
        return (
            f"Replayed in simulation: reproduced with only {len(self.seeds)} of {self.of} seeds{seeds}: "
            "it depends on the order in which packets arrive."
        )


def replayed(
    scenario: Scenario, name: str, of: int, left_s: Callable[[], float] = lambda: math.inf
) -> Replay:
    """With which seeds, from 0 on, a scenario comes out as it says.

    Args:
        scenario: what is simulated.
        name: what it is called where something goes wrong.
        of: how many seeds it is simulated with.
        left_s: how many seconds are left for it. One simulation is run in any case.

    Raises:
        LabError: it cannot be run.
    """
    task = ScenarioTask(
        name, dump(scenario), ("lab", "run", name, "--on", virtual_time_of(scenario.lock.name))
    )
    seeds: list[int] = []
    with task.session():
        for seed in range(of):
            if seed and left_s() <= 0:
                return Replay(tuple(seeds), seed, cut=True)
            if task(seed).exit_code == ExitCode.EXPECTED:
                seeds.append(seed)
    return Replay(tuple(seeds), of)


def best_replayed(
    scenarios: Sequence[Scenario], name: str, of: int, left_s: Callable[[], float] = lambda: math.inf
) -> tuple[Scenario, Replay]:
    """The first scenario that comes out as it says in most replays, else the one that does most often.

    At least one scenario is replayed. Raises as ``replayed`` does.
    """
    best: tuple[Scenario, Replay] | None = None
    for scenario in scenarios:
        if best is not None and left_s() <= 0:
            break
        replay = replayed(scenario, name, of, left_s)
        if best is None or len(replay.seeds) > len(best[1].seeds):
            best = scenario, replay
        if len(replay.seeds) * 4 >= replay.of * 3:
            break
    assert best is not None, "no scenario"
    return best


def versions_differ(found_on: str, servers: Sequence[str]) -> str:
    """Say that what was found on one server was run on another one; empty if it was the same minor version.

    ``found_on`` and ``servers`` are products and versions for people, "simulated Redis 8.6.3".
    """
    found_on = found_on.removeprefix("simulated ")
    simulated = Server.from_words(found_on)
    others = [words for words in servers if not _same(simulated, Server.from_words(words))]
    return f"found in simulation as {found_on}, run on {' and '.join(others)}" if others else ""


def _same(one: Server | None, other: Server | None) -> bool:
    if one is None or other is None:
        return False
    return (one.product, one.number[:2]) == (other.product, other.number[:2])


async def confirm(
    scenario: Path, on: str, repeat: int, out: Path, on_end: Callable[[Row], None] = lambda run: None
) -> Confirmation:
    """Run the scenario so often, one run after the other, each with a seed of its own."""
    runs = []
    item = Item(scenario.stem, str(scenario), "", on)
    for seed in range(repeat):
        runs.append(await run_one(item, seed, out))
        on_end(runs[-1])
    return _counted(on, runs)


async def confirm_all(
    scenarios: Sequence[Path], on: str, repeat: int, out: Path, limit_s: float
) -> dict[Path, Confirmation]:
    """Run each scenario once, then each once more, ``repeat`` times; what is under way at the end is ended.

    Args:
        scenarios: their files.
        on: a substrate.
        repeat: how often, each time with a seed of its own.
        out: where the directories of the runs are made.
        limit_s: how long it may take in all, without the clean-up of the runs that are ended.
    """
    runs: dict[Path, list[Row]] = {path: [] for path in scenarios}
    left = iter([(path, seed) for seed in range(repeat) for path in scenarios])

    async def work() -> None:
        for path, seed in left:
            runs[path].append(await run_one(Item(path.stem, str(path), "", on), seed, out))

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s), asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())
    return {path: _counted(on, found) for path, found in runs.items()}


def _counted(on: str, runs: Sequence[Row]) -> Confirmation:
    codes = [run.exit_code for run in runs]
    reproduced = codes.count(ExitCode.EXPECTED)
    judged = reproduced + codes.count(ExitCode.UNEXPECTED)
    verdicts = (ExitCode.EXPECTED, ExitCode.UNEXPECTED)
    reason = next((run.reasons[0] for run in runs if run.exit_code not in verdicts and run.reasons), "")
    told = dict.fromkeys(run.versions["server"] for run in runs if "server" in run.versions)
    servers = tuple(Server.parse(server).words for server in told)
    return Confirmation(
        on, reproduced, judged, len(runs) - judged, wilson(reproduced, judged), reason, servers
    )
