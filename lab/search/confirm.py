"""Replaying what was found on another substrate, and counting how often it came out the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.batch.item import Item
from lab.batch.one_run import run_one
from lab.batch.rate import Interval, wilson
from lab.batch.row import Row
from lab.errors import ExitCode


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
