"""One simulated machine: its clocks, its entropy, and whether it stands still."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import Any, Final, TypeVar

from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.running import RUNNING
from lab.substrates.sim.world import World

T = TypeVar("T")


class Host:
    """A machine of the world. Code runs on it only by ``run``."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.clock = world.clock()
        self.random = world.random(f"host/{name}")
        self.paused = False
        self.paused_ns = 0
        """When the last pause began, by the world's time."""
        self.down = False
        self.on_resume: Callable[[], None] | None = None
        """Looks at what came in while the host stood still."""

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something that shall see this host's clocks and entropy."""
        before, RUNNING.host = RUNNING.host, self
        RUNNING.thread = get_ident()
        try:
            return function(*arguments)
        finally:
            RUNNING.host = before

    def pause(self) -> None:
        """Stand still: no code runs until ``resume``."""
        if not self.paused:
            self.paused, self.paused_ns = True, self.world.now_ns

    def resume(self) -> None:
        """Go on."""
        if self.paused:
            self.paused = False
            if self.on_resume is not None:
                self.on_resume()


def running_host() -> Host | None:
    """Return whose code runs in this thread, None outside the simulation."""
    host = RUNNING.host
    return host if host is not None and RUNNING.thread == get_ident() else None


_NOT_TO_BLAME: Final = (str(Path(__file__).parent), sysconfig.get_path("stdlib"))


def forbidden(host: Host, what: str, expected: str | None = None) -> SimulationError:
    """Return the error for what simulated code must not do, with the place; the run cannot pass any more."""
    frames = traceback.extract_stack()
    blamed = [frame for frame in frames if not _is_ours_or_pythons(frame.filename)]
    at = (blamed or frames)[-1]
    error = SimulationError(
        f"simulated code on {host.name} {what}",
        where=f"{at.filename}:{at.lineno}, in {at.name}",
        expected=expected or "asyncio only: a simulated host has its own time, entropy and connections",
    )
    host.world.violate(error)
    return error


def _is_ours_or_pythons(file: str) -> bool:
    return (file.startswith(_NOT_TO_BLAME) and "site-packages" not in file) or file.startswith("<frozen")
