"""The wall clock of one machine of a local run: its processes preload the clock shim."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

from lab.errors import UnknownOutcome
from lab.shims import CLOCK_VARIABLE, preload
from lab.substrates.base import ClockReading
from lab.substrates.real.clock import WallClock, reading

WITNESS = "import time; print(time.time_ns())"
WITNESS_TIMEOUT_S = 10.0


class LocalClock(WallClock):
    """Sets a clock, and reads it through a process of its own when nobody else can be asked."""

    def __init__(self, shim: Path, path: Path) -> None:
        super().__init__(path)
        self._shim = shim

    @property
    def environment(self) -> dict[str, str]:
        """What gives a process this clock."""
        return {"LD_PRELOAD": preload(self._shim), CLOCK_VARIABLE: str(self.path)}

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
