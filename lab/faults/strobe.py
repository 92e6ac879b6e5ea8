"""``strobe``: a wall clock steps forth and back repeatedly, until it is corrected."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from lab.durations import UNITS_NS, format_duration, short_duration
from lab.faults.base import Receipt, Tolerance, machine, ms
from lab.faults.clock import BROKEN, ClockFault, certain_reading
from lab.scenario.problems import problem
from lab.scenario.types import PositiveNs, SignedNs
from lab.substrates.base import Cluster

STROBE_LEAST_NS: Final = 10 * UNITS_NS["ms"]
"""The shortest time between two steps of a strobing clock."""
STROBE_PATIENCE_S: Final = 10.0
"""How long a strobing clock is observed at most, until both sides were seen."""


def _slow_enough(every_ns: int) -> int:
    if every_ns < STROBE_LEAST_NS:
        raise problem("the clock can't be stepped that often", "a duration of 10ms or more")
    return every_ns


class Strobe(ClockFault):
    """The wall clock steps forth and back repeatedly, until it is corrected."""

    KEY = "strobe"
    EXAMPLE = "{node: C, by: +500ms, every: 50ms}"

    by_ns: SignedNs = Field(alias="by")
    """How far it steps away, and back."""
    every_ns: Annotated[PositiveNs, AfterValidator(_slow_enough)] = Field(alias="every")
    """How long it stays on each side."""

    @property
    def clause(self) -> str:
        """How far it jumps to and fro."""
        every = short_duration(self.every_ns)
        return f"{self.whose} jumps to and fro by {short_duration(abs(self.by_ns))} every {every}"

    @property
    def how(self) -> str:
        """How far and how often."""
        far, often = format_duration(self.by_ns, signed=True), format_duration(self.every_ns)
        return f"{far} every {often}"

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break the bound on clock error, unless the steps are within what drift may cause."""
        return BROKEN if abs(self.by_ns) > tolerance.clock_error_ns else None

    async def inject(self, cluster: Cluster) -> Receipt:
        """Let it strobe, and read it until both sides were seen."""
        hit = machine(self.name, cluster)
        loop = asyncio.get_running_loop()
        before = await certain_reading(hit, abs(self.by_ns))
        await hit.strobe_clock(self.by_ns, self.every_ns)
        near = far = 0
        give_up = loop.time() + STROBE_PATIENCE_S + 4 * self.every_ns / 1e9
        while loop.time() < give_up and not (near and far):
            now = await certain_reading(hit, abs(self.by_ns))
            moved_ns, error_ns = now.offset_ns - before.offset_ns, now.uncertainty_ns + before.uncertainty_ns
            far += abs(moved_ns - self.by_ns) + error_ns < abs(self.by_ns) / 2
            near += abs(moved_ns) + error_ns < abs(self.by_ns) / 2
            await asyncio.sleep(self.every_ns / 1e9 / 4)
        evidence = {
            "offset_before_ms": ms(before.offset_ns),
            "readings_stepped_away": far,
            "readings_stepped_back": near,
        }
        return Receipt(bool(near and far), evidence)
