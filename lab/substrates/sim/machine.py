"""What simulated nodes and clients have in common: a host that may stand still, and its wall clock."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from lab.substrates.base import ClockReading
from lab.substrates.real.clock import reading
from lab.substrates.sim.host import Host
from lab.substrates.sim.sending import Sendings

ACT_S: Final = 0.0002
"""How long it takes to do something to a machine or a link, or to look at it: never no time at all."""


class Acts:
    """Something simulated that faults act on: each act, and each look at it, takes a moment."""

    async def acting(self) -> None:
        """Let the time pass that an act takes."""
        await asyncio.sleep(ACT_S)


class SimMachine(Acts):
    """One host of the world as faults see it. Process ids are small numbers of the world's own."""

    def __init__(self, host: Host, process_id: int) -> None:
        self.name = host.name
        self.host = host
        self.process_id = process_id
        self._strobes = 0
        self.sendings: Sendings | None = None
        """What it sends to nodes, if anything waits for that."""

    @property
    def alive(self) -> bool:
        """Whether it is up, or stands still."""
        return not self.host.down

    async def pause(self) -> None:
        """Stop stepping it."""
        await self.acting()
        self.host.pause()

    async def resume(self) -> None:
        """Step it again: what came in is heard, then timers that are due; what it was sending leaves."""
        await self.acting()
        self.host.resume()
        if self.sendings is not None:
            self.sendings.go_on()

    def states(self) -> dict[int, str]:
        """Its one process, in the letters of /proc."""
        return {} if self.host.down else {self.process_id: "T" if self.host.paused else "S"}

    async def jump_clock(self, by_ns: int) -> None:
        """Step its wall clock."""
        await self.acting()
        self.host.clock.jump(by_ns)
        self.clock_changed()

    async def drift_clock(self, ppm: int) -> None:
        """Let its wall clock run too fast, or too slow."""
        await self.acting()
        self.host.clock.drift(ppm)
        self.clock_changed()

    async def strobe_clock(self, by_ns: int, every_ns: int) -> None:
        """Step its wall clock forth and back until it is corrected."""
        await self.acting()
        self._strobes += 1
        self._strobe(self._strobes, by_ns, every_ns)

    async def correct_clock(self) -> None:
        """Set its wall clock right."""
        await self.acting()
        self._strobes += 1  # whatever strobed it before has another number and stops
        self.host.clock.correct()
        self.clock_changed()

    async def read_clock(self) -> ClockReading:
        """Ask the machine itself; one that can't answer has its clock looked at."""
        before_ns = time.time_ns()
        if self.alive and not self.host.paused:
            return reading(await self.reported_time_ns(), before_ns, time.time_ns())
        await asyncio.sleep(ACT_S / 2)
        shown_ns = self.host.clock.wall_ns()
        await asyncio.sleep(ACT_S / 2)
        return reading(shown_ns, before_ns, time.time_ns())

    async def reported_time_ns(self) -> int:
        """What the machine says its wall clock shows."""
        raise NotImplementedError

    def clock_changed(self) -> None:
        """Do what depends on the wall clock."""

    def _strobe(self, number: int, by_ns: int, every_ns: int) -> None:
        if number == self._strobes:
            self.host.clock.jump(by_ns)
            self.clock_changed()
            self.host.world.after(every_ns, self._strobe, number, -by_ns, every_ns)
