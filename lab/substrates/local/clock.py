"""The wall clock of one machine of a local run: a file that the clock shim reads in each of its processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.errors import UnknownOutcome
from lab.shims import CLOCK_VARIABLE, ClockFile, preload
from lab.substrates.base import ClockReading

WITNESS = "import time; print(time.time_ns())"
WITNESS_TIMEOUT_S = 10.0


class LocalClock:
    """Sets a clock, and reads it through a process of its own when nobody else can be asked."""

    def __init__(self, shim: Path, path: Path) -> None:
        self._file = ClockFile(path)
        self._file.create()
        self._shim = shim
        self._strobe: asyncio.Task[None] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What gives a process this clock."""
        return {"LD_PRELOAD": preload(self._shim), CLOCK_VARIABLE: str(self._file.path)}

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
        before_ns = time.time_ns()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-ISc", WITNESS),
            env={**os.environ, **self.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(WITNESS_TIMEOUT_S):
                shown, _ = await process.communicate()
            return reading(int(shown), before_ns, time.time_ns())
        except (TimeoutError, ValueError) as error:
            raise UnknownOutcome("a process started to read a shifted clock did not tell the time") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

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
    """Measures time by a wall clock, so that a jump of the clock is a jump of the measured time."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._since_ns = clock()

    def __call__(self) -> int:
        """Nanoseconds since it was made."""
        return self._clock() - self._since_ns
