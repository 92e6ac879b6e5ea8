"""What faults of wall clocks share: one machine's clock is hit, and all others stay.

Redis expires keys by its wall clock, so a step forward ends leases early and a step back prolongs them. The
receipt is what the process itself says that the time is (a node's ``TIME``), compared with this machine's
clock before and after. Of one that is down or stands still, another process with the same clock is asked.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from lab.faults.base import Fault, Target
from lab.faults.machine import MachineStep
from lab.scenario.fault_step import Drawing, Sign
from lab.substrates.base import Capability, ClockReading, Cluster, Machine

BROKEN: Final = "bounded clock error"
READINGS_MAX: Final = 20
"""How many readings are taken at most until one is certain enough to tell a step."""
TOLERANCE: Final = 0.25
"""Which share of a step, or of a drift's rate, what is measured may be off."""


class ClockFault(MachineStep, Fault):
    """A wall clock that is wrong until it is corrected."""

    ENDED_BY = "correct"
    DRAWN = Drawing("machine", nodes_first=True)
    SIGN = Sign("clock")
    TOOLS = ("clock-shim", "LD_PRELOAD")

    @property
    def needs(self) -> Capability:
        """A clock that can be shifted."""
        return Capability.CLIENT_CLOCKS if self.node is None else Capability.NODE_CLOCKS

    def target(self, cluster: Cluster) -> Target:
        """Whose clock, and how it is wrong."""
        return Target(f"clock of {self.name} {self.how}", (self.name,))

    @property
    @abstractmethod
    def how(self) -> str:
        """How it is wrong, in words."""


async def certain_reading(who: Machine, step_ns: int) -> ClockReading:
    """A reading that can tell a step of so many nanoseconds, or the most certain of many that could not.

    A busy machine may stand still in the middle of a reading, which makes that one uncertain.
    """
    best = await who.read_clock()
    for _ in range(READINGS_MAX - 1):
        if best.uncertainty_ns <= step_ns * TOLERANCE / 2:
            break
        best = min(best, await who.read_clock(), key=lambda one: one.uncertainty_ns)
    return best
