"""The rounds of a client of a workload: work, think, work, think.

Timing depends on this process alone: its own clock ends the loop, its own random source draws think times,
computing times and keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from random import Random
from typing import Final

from lab.client.worker import Worker
from lab.client_protocol import Loop, Outcome

MOST: Final = 8
"""How many times the mean a drawn time may be at most."""


class Rounds:
    """Critical sections one after the other until the time is over, enough were done, or ``stop`` came."""

    def __init__(
        self, worker: Worker, loop: Loop, random: Random, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._worker = worker
        self._loop = loop
        self._random = random
        self._clock_ns = clock_ns
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._stopped.set()

    async def run(self) -> str:
        """Loop; return as text how many rounds there were and how many of them wrote and released."""
        give_up_ns = self._clock_ns() + self._loop.duration_ns
        rounds = complete = 0
        # Thinking comes first so that clients do not begin all at once.
        while await self._think(give_up_ns) and rounds != self._loop.operations:
            self._worker.use(self._random.choice(self._loop.keys))
            answer = await self._worker.critical_section(self._compute)
            rounds += 1
            complete += answer.outcome is Outcome.OK
        return f"{rounds} rounds, {complete} complete"

    async def _think(self, give_up_ns: int) -> bool:
        """Pause; whether there is time for another round."""
        left_ns = give_up_ns - self._clock_ns()
        pause_ns = min(self.drawn_ns(self._loop.think_ns), max(left_ns, 0))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), pause_ns / 1e9)
        return not self._stopped.is_set() and self._clock_ns() < give_up_ns

    async def _compute(self) -> None:
        await asyncio.sleep(self.drawn_ns(self._loop.hold_ns) / 1e9)

    def drawn_ns(self, mean_ns: int) -> int:
        """A time drawn from the exponential distribution with this mean, cut off at ``MOST`` means."""
        return round(mean_ns * min(self._random.expovariate(1.0), MOST))
