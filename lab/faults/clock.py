"""``jump``, ``drift``, ``strobe``, ``correct``: the wall clock of one node or client; all others stay.

Redis expires keys by its wall clock, so a step forward ends leases early and a step back prolongs them. The
receipt is what the process itself says that the time is (a node's ``TIME``), compared with this machine's
clock before and after. Of one that is down or stands still, another process with the same clock is asked.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar, Final

from lab.durations import format_duration
from lab.faults.base import Ending, Receipt, Target, Tolerance, machine, ms
from lab.scenario.step_machine import Drift, Jump, MachineStep, Strobe
from lab.substrates.base import Capability, ClockReading, Cluster, Machine

BROKEN: Final = "bounded clock error"
SLACK_NS: Final = 5_000_000
"""How much two clock readings may disagree beyond their own uncertainty."""
READINGS: Final = 5
"""How many readings the most certain one is chosen from, where every microsecond counts."""
DRIFT_TOLERANCE: Final = 0.25
"""Which share of a drift its measured rate may be off."""
DRIFT_PATIENCE_NS: Final = 2_500_000_000
"""How long a drift is watched at most, until its rate is certain enough."""
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
        before = await who.read_clock()
        await who.jump_clock(step.by_ns)
        after = await who.read_clock()
        moved_ns = after.offset_ns - before.offset_ns
        error_ns = before.uncertainty_ns + after.uncertainty_ns + SLACK_NS
        evidence = {
            "offset_before_ms": ms(before.offset_ns),
            "offset_after_ms": ms(after.offset_ns),
            "moved_ms": ms(moved_ns),
        }
        return Receipt(abs(moved_ns - step.by_ns) <= min(error_ns, abs(step.by_ns) // 2), evidence)


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
        """Let it drift, and watch it until its rate can be told from the error of measurement."""
        who = machine(step.name, cluster)
        await who.drift_clock(step.ppm)
        first, since_ns = await _certain(who)
        while True:
            last, now_ns = await _certain(who)
            watched_ns = now_ns - since_ns
            drifted_ns, due_ns = last.offset_ns - first.offset_ns, watched_ns * step.ppm / 1e6
            error_ns = first.uncertainty_ns + last.uncertainty_ns
            if abs(due_ns) * DRIFT_TOLERANCE > error_ns or watched_ns > DRIFT_PATIENCE_NS:
                break
            await asyncio.sleep(0.01)
        off_ns = abs(drifted_ns - due_ns)
        return Receipt(
            off_ns <= abs(due_ns) * DRIFT_TOLERANCE + error_ns < abs(due_ns),
            {
                "measured_ppm": round(drifted_ns / watched_ns * 1e6),
                "drifted_ms": ms(drifted_ns),
                "watched_ms": ms(watched_ns),
                "uncertainty_ms": ms(error_ns),
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
        before = await who.read_clock()
        await who.strobe_clock(step.by_ns, step.every_ns)
        near = far = 0
        give_up = loop.time() + STROBE_PATIENCE_S + 4 * step.every_ns / 1e9
        while loop.time() < give_up and not (near and far):
            moved_ns = (await who.read_clock()).offset_ns - before.offset_ns
            far += _is_near(moved_ns, step.by_ns, step.by_ns)
            near += _is_near(moved_ns, 0, step.by_ns)
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
    after = await who.read_clock()
    evidence: dict[str, Any] = {
        "offset_before_ms": ms(before.offset_ns),
        "offset_after_ms": ms(after.offset_ns),
    }
    return Receipt(abs(after.offset_ns) <= after.uncertainty_ns + SLACK_NS, evidence)


def _is_near(moved_ns: int, there_ns: int, by_ns: int) -> bool:
    return abs(moved_ns - there_ns) < abs(by_ns) // 2


async def _certain(who: Machine) -> tuple[ClockReading, int]:
    """The most certain of a few readings, and when it was taken, in monotonic nanoseconds."""
    readings = []
    for _ in range(READINGS):
        before_ns = time.monotonic_ns()
        reading = await who.read_clock()
        readings.append((reading, (before_ns + time.monotonic_ns()) // 2))
    return min(readings, key=lambda taken: taken[0].uncertainty_ns)
