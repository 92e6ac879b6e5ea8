"""The base class of faults of wall clocks: the clock of one machine is changed, all others stay.

Redis expires keys by its wall clock, so a step forward ends leases early and a step back prolongs them. The
receipt is the time that the process itself shows (a node's ``TIME``), compared with this machine's clock
before and after. If the process is down or paused, another process with the same clock is read.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from lab.faults.base import Fault, Target
from lab.faults.machine import MachineStep
from lab.scenario.fault_step import Drawing, Sign
from lab.substrates.base import Capability, ClockReading, Cluster, Machine

BROKEN: Final = "bounded clock error"
READINGS_MAX: Final = 20
"""How many readings are taken at most until one is certain enough to show a step."""
TOLERANCE: Final = 0.25
"""How far a measured step, or rate of a drift, may differ from the intended one, as a share of it."""
SHOWN_LATE_S: Final = 0.002
"""Longer than a server may go on by its old clock after a change.

Valkey since 9.1 reads the wall clock once a millisecond, and between by the processor's counter
(valkey-io/valkey, pull request 3193).
"""


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

    @property
    def whose(self) -> str:
        """The clock, for people."""
        return f"{self.client.capitalize()}'s wall clock" if self.client else f"the clock of {self.node}"

    @property
    def ended_clause(self) -> str:
        """The clock is right."""
        return f"{self.whose} is right again"

    def target(self, cluster: Cluster) -> Target:
        """Whose clock, and how it is wrong."""
        return Target(f"clock of {self.name} {self.how}", (self.name,))

    @property
    @abstractmethod
    def how(self) -> str:
        """How it is wrong, as text."""


async def certain_reading(machine: Machine, step_ns: int) -> ClockReading:
    """A reading certain enough to show a step of so many nanoseconds, or the most certain of many.

    On a busy machine the process may be descheduled during a reading, which makes that one uncertain.
    """
    best = await machine.read_clock()
    for _ in range(READINGS_MAX - 1):
        if best.uncertainty_ns <= step_ns * TOLERANCE / 2:
            break
        best = min(best, await machine.read_clock(), key=lambda one: one.uncertainty_ns)
    return best


async def reading_after(
    machine: Machine, step_ns: int, shows: Callable[[ClockReading], bool]
) -> ClockReading:
    """A certain reading after a change of the clock, taken again if the machine shows it late."""
    first = await certain_reading(machine, step_ns)
    if shows(first):
        return first
    await asyncio.sleep(SHOWN_LATE_S)
    return await certain_reading(machine, step_ns)
