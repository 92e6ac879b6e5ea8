"""The pause points at which a scenario can make a client wait."""

from __future__ import annotations

import asyncio


class Points:
    """One point at a time is armed; the client waits there, once, until ``go_on``."""

    def __init__(self) -> None:
        self._armed: str | None = None
        self._reached: asyncio.Future[str] | None = None
        self._go_on = asyncio.Event()

    def arm(self, point: str | None) -> asyncio.Future[str]:
        """Arm a point, or none; the future is done, with its name, once the client waits there."""
        self._armed = point
        self._reached = asyncio.get_running_loop().create_future()
        return self._reached

    def disarm(self) -> None:
        """Let the client pass all points."""
        self._armed = None

    def go_on(self) -> None:
        """Let the client leave the point where it waits."""
        self._go_on.set()

    async def at(self, point: str) -> None:
        """Wait here if this point is armed."""
        if self._armed != point or self._reached is None:
            return
        self._armed = None
        self._go_on.clear()
        self._reached.set_result(point)
        await self._go_on.wait()
