"""What nodes and clients have in common: processes that are stopped and killed together, and a clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from lab.errors import UnknownOutcome
from lab.substrates.base import ClockReading
from lab.substrates.real.clock import WallClock

STATE_TIMEOUT_S = 2.0
END_TIMEOUT_S = 10.0


class Body(Protocol):
    """The processes that a machine consists of: a process group, or a container.

    ``expected_end`` is set by whoever ends it on purpose; an end that nobody expected fails the run.
    """

    expected_end: bool

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        ...

    def states(self) -> dict[int, str]:
        """Return the state letter of each of its processes (``T`` is stopped)."""
        ...

    async def stop(self) -> None:
        """Let all of its processes stand still."""
        ...

    async def go_on(self) -> None:
        """Let them go on."""
        ...

    async def kill(self) -> None:
        """End all of them at once; what is gone is no error."""
        ...

    async def ended(self) -> int:
        """Wait for the end and return the exit code."""
        ...

    def tail(self, lines: int = 5) -> str:
        """Return the last lines of its log."""
        ...


def tree(pid: int) -> Iterator[int]:
    """The ids of a process and of everything below it."""
    yield pid
    tasks: list[Path] = []
    with contextlib.suppress(OSError):  # it may end while it is looked at
        tasks += Path(f"/proc/{pid}/task").glob("*/children")
    for task in tasks:
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                yield from tree(int(child))


B = TypeVar("B", bound=Body)


class RealMachine(Generic[B]):
    """One body and its wall clock; ``child`` is None before it was started."""

    def __init__(self, name: str, clock: WallClock | None) -> None:
        self.name = name
        self.child: B | None = None
        self._clock = clock

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self.child is not None and self.child.running

    async def pause(self) -> None:
        """Stop all of its processes."""
        await self.running().stop()
        await self._wait_for_state(stopped=True)

    async def resume(self) -> None:
        """Let them go on."""
        await self.running().go_on()
        await self._wait_for_state(stopped=False)

    async def kill(self) -> None:
        """SIGKILL all of them and wait until they are gone; nobody calls that an accident."""
        child = self.running()
        child.expected_end = True
        await child.kill()
        await self._exit_code(child)
        await self._wait_until(lambda: not child.states())

    def states(self) -> dict[int, str]:
        """Return the state letter of each of its processes."""
        return self.running().states()

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
        return await self._reported_time()

    async def _reported_time(self) -> ClockReading:
        raise NotImplementedError

    @property
    def clock(self) -> WallClock:
        """Its wall clock. Raises ``UnknownOutcome`` if it has none of its own."""
        if self._clock is None:
            raise UnknownOutcome(f"{self.name} was started without the clock shim")
        return self._clock

    def running(self) -> B:
        """Its process. Raises ``UnknownOutcome`` if it was never started."""
        if self.child is None:
            raise UnknownOutcome(f"{self.name} was never started")
        return self.child

    async def _exit_code(self, child: B) -> int | None:
        """How it ended; None if it does not."""
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                return await child.ended()
        except TimeoutError:
            return None

    async def _wait_for_state(self, *, stopped: bool) -> None:
        await self._wait_until(lambda: all((state == "T") is stopped for state in self.states().values()))

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + STATE_TIMEOUT_S
        while not is_so() and loop.time() < give_up:
            await asyncio.sleep(0.0005)
