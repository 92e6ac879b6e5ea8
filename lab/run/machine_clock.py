"""Noticing that this machine's clock was set while a run went on, which is a fault that nobody asked for.

Keys on the nodes expire by it: a lock that breaks then has done nothing wrong, and one that does not was not
put to the test that was meant. What NTP does to a running clock changes the monotonic clock alike and is no
step; after a sleep of the whole machine the two differ as well.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

LOOK_EVERY_S: Final = 0.1
STEP_NS: Final = 1_000_000
"""Smaller steps are within what the checker allows for; servers count expiry in whole milliseconds."""


def _ahead() -> tuple[int, int]:
    """How far the wall clock is ahead of the monotonic one, between which bounds, in nanoseconds."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - time.monotonic_ns(), wall_ns - before_ns


class MachineClock:
    """The wall clock of this machine, from now on."""

    def __init__(self) -> None:
        self._least_ns, self._most_ns = _ahead()

    def set_meanwhile(self) -> str | None:
        """Say by how much it was set since this was made, in a sentence; None if it was not."""
        least_ns, most_ns = _ahead()
        by_ns = least_ns - self._most_ns if least_ns > self._most_ns else min(most_ns - self._least_ns, 0)
        if abs(by_ns) < STEP_NS:
            return None
        way = "forward" if by_ns > 0 else "back"
        return (
            f"the clock of this machine was set {way} by {abs(by_ns) / 1e9:.3f} s while the run went on, "
            "and keys on the nodes expire by it"
        )

    async def watch(self, failed: asyncio.Future[str]) -> None:
        """Look again and again; let ``failed`` know when it was set."""
        while not failed.done():
            if told := self.set_meanwhile():
                failed.set_result(told)
            await asyncio.sleep(LOOK_EVERY_S)
