"""``jump``, ``drift``, ``strobe``, ``correct``: the wall clock of one node or client; all others stay.

Redis expires keys by its wall clock, so a step forward ends leases early and a step back prolongs them. The
receipt is what the process itself says that the time is (a node's ``TIME``), compared with this machine's
clock before and after. Of one that is down or stands still, another process with the same clock is asked.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, ClassVar, Final

from lab.durations import format_duration
from lab.faults.base import Ending, Receipt, Target, Tolerance, machine, ms
from lab.scenario.step_machine import Drift, Jump, MachineStep, Strobe
from lab.substrates.base import Capability, ClockReading, Cluster, Machine

BROKEN: Final = "bounded clock error"
SLACK_NS: Final = 5_000_000
"""How much a clock that is right may disagree with this machine's, beyond the uncertainty of the reading."""
COARSE_NS: Final = 160_000_000
"""A step that must be told even from the readings of a machine that is down or stands still."""
READINGS_MAX: Final = 20
"""How many readings are taken at most until one is certain enough to tell a step."""
DRIFT_READINGS: Final = 5
"""How many readings the most certain one is chosen from, where every microsecond counts."""
TOLERANCE: Final = 0.25
"""Which share of a step, or of a drift's rate, what is measured may be off."""
DRIFT_PATIENCE_NS: Final = 30_000_000_000
"""How long a drift is watched at most, until its rate is certain; on a quiet machine far less."""
STROBE_PATIENCE_S: Final = 10.0
"""How long a strobing clock is watched at most, until both sides were seen."""


def _needs(step: MachineStep) -> Capability:
    return Capability.CLIENT_CLOCKS if step.node is None else Capability.NODE_CLOCKS


class JumpFault:
    """A step of a wall clock."""

    f: ClassVar[str] = "jump"
    ended_by: ClassVar[Ending] = "correct"

    def needs(self, step: Jump) -> Capability:
        """A clock that can be shifted."""
        return _needs(step)

    def target(self, step: Jump, cluster: Cluster) -> Target:
        """Whose clock, and by how much."""
        return Target(f"clock of {step.name} {format_duration(step.by_ns, signed=True)}", (step.name,))

    def breaks(self, step: Jump, tolerance: Tolerance) -> str | None:
        """Break the bound on clock error, unless the step is smaller than drift may make it."""
        return BROKEN if abs(step.by_ns) > tolerance.clock_error_ns else None

    async def inject(self, step: Jump, cluster: Cluster) -> Receipt:
        """Step the clock and read it before and after."""
        who = machine(step.name, cluster)
        before = await _certain(who, abs(step.by_ns))
        await who.jump_clock(step.by_ns)
        after = await _certain(who, abs(step.by_ns))
        moved_ns = after.offset_ns - before.offset_ns
        error_ns = before.uncertainty_ns + after.uncertainty_ns
        tolerance_ns = abs(step.by_ns) * TOLERANCE
        evidence = {
            "offset_before_ms": ms(before.offset_ns),
            "offset_after_ms": ms(after.offset_ns),
            "moved_ms": ms(moved_ns),
            "uncertainty_ms": ms(error_ns),
        }
        # So it moved for certain. What it drifted between the readings, if it drifts, is tolerated.
        off_ns = abs(moved_ns - step.by_ns)
        return Receipt(error_ns <= tolerance_ns and off_ns <= tolerance_ns + error_ns, evidence)


class DriftFault:
    """A wall clock that runs too fast or too slow."""

    f: ClassVar[str] = "drift"
    ended_by: ClassVar[Ending] = "correct"

    def needs(self, step: Drift) -> Capability:
        """A clock that can be shifted."""
        return _needs(step)

    def target(self, step: Drift, cluster: Cluster) -> Target:
        """Whose clock, and how fast."""
        return Target(f"clock of {step.name} {step.ppm:+d} ppm", (step.name,))

    def breaks(self, step: Drift, tolerance: Tolerance) -> str | None:
        """Break the bound on clock error, unless clocks are said to drift that much."""
        return BROKEN if abs(step.ppm) > tolerance.clock_rate * 1e6 else None

    async def inject(self, step: Drift, cluster: Cluster) -> Receipt:
        """Let it drift, and watch it until its rate is certain to be what was asked for, or not to be."""
        who = machine(step.name, cluster)
        await who.drift_clock(step.ppm)
        least_ppm, most_ppm = sorted((step.ppm * (1 - TOLERANCE), step.ppm * (1 + TOLERANCE)))
        first = await _timed(who, step.ppm)
        while True:
            last = await _timed(who, step.ppm)
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


