"""Where drivers run: whether one can, how it is started there, and who it says that it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lab.drivers import PREFIX

if TYPE_CHECKING:
    from lab.drivers.messages import Hello
    from lab.drivers.process import OptionValues

T = TypeVar("T")


class Place(Protocol):
    """One substrate, as drivers see it. ``lock`` is a lock's name: ``driver:NAME``, or a command line."""

    def why_not(self, lock: str) -> str | None:
        """Say why this driver cannot be run there now, with the command that helps, or None if it can."""
        ...

    def launch(self, lock: str) -> tuple[str, ...]:
        """How it is started there, beside a client. Raises ``LabError``, with the command that helps."""
        ...

    def hello(self, lock: str, options: OptionValues) -> Hello:
        """Start it there and ask it who it is. Raises ``LabError``."""
        ...


class ThisMachine:
    """Drivers as processes of this machine. What they need is imported with the first one."""

    def why_not(self, lock: str) -> str | None:
        """Whether its library is installed; of somebody's own program it is not known before it starts."""
        from lab.drivers.environment import why_not

        return why_not(lock.removeprefix(PREFIX)) if lock.startswith(PREFIX) else None

    def launch(self, lock: str) -> tuple[str, ...]:
        """In the environment that was made for it, or as the command line says."""
        from lab.drivers.environment import launch_of

        return launch_of(lock)

    def hello(self, lock: str, options: OptionValues) -> Hello:
        """Ask it, beside whatever runs here."""
        from lab.drivers.greet import greet

        return _apart(greet(self.launch(lock), options))


def _apart(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in a loop and a thread of its own, whoever is running a loop here."""
    ended: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return ended[0]
