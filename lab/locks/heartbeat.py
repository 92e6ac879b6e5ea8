"""Detects stalls of a process of any cause: a stop signal, a busy machine, a blocked event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

BEAT_NS = 10_000_000
STALL_NS = 50_000_000
"""A gap longer than this is recorded as a stall, injected or not."""


@runtime_checkable
class KnowsPauses(Protocol):
    """An event loop on a simulated host: a process stalls there in a pause, and never otherwise."""

    async def until_resumed(self) -> int:
        """Wait until the host goes on after a pause; return how long that was, in nanoseconds."""
        ...


async def watch_for_stalls(
    report: Callable[[int, int], None], clock_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Call ``report(start_ns, duration_ns)`` for each stall over 50 ms, forever.

    A stall is a gap between two beats, which are 10 ms apart; on a simulated host, a pause.
    """
    loop = asyncio.get_running_loop()
    last_ns = clock_ns()
    while True:
        if isinstance(loop, KnowsPauses):
            took_ns = await loop.until_resumed()
            last_ns = clock_ns() - took_ns
        else:
            await asyncio.sleep(BEAT_NS / 1e9)
        now_ns = clock_ns()
        if now_ns - last_ns > STALL_NS:
            report(last_ns, now_ns - last_ns)
        last_ns = now_ns
