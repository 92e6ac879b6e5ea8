"""The event loop of a trial's client: that of every simulated host, with less work for each step.

A trial is over in a moment, so its loop need not forget tasks as they end, and callbacks that nobody cancels
need no handle of asyncio's own. What runs when is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

from lab.substrates.sim.host import Host
from lab.substrates.sim.loop import HostLoop, SimTask
from lab.substrates.sim.network import Network
from lab.substrates.sim.world import World

T = TypeVar("T")


class _Callback:
    """What ``asyncio.Handle`` offers, without a debugger's memory; without a context it needs none."""

    __slots__ = ("_arguments", "_callback", "_cancelled", "_context", "_loop")

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: HostLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._arguments, self._loop, self._context = callback, arguments, loop, context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def _run(self) -> None:
        try:
            if self._context is None:
                self._callback(*self._arguments)
            else:
                self._context.run(self._callback, *self._arguments)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio's own handles do
            self._loop.call_exception_handler({"message": "in a callback", "exception": error})


class LeanLoop(HostLoop):
    """See the module."""

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next round, at this instant."""
        handle: Any = _Callback(callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)
        if not self._awake:
            self.wake()
        return handle  # type: ignore[no-any-return]

    def on_io(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as I/O."""
        handle: Any = _Callback(callback, args, self, None)
        self._io.append(handle)
        if not self._awake:
            self.wake()

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine on this host."""
        number = self._number()
        task = self.tasks[number] = SimTask(number, coro, loop=self, name=name or "task", context=context)
        return task

    def bury(self) -> None:
        """Close the coroutines that are not done."""
        self.tasks = {number: task for number, task in self.tasks.items() if not task.done()}
        super().bury()


def lean_loop(world: World, name: str, network: Network) -> LeanLoop:
    """Make a host with such a loop; return the loop."""
    host = Host(world, name)
    loop = LeanLoop(host, network)  # type: ignore[abstract]  # what is missing was set on its parent
    host.on_resume = loop.wake
    return loop