class StrobeFault:
    """A wall clock that steps to and fro."""

    f: ClassVar[str] = "strobe"
    ended_by: ClassVar[Ending] = "correct"

    def needs(self, step: Strobe) -> Capability:
        """A clock that can be shifted."""
        return _needs(step)

    def target(self, step: Strobe, cluster: Cluster) -> Target:
        """Whose clock, how far and how often."""
        far, often = format_duration(step.by_ns, signed=True), format_duration(step.every_ns)
        return Target(f"clock of {step.name} {far} every {often}", (step.name,))

    def breaks(self, step: Strobe, tolerance: Tolerance) -> str | None:
        """Break the bound on clock error, unless the steps are smaller than drift may make them."""
        return BROKEN if abs(step.by_ns) > tolerance.clock_error_ns else None

    async def inject(self, step: Strobe, cluster: Cluster) -> Receipt:
        """Let it strobe, and read it until both sides were seen."""
        who = machine(step.name, cluster)
        loop = asyncio.get_running_loop()
        before = await _certain(who, abs(step.by_ns))
        await who.strobe_clock(step.by_ns, step.every_ns)
        near = far = 0
        give_up = loop.time() + STROBE_PATIENCE_S + 4 * step.every_ns / 1e9
        while loop.time() < give_up and not (near and far):
            now = await _certain(who, abs(step.by_ns))
            moved_ns, error_ns = now.offset_ns - before.offset_ns, now.uncertainty_ns + before.uncertainty_ns
            far += abs(moved_ns - step.by_ns) + error_ns < abs(step.by_ns) / 2
            near += abs(moved_ns) + error_ns < abs(step.by_ns) / 2
            await asyncio.sleep(step.every_ns / 1e9 / 4)
        evidence = {
            "offset_before_ms": ms(before.offset_ns),
            "readings_stepped_away": far,
            "readings_stepped_back": near,
        }
        return Receipt(bool(near and far), evidence)


async def correct_clock(name: str, cluster: Cluster) -> Receipt:
    """Set a clock right; confirmed when it shows the time of this machine."""
    who = machine(name, cluster)
    before = await who.read_clock()
    await who.correct_clock()
    after = await _certain(who, max(abs(before.offset_ns), COARSE_NS))
    evidence: dict[str, Any] = {
        "offset_before_ms": ms(before.offset_ns),
        "offset_after_ms": ms(after.offset_ns),
    }
    return Receipt(abs(after.offset_ns) <= after.uncertainty_ns + SLACK_NS, evidence)


async def _certain(who: Machine, step_ns: int) -> ClockReading:
    """A reading that can tell a step of so many nanoseconds, or the most certain of many that could not.

    A busy machine may stand still in the middle of a reading, which makes that one uncertain.
    """
    best = await who.read_clock()
    for _ in range(READINGS_MAX - 1):
        if best.uncertainty_ns <= step_ns * TOLERANCE / 2:
            break
        best = min(best, await who.read_clock(), key=lambda one: one.uncertainty_ns)
    return best


@dataclass(frozen=True, slots=True)
class Timed:
    """What a clock showed, and between which two monotonic nanoseconds it did."""

    shown: ClockReading
    taken_from_ns: int
    taken_until_ns: int


def rate_between(first: Timed, last: Timed) -> tuple[float, float]:
    """Between which two rates, in ppm, a clock must have run on the average between two readings.

    Nothing is guessed: neither when in its call a reading was taken, nor how far it was off. Where even that
    time passed between the readings is uncertain, any rate is possible.
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


async def _timed(who: Machine, ppm: int) -> Timed:
    """The reading, of a few, that tells most about a drift of so many ppm."""

    def doubt_ns(one: Timed) -> float:
        return one.shown.uncertainty_ns + (one.taken_until_ns - one.taken_from_ns) * abs(ppm) / 1e6

    taken = []
    for _ in range(DRIFT_READINGS):
        from_ns = time.monotonic_ns()
        shown = await who.read_clock()
        taken.append(Timed(shown, from_ns, time.monotonic_ns()))
    return min(taken, key=doubt_ns)


def _whole(ppm: float) -> int | None:
    return round(ppm) if isfinite(ppm) else None
