"""The points at which a story can make a client wait in the middle of its work."""

from __future__ import annotations

import asyncio


class Points:
    """One point at a time is armed; the client waits there, once, until it is told to go on."""

    def __init__(self) -> None:
        self._armed: str | None = None
        self._reached: asyncio.Future[str] | None = None
        self._go_on = asyncio.Event()

    def arm(self, point: str | None) -> asyncio.Future[str]:
        """Return what will be the point's name once the client waits there; with None it never will."""
        self._armed = point
        self._reached = asyncio.get_running_loop().create_future()
        return self._reached

    def disarm(self) -> None:
        """Let the client pass everywhere."""
        self._armed = None

    def go_on(self) -> None:
        """Let the client leave the point where it waits."""
        self._go_on.set()

    async def at(self, point: str) -> None:
        """Wait here if the story asked for it."""
        if self._armed != point or self._reached is None:
            return
        self._armed = None
        self._go_on.clear()
        self._reached.set_result(point)
        await self._go_on.wait()
