"""Detects stalls of a process of any cause: a stop signal, a busy machine, a blocked event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

BEAT_NS = 10_000_000
BEAT_PER_PROCESS_NS = 200_000
BEAT_MAX_NS = 40_000_000
STALL_NS = 50_000_000
"""A gap longer than this is recorded as a stall, injected or not."""


@runtime_checkable
class KnowsPauses(Protocol):
    """An event loop on a simulated host: a process stalls there in a pause, and never otherwise."""

    async def until_resumed(self) -> int:
        """Wait until the host goes on after a pause; return how long that was, in nanoseconds."""
        ...


def beat_for(processes: int) -> int:
    """The time between two beats in nanoseconds, of so many processes on one machine.

    Those of 400 idle processes, 10 ms apart, took all of two processors. With fewer of them no stall over
    50 ms is missed, and some that are shorter count as well.
    """
    return min(max(BEAT_NS, processes * BEAT_PER_PROCESS_NS), BEAT_MAX_NS)


async def watch_for_stalls(
    report: Callable[[int, int], None],
    clock_ns: Callable[[], int] = time.monotonic_ns,
    beat_ns: int = BEAT_NS,
    active: asyncio.Event | None = None,
) -> None:
    """Call ``report(start_ns, duration_ns)`` for each stall over 50 ms, forever.

    A stall is a gap between two beats, which are ``beat_ns`` apart; on a simulated host, a pause. While
    ``active`` is not set there are no beats: those of 500 idle processes take all of two processors.
    """
    loop = asyncio.get_running_loop()
    last_ns = clock_ns()
    while True:
        if isinstance(loop, KnowsPauses):
            took_ns = await loop.until_resumed()
            last_ns = clock_ns() - took_ns
        else:
            if active is not None and not active.is_set():
                await active.wait()
                last_ns = clock_ns()
            await asyncio.sleep(beat_ns / 1e9)
        now_ns = clock_ns()
        if now_ns - last_ns > STALL_NS:
            report(last_ns, now_ns - last_ns)
        last_ns = now_ns
