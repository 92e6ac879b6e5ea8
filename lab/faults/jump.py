"""``jump``: a wall clock steps, and keeps that offset until it is corrected."""

from __future__ import annotations

from pydantic import Field

from lab.durations import format_duration, short_duration
from lab.faults.base import Receipt, Tolerance, machine, ms
from lab.faults.clock import BROKEN, TOLERANCE, ClockFault, certain_reading, reading_after
from lab.scenario.fault_step import Drawing
from lab.scenario.types import SignedNs
from lab.substrates.base import ClockReading, Cluster


class Jump(ClockFault):
    """The wall clock of a node or a client jumps, and keeps that offset."""

    KEY = "jump"
    EXAMPLE = "{node: C, by: +11s}"
    DRAWN = Drawing("machine", nodes_first=True, may_stay=True)

    by_ns: SignedNs = Field(alias="by")
    """How far, forward (+) or back (-)."""

    @property
    def clause(self) -> str:
        """Which way, and how far."""
        way = "forward" if self.by_ns > 0 else "back"
        return f"{self.whose} jumps {way} by {short_duration(abs(self.by_ns))}"

    @property
    def how(self) -> str:
        """By how much."""
        return format_duration(self.by_ns, signed=True)

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break the bound on clock error, unless the step is within what drift may cause."""
        return BROKEN if abs(self.by_ns) > tolerance.clock_error_ns else None

    async def inject(self, cluster: Cluster) -> Receipt:
        """Step the clock and read it before and after."""
        hit = machine(self.name, cluster)
        before = await certain_reading(hit, abs(self.by_ns))
        await hit.jump_clock(self.by_ns)

        def moved(after: ClockReading) -> bool:
            """Whether it certainly moved. A drift between the readings is tolerated."""
            tolerance_ns = abs(self.by_ns) * TOLERANCE
            error_ns = before.uncertainty_ns + after.uncertainty_ns
            off_ns = abs(after.offset_ns - before.offset_ns - self.by_ns)
            return error_ns <= tolerance_ns and off_ns <= tolerance_ns + error_ns

        after = await reading_after(hit, abs(self.by_ns), moved)
        evidence = {
            "offset_before_ms": ms(before.offset_ns),
            "offset_after_ms": ms(after.offset_ns),
            "moved_ms": ms(after.offset_ns - before.offset_ns),
            "uncertainty_ms": ms(before.uncertainty_ns + after.uncertainty_ns),
        }
        return Receipt(moved(after), evidence)

    def observed_after(self) -> tuple[str, ...]:
        """The node, whose keys may have expired."""
        return () if self.node is None else (self.node,)
