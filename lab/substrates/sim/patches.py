"""Making this process fit to simulate in, for a while: clocks, entropy, guards, order, no collector."""

from __future__ import annotations

import asyncio
import functools
import gc
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any, Final

from lab.substrates.sim.capture import Replacement, refuse
from lab.substrates.sim.dates import Datetime, captured_methods, mend_subclasses
from lab.substrates.sim.hashes import numbered_hashes
from lab.substrates.sim.host import forbidden, running_host
from lab.substrates.sim.running import RUNNING
from lab.substrates.sim.stand_in import captured, named

GUARDED: Final = {
    "socket.__new__": "makes a real socket",
    "socket.connect": "connects a real socket",
    "socket.bind": "binds a real socket",
    "socket.getaddrinfo": "resolves a name for real",
    "socket.gethostbyname": "resolves a name for real",
    "subprocess.Popen": "starts a process",
    "os.fork": "forks",
    "os.posix_spawn": "starts a process",
    "os.system": "starts a process",
    "_thread.start_new_thread": "starts a thread",
    "time.sleep": "blocks in time.sleep",
}
"""Audit events that simulated code must not cause; they come however the function was reached."""

_state = {"depth": 0, "audited": 0}


class InsertionOrdered(set[Any]):
    """A set that goes through its members in the order in which they came.

    asyncio puts coroutines into sets, which are otherwise ordered by their addresses.
    """

    def __init__(self, members: Iterable[Hashable] = ()) -> None:
        self._members = dict.fromkeys(members)
        super().__init__(self._members)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._members))

    def add(self, member: Any, /) -> None:
        """Put it at the end, unless it is there."""
        super().add(member)
        self._members[member] = None

    def remove(self, member: Any, /) -> None:
        """Take it out; ``KeyError`` if it is not there."""
        super().remove(member)
        del self._members[member]

    def discard(self, member: Any, /) -> None:
        """Take it out if it is there."""
        super().discard(member)
        self._members.pop(member, None)


@contextmanager
def simulating() -> Iterator[None]:
    """Let worlds be run inside; afterwards everything is as it was. May be nested.

    Raises:
        SimulationError: somebody holds a real clock where it cannot be replaced.
    """
    if _state["depth"]:
        yield
        return
    _audit()
    collects, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
    replaced: list[Replacement] = []
    undos: list[Callable[[], None]] = []
    _state["depth"] = 1
    try:
        for_everybody, where_defined, methods = captured(), named(), captured_methods()
        everywhere = Replacement(
            [*(getattr(each.place, each.name) for each in for_everybody), *methods],
            [
                *(each.function for each in for_everybody),
                *(getattr(Datetime, each.__name__) for each in methods),
            ],
        )
        del methods
        replaced.append(everywhere)
        everywhere.apply()
        refuse(everywhere.left)
        by_name = Replacement(
            [vars(each.place)[each.name] for each in where_defined],
            [each.function for each in where_defined],
        )
        replaced.append(by_name)
        for each in where_defined:
            by_name.at(each.place, each.name)
        by_name.in_modules()
        vars(asyncio.tasks)["set"] = InsertionOrdered
        undos += [*numbered_hashes(), remembered_versions()]
        undos += mend_subclasses()
        gc.disable()  # a finaliser that closes a connection must not run at a moment that chance chooses
        # What a program was in the middle of when its process ended does not go on.
        sys.set_asyncgen_hooks(finalizer=_end_with_the_process)
        with warnings.catch_warnings():
            # What code wanted to await when its process ended is no mistake of its own.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            try:
                yield
            finally:
                if collects:
                    gc.collect(0)  # as the next allocation would, with that said
    finally:
        sys.set_asyncgen_hooks(*hooks)
        vars(asyncio.tasks).pop("set", None)
        for undo in undos:
            undo()
        for each_replaced in reversed(replaced):
            each_replaced.undo()
        _state["depth"] = 0
        if collects:
            gc.enable()


def remembered_versions() -> Callable[[], None]:
    """Read each package's version once: redis-py does for every connection. Returns what undoes it."""
    version = metadata.version
    metadata.version = functools.cache(version)

    def undo() -> None:
        metadata.version = version

    return undo


def _end_with_the_process(generator: Any) -> None:
    """Run nothing more of an asynchronous generator that nobody goes on with.

    What it awaits is ended here: by itself it would complain when it is freed.
    """
    awaited = generator.ag_await
    if hasattr(awaited, "close"):
        with suppress(Exception):  # it wanted to go on: it is dead either way
            awaited.close()


def _audit() -> None:
    """Guard what cannot be replaced. An audit hook stays for ever; outside a simulation it does nothing."""
    if not _state["audited"]:
        _state["audited"] = 1
        sys.addaudithook(_hook)


def _hook(event: str, _: tuple[Any, ...]) -> None:
    if RUNNING.host is not None and event in GUARDED:
        host = running_host()
        if host is not None:
            raise forbidden(host, GUARDED[event])
