"""Detects that this machine's wall clock was set during a run, which is a fault that the scenario lacks.

Keys on the nodes expire by it, so neither a violation nor its absence says anything about the lock then. When
NTP slews the clock, the monotonic clock changes alike: no step. After a suspend of the machine they differ.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

CHECK_EVERY_S: Final = 0.1
STEP_NS: Final = 1_000_000
"""Smaller steps are within the checker's ε; servers count expiry in whole milliseconds."""


def _ahead() -> tuple[int, int]:
    """How far the wall clock is ahead of the monotonic one, between which bounds, in nanoseconds."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - time.monotonic_ns(), wall_ns - before_ns


class MachineClock:
    """The wall clock of this machine, compared with its monotonic clock since this was made."""

    def __init__(self) -> None:
        self._least_ns, self._most_ns = _ahead()

    def set_meanwhile(self) -> str | None:
        """By how much it was set since this was made, as a sentence; None if it was not."""
        least_ns, most_ns = _ahead()
        by_ns = least_ns - self._most_ns if least_ns > self._most_ns else min(most_ns - self._least_ns, 0)
        if abs(by_ns) < STEP_NS:
            return None
        way = "forward" if by_ns > 0 else "back"
        return (
            f"the clock of this machine was set {way} by {abs(by_ns) / 1e9:.3f} s during the run, "
            "and keys on the nodes expire by it"
        )

    async def watch(self, failed: asyncio.Future[str]) -> None:
        """Check it periodically; complete ``failed`` with the sentence when it was set."""
        while not failed.done():
            if sentence := self.set_meanwhile():
                failed.set_result(sentence)
            await asyncio.sleep(CHECK_EVERY_S)
