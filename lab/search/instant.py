"""Running coroutines at one instant: for what acts on a trial's cluster, where nothing takes any time."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.world import World

T = TypeVar("T")
WAITS: Final = "what acts on a trial's cluster waits, and no time passes for it"


class InstantLoop:
    """As much of an event loop as coroutines need that never wait for time or for the network.

    A task runs as soon as it is made, which costs less than to arrange that it runs.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._ready: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self.get_debug = bool  # never

    def time(self) -> float:
        """The world's time, in seconds."""
        return self._world.now_ns / S_NS

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: object = None) -> None:
        """Run a callback in its turn."""
        self._ready.append((callback, arguments))

    def create_future(self) -> asyncio.Future[Any]:
        """Refuse: what is waited for takes time. Raises ``SimulationError``."""
        raise SimulationError(WAITS)

    def create_task(self, work: Coroutine[Any, Any, T], **_: Any) -> asyncio.Future[T]:
        """Run a coroutine, and return what came of it."""
        done: _Done[T] = _Done(loop=self)  # type: ignore[arg-type]
        done.set_result(self._run(work))
        return done

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, also in the middle of another loop's callback.

        Raises:
            SimulationError: it waits for something.
        """
        before = _get_running_loop()
        _set_running_loop(self)  # type: ignore[arg-type]
        try:
            return self._run(work)
        finally:
            _set_running_loop(before)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        while True:
            try:
                waits_for = work.send(None)
            except StopIteration as ended:
                return ended.value  # type: ignore[no-any-return]
            while self._ready:
                callback, arguments = self._ready.popleft()
                callback(*arguments)
            if not waits_for.done():
                work.close()
                raise SimulationError(WAITS)


class _Done(asyncio.Future[T]):
    """What a task is for those who wait for it; one of C's own takes no attributes."""
