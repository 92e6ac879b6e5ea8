"""What local nodes and clients have in common: a process group that is stopped and killed, and a clock."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from lab.errors import UnknownOutcome
from lab.substrates.base import ClockReading
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.processes import Child

STATE_TIMEOUT_S = 2.0
END_TIMEOUT_S = 10.0


class LocalMachine:
    """One process group and its wall clock; ``child`` is None before it was started."""

    def __init__(self, name: str, clock: LocalClock | None) -> None:
        self.name = name
        self.child: Child | None = None
        self._clock = clock

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self.child is not None and self.child.running

    async def pause(self) -> None:
        """SIGSTOP the process group."""
        self.running().signal_group(signal.SIGSTOP)
        await self._wait_for_state(stopped=True)

    async def resume(self) -> None:
        """SIGCONT the process group."""
        self.running().signal_group(signal.SIGCONT)
        await self._wait_for_state(stopped=False)

    async def kill(self) -> None:
        """SIGKILL the process group and wait until it is gone; nobody calls that an accident."""
        child = self.running()
        child.expected_end = True
        child.signal_group(signal.SIGKILL)
        await self._gone(child)

    def states(self) -> dict[int, str]:
        """Return the state letter of each process in the group, from /proc."""
        group = self.running().pid
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[2]) == group:
                        found[int(entry.name)] = fields[0]
        return found

    async def jump_clock(self, by_ns: int) -> None:
        """Step the wall clock that this process sees; every other clock stays."""
        self.clock.jump(by_ns)

    async def drift_clock(self, ppm: int) -> None:
        """Let it run too fast, or too slow."""
        self.clock.drift(ppm)

    async def strobe_clock(self, by_ns: int, every_ns: int) -> None:
        """Step it forth and back until it is corrected."""
        self.clock.strobe(by_ns, every_ns)

    async def correct_clock(self) -> None:
        """Set it right."""
        self.clock.correct()

    async def read_clock(self) -> ClockReading:
        """Ask the process itself; if it can't answer, another one that has the same clock."""
        if not self.alive or "T" in self.states().values():
            return await self.clock.witness()
        return await self._told_time()

    async def _told_time(self) -> ClockReading:
        raise NotImplementedError

    @property
    def clock(self) -> LocalClock:
        """Its wall clock. Raises ``UnknownOutcome`` if it has none of its own."""
        if self._clock is None:
            raise UnknownOutcome(f"{self.name} was started without the clock shim")
        return self._clock

    def running(self) -> Child:
        """Its process. Raises ``UnknownOutcome`` if it was never started."""
        if self.child is None:
            raise UnknownOutcome(f"{self.name} was never started")
        return self.child

    async def _gone(self, child: Child) -> bool:
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await child.process.wait()
        except TimeoutError:
            return False
        return True

    async def _wait_for_state(self, *, stopped: bool) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + STATE_TIMEOUT_S
        while (
            any((state == "T") is not stopped for state in self.states().values()) and loop.time() < give_up
        ):
            await asyncio.sleep(0.0005)
