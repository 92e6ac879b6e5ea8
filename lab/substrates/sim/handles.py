"""What a host's event loop keeps of a callback: ``asyncio``'s handles, without a debugger's memory."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import msgspec


class Callback(msgspec.Struct, eq=False):
    """What ``asyncio.Handle`` offers, without a debugger's memory; None as context: it needs none."""

    function: Callable[..., object]
    arguments: tuple[Any, ...]
    context: Context | None
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Do nothing when the time comes."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.is_cancelled


class Timer(Callback, eq=False, kw_only=True):
    """What ``asyncio.TimerHandle`` offers."""

    when_s: float

    def when(self) -> float:
        """When it is due, by the host's monotonic clock, in seconds."""
        return self.when_s
