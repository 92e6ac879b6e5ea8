"""Whose code runs now, and in which thread; of all that happens in a simulation this is asked most often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lab.substrates.sim.host import Host


class _Running:
    """Whose code runs at this moment, and in which thread."""

    __slots__ = ("host", "loop", "thread")

    def __init__(self) -> None:
        self.host: Host | None = None
        self.thread = 0
        self.loop: Any = None
        """What asyncio takes for the running loop while a world runs: that of the host that ran last."""


RUNNING: Final = _Running()
"""``host`` is None outside the simulation. An object of its own: to change a class is slow."""
