"""Detects stalls of a process of any cause: a stop signal, a busy machine, a blocked event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

BEAT_NS = 10_000_000
STALL_NS = 50_000_000
"""A gap longer than this is recorded as a stall, injected or not."""


async def watch_for_stalls(
    report: Callable[[int, int], None], clock_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Wake up every 10 ms, forever; call ``report(start_ns, duration_ns)`` for each gap over 50 ms."""
    last_ns = clock_ns()
    while True:
        await asyncio.sleep(BEAT_NS / 1e9)
        now_ns = clock_ns()
        if now_ns - last_ns > STALL_NS:
            report(last_ns, now_ns - last_ns)
        last_ns = now_ns
