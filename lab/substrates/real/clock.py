"""The wall clock of one machine: a file that the clock shim reads in each of its processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from lab.shims import ClockFile
from lab.substrates.base import ClockReading


class WallClock:
    """Sets a clock, and reads it through somebody else when its own processes can't be asked."""

    def __init__(self, path: Path) -> None:
        self._file = ClockFile(path)
        self._file.create()
        self._strobe: asyncio.Task[None] | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def jump(self, by_ns: int) -> None:
        """Step by so much; a drift goes on."""
        self._set(self._shift_ns() + by_ns, self._file.read().rate_ppb)

    def drift(self, ppm: int) -> None:
        """Run so much too fast from now on, without a step."""
        self._set(self._shift_ns(), ppm * 1000)

    def strobe(self, by_ns: int, every_ns: int) -> None:
        """Step forth and back, until corrected."""
        self._stop_strobe()
        self._strobe = asyncio.create_task(self._step_to_and_fro(by_ns, every_ns))

    def correct(self) -> None:
        """Show the real time again."""
        self._stop_strobe()
        self._set(0, 0)

    def close(self) -> None:
        """Let go of what still runs."""
        self._stop_strobe()

    def now_ns(self) -> int:
        """What it shows."""
        return time.time_ns() + self._shift_ns()

    async def witness(self) -> ClockReading:
        """Start a process with this clock and ask it for the time. Raises ``UnknownOutcome``."""
        raise NotImplementedError

    def _shift_ns(self) -> int:
        return self._file.read().shift_ns(time.monotonic_ns())

    def _set(self, offset_ns: int, rate_ppb: int) -> None:
        self._file.set(offset_ns=offset_ns, rate_ppb=rate_ppb, anchor_ns=time.monotonic_ns())

    async def _step_to_and_fro(self, by_ns: int, every_ns: int) -> None:
        while True:
            self.jump(by_ns)
            await asyncio.sleep(every_ns / 1e9)
            self.jump(-by_ns)
            await asyncio.sleep(every_ns / 1e9)

    def _stop_strobe(self) -> None:
        if self._strobe is not None:
            self._strobe.cancel()
            self._strobe = None


def reading(shown_ns: int, before_ns: int, after_ns: int) -> ClockReading:
    """How far a clock is ahead that showed ``shown_ns`` somewhere between two looks at this machine's."""
    return ClockReading(shown_ns - (before_ns + after_ns) // 2, (after_ns - before_ns) // 2 + 1_000)


class Stopwatch:
    """Measures time by a clock; by a wall clock a jump of the clock is a jump of the measured time."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._since_ns = clock()

    def __call__(self) -> int:
        """Nanoseconds since it was made."""
        return self._clock() - self._since_ns
