"""``drift``: a wall clock runs too fast or too slow, until it is corrected."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from math import inf, isfinite
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from lab.faults.base import Receipt, Tolerance, machine, ms
from lab.faults.clock import BROKEN, TOLERANCE, ClockFault
from lab.scenario.fault_step import Drawing
from lab.scenario.problems import problem
from lab.scenario.types import Int
from lab.substrates.base import ClockReading, Cluster, Machine

PPM_MAX: Final = 1_000_000
"""The largest drift: a clock that stands still, or runs twice as fast."""
PPM_LEAST: Final = 100
"""The smallest drift that exceeds the error of measurement within a second or two."""
DRIFT_READINGS: Final = 5
"""From how many readings the most certain one is chosen."""
DRIFT_PATIENCE_NS: Final = 30_000_000_000
"""How long a drift is observed at most, until its rate is certain; on an idle machine far less."""


def _some_drift(ppm: int) -> int:
    if abs(ppm) < PPM_LEAST:
        raise problem(f"a drift of {ppm} ppm is too small to be seen", f"{PPM_LEAST} ppm or more, either way")
    return ppm


class Drift(ClockFault):
    """The wall clock runs too fast or too slow, until it is corrected."""

    KEY = "drift"
    EXAMPLE = "{node: C, ppm: 50000}"
    DRAWN = Drawing("machine", nodes_first=True, may_stay=True)

    ppm: Annotated[Int, Field(ge=-PPM_MAX, le=PPM_MAX), AfterValidator(_some_drift)]
    """How much faster (+) or slower (-) it runs, in millionths: 1000 is a millisecond per second."""

    @property
    def clause(self) -> str:
        """How fast it runs."""
        return f"{self.whose} runs {abs(self.ppm) / 10_000:g} % too {'fast' if self.ppm > 0 else 'slow'}"

    @property
    def how(self) -> str:
        """How fast."""
        return f"{self.ppm:+d} ppm"

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break the bound on clock error, unless clocks are assumed to drift that much."""
        return BROKEN if abs(self.ppm) > tolerance.clock_rate * 1e6 else None

    async def inject(self, cluster: Cluster) -> Receipt:
        """Let it drift, and read it until its rate certainly is, or is not, the requested one."""
        hit = machine(self.name, cluster)
        await hit.drift_clock(self.ppm)
        least_ppm, most_ppm = sorted((self.ppm * (1 - TOLERANCE), self.ppm * (1 + TOLERANCE)))
        first = await _timed(hit, self.ppm)
        while True:
            last = await _timed(hit, self.ppm)
            low_ppm, high_ppm = rate_between(first, last)
            right = least_ppm <= low_ppm and high_ppm <= most_ppm
            wrong = high_ppm < least_ppm or low_ppm > most_ppm
            watched_ns = last.taken_from_ns - first.taken_until_ns
            if right or wrong or watched_ns > DRIFT_PATIENCE_NS:
                break
            await asyncio.sleep(0.01)
        return Receipt(
            right,
            {
                "rate_least_ppm": _whole(low_ppm),
                "rate_most_ppm": _whole(high_ppm),
                "drifted_ms": ms(last.shown.offset_ns - first.shown.offset_ns),
                "watched_ms": ms(watched_ns),
                "uncertainty_ms": ms(first.shown.uncertainty_ns + last.shown.uncertainty_ns),
            },
        )


@dataclass(frozen=True, slots=True)
class Timed:
    """A reading of a clock, and between which two monotonic times, in nanoseconds, it was taken."""

    shown: ClockReading
    taken_from_ns: int
    taken_until_ns: int


def rate_between(first: Timed, last: Timed) -> tuple[float, float]:
    """The bounds, in ppm, of the mean rate of a clock between two readings.

    They hold whenever in its call each reading was taken, and however far within its uncertainty it was off.
    If it is not certain that any time passed between the readings, every rate is possible.
    """
    shortest_ns = last.taken_from_ns - first.taken_until_ns
    longest_ns = last.taken_until_ns - first.taken_from_ns
    if shortest_ns <= 0:
        return -inf, inf
    drifted_ns = last.shown.offset_ns - first.shown.offset_ns
    error_ns = last.shown.uncertainty_ns + first.shown.uncertainty_ns
    least_ns, most_ns = drifted_ns - error_ns, drifted_ns + error_ns
    return (
        least_ns / (longest_ns if least_ns > 0 else shortest_ns) * 1e6,
        most_ns / (shortest_ns if most_ns > 0 else longest_ns) * 1e6,
    )


async def _timed(hit: Machine, ppm: int) -> Timed:
    """The reading, of a few, with the least uncertainty about a drift of so many ppm."""

    def doubt_ns(one: Timed) -> float:
        return one.shown.uncertainty_ns + (one.taken_until_ns - one.taken_from_ns) * abs(ppm) / 1e6

    taken = []
    for _ in range(DRIFT_READINGS):
        from_ns = time.monotonic_ns()
        shown = await hit.read_clock()
        taken.append(Timed(shown, from_ns, time.monotonic_ns()))
    return min(taken, key=doubt_ns)


def _whole(ppm: float) -> int | None:
    return round(ppm) if isfinite(ppm) else None
