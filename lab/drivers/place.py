"""Where drivers run on each substrate: whether one can, how it is started there, and what it is."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lab.drivers import PREFIX, is_driver, words_of
from lab.substrates import AUTO, choose, substrate
from lab.substrates.base import Capability

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

    def client_image(self, lock: str) -> str | None:
        """The image of a container in which a client with this driver runs, if it runs in one."""
        ...


Question = tuple[tuple[str, ...], tuple[tuple[str, object], ...]]
_ASKED: ContextVar[dict[Question, Hello] | None] = ContextVar("_ASKED", default=None)
"""What drivers of this machine have said of themselves, by how they are started, while that is kept."""


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """Inside, each driver of this machine is started once only to be asked who it is."""
    token = _ASKED.set({})
    try:
        yield
    finally:
        _ASKED.reset(token)


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

        known, question = _ASKED.get(), (self.launch(lock), tuple(sorted(options.items())))
        if known is None:
            return _apart(greet(self.launch(lock), options))
        if question not in known:
            known[question] = _apart(greet(self.launch(lock), options))
        return known[question]

    def client_image(self, lock: str) -> str | None:
        """None: clients are processes, or simulated."""
        return None


def place_on(substrate: str) -> Place:
    """Where drivers run on this substrate. None runs on ``sim``, but each can be asked what it is."""
    if substrate != "docker":
        return ThisMachine()
    from lab.drivers.docker_images import Containers  # needs the engine's SDK

    return Containers()


def virtual_time_of(lock: str) -> str:
    """The substrate in virtual time on which a lock can run: a driver is a real process."""
    return "virtual" if is_driver(lock) else "sim"


def servers_of_trials(wanted: str = "") -> str:
    """Name product and version of the nodes of trials, which are simulated for drivers as well."""
    return substrate("sim").servers(wanted or None) or ""


def check_servers_of_replays(lock: str, wanted: str) -> None:
    """Raise ``LabError`` if what is found can't be replayed on this server: drivers need a real one."""
    on = virtual_time_of(lock)
    choose(on, server=wanted, where="--server")
    substrate(on).servers(wanted)


def why_not_in_virtual_time(lock: str) -> str | None:
    """Say why a lock cannot run in virtual time on this machine, or None."""
    on = substrate(virtual_time_of(lock))
    reason = on.missing_reason() or on.lacks("redis")
    if reason is not None or not is_driver(lock):
        return reason
    if lock.startswith(PREFIX):
        from lab.drivers.registry import row

        if row(lock.removeprefix(PREFIX)).language == "Go":
            return "a program in Go calls the kernel itself, past the preload library"
        return place_on("virtual").why_not(lock)
    program = words_of(lock)[0]
    if shutil.which(program):
        return None
    return f"{program} may not be executed" if Path(program).is_file() else f"there is no program {program}"


def place_for(on: str, driver: str) -> Place:
    """Where a driver would run, ``on`` a substrate or `auto`. Raises ``LabError`` if nothing can."""
    needed = frozenset({Capability.DRIVERS})
    return place_on(choose(AUTO, needed, refuses=refusal(driver))[0] if on == AUTO else on)


def refusal(lock: str) -> Callable[[str], str | None] | None:
    """What says why a substrate cannot run this lock now, for ``choose``; None if every substrate can."""
    return (lambda substrate: place_on(substrate).why_not(lock)) if is_driver(lock) else None


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
