"""The asyncio event loop of one simulated host.

It does what asyncio's own loop does (I/O first, then due timers, then everything that is ready), but time
passes only in the world, and a host that is paused isn't stepped. What the simulation has no answer for
(threads, processes, real sockets) raises.
"""

from __future__ import annotations

import asyncio
import math
import socket
from asyncio.events import _get_running_loop, _set_running_loop
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.handles import Callback, Timer
from lab.substrates.sim.host import Host, forbidden
from lab.substrates.sim.running import RUNNING

if TYPE_CHECKING:
    from lab.substrates.sim.network import Network
    from lab.substrates.sim.transport import SimTransport
    from lab.substrates.sim.world import World

T = TypeVar("T")

SPINS_MAX: Final = 1_000_000
"""How often a loop may go round without any time passing before it counts as hung."""
CLOSES: Final = 20
"""How often a coroutine that awaits something whenever it is closed is closed again."""
TASKS_KEPT: Final = 64
"""From so many tasks on, those that are done are forgotten now and then."""

Waiting = deque[tuple[Any, float]]
"""Who is told of replies, in the order in which they come."""

NEVER_NS: Final = 1 << 63
"""Later than anything."""


class SimFuture(asyncio.Future[T]):
    """A future whose place in a set does not depend on its address."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, T], **options: Any) -> None:
        self.number = number  # first: asyncio puts the task into a set while it makes it
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self.number


class HostLoop(asyncio.AbstractEventLoop):
    """Runs the coroutines of one host whenever the world lets it."""

    takes_no_time = False
    """Whether what the nemesis does on it never waits for anything."""

    def __init__(self, host: Host, network: Network) -> None:
        self.host, self.network = host, network
        self._world = host.world
        self._ready: deque[Callback] = deque()
        self._io: deque[Callback] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._numbers = 0
        self._awake = False
        self._armed_ns = NEVER_NS
        """When the world will look at the timers, by its own time."""
        self._until_resumed: list[asyncio.Future[int]] = []
        self._closed = False
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        """The tasks that are not done, and some that are, by number, oldest first."""
        self._tasks_max = TASKS_KEPT
        self.transports: dict[SimTransport, None] = {}
        """The near ends of open connections."""
        self.troubles: list[str] = []
        """What would have been printed as "exception was never retrieved" and the like."""

    # What is to be run

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next round, at this instant."""
        handle: Any = Callback(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        if not self._awake:
            self.wake()
        return handle  # type: ignore[no-any-return]

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback after ``delay`` seconds of the host's monotonic clock."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback when the host's monotonic clock shows ``when`` seconds, never earlier."""
        handle: Any = Timer(callback, args, copy_context() if context is None else context, when_s=when)
        due_ns = math.ceil(when * S_NS)
        if due_ns / S_NS < when:
            due_ns += 1  # or a loop that waits until ``when`` would never see it come
        heappush(self._timers, (due_ns, self._number(), handle))
        if not self._awake:  # or it is looked at when the step is over
            self._arm()
        return handle  # type: ignore[no-any-return]

    def on_io(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback as I/O: before timers that are due, also when both waited for a pause to end."""
        self._io.append(Callback(callback, args, None))
        if not self._awake:
            self.wake()

    def at_once(self, callback: Callable[..., object]) -> None:
        """The same, without waiting for what else happens at this instant; only while nothing else runs."""
        self._io.append(Callback(callback, (), None))
        if not (self._awake or self.host.paused or self._closed):
            self._awake = True
            self._step()

    def on_reply(self, waiting: Waiting, reply: Any) -> None:
        """The same for a reply: who waits longest is told, and must not raise."""
        host = self.host
        if self._awake or host.paused or self._closed:
            self._io.append(Callback(_deliver, (waiting, reply), None))
            return
        self._awake = True
        if self._armed_ns <= self._world.now_ns:  # timers are due as well
            self._io.append(Callback(_deliver, (waiting, reply), None))
            self._step()
        else:
            self._step(waiting, reply)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # When it is run

    def wake(self) -> None:
        """See to it that the loop is stepped at this instant."""
        if not (self._awake or self.host.paused or self._closed):
            self._awake = True
            self._world.at(self._world.now_ns, self._step)

    async def until_resumed(self) -> int:
        """Wait until the host goes on after a pause; return how long that was, in nanoseconds."""
        waiter = self.create_future()
        self._until_resumed.append(waiter)
        return await waiter  # type: ignore[no-any-return]

    def resumed(self) -> None:
        """The host goes on: tell who waits for that, with the timers that are due since the pause began."""
        waiters, self._until_resumed = self._until_resumed, []
        since_s, took_ns = self.time(), self._world.now_ns - self.host.paused_ns
        for waiter in waiters:
            self.call_at(since_s - took_ns / S_NS, _resolve, waiter, took_ns)
        self.wake()

    def _arm(self) -> None:
        """Look at the timers when the first is due; there are some."""
        due_ns = self.host.clock.world_ns(self._timers[0][0])
        if due_ns < self._armed_ns:
            self._armed_ns = due_ns
            self._world.arrange(due_ns, self._timer_is_due, (due_ns,))

    def _timer_is_due(self, due_ns: int) -> None:
        if self._armed_ns != due_ns:
            return
        self._armed_ns = NEVER_NS
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        if timers:
            if timers[0][0] > self.host.clock.monotonic_ns():
                self._arm()
            elif not (self._awake or self.host.paused):
                self._awake = True
                self._step()

    def _step(self, waiting: Waiting | None = None, reply: Any = None) -> None:
        """Tell who waits for a reply, if anybody does; run rounds until there is nothing more to do now."""
        host = self.host
        if host.paused or self._closed:
            self._awake = False
            return
        host_before, RUNNING.host = RUNNING.host, host
        if RUNNING.loop is not self:
            self._be_running()
        try:
            if waiting is not None:
                numbers = self._numbers
                waiting.popleft()[0](reply)
                if not (self._ready or self._io) and self._numbers == numbers:
                    return  # as most times: it was only noted
            self._rounds()
        finally:
            self._awake = False
            RUNNING.host = host_before
        if self._timers:
            self._arm()

    def _be_running(self) -> None:
        """Be what asyncio takes for the running loop until another one is; the world's end ends it."""
        RUNNING.loop = self
        _set_running_loop(self)

    def _rounds(self) -> None:
        """Rounds as asyncio's own loop does them, until there is nothing to do at this instant."""
        ready, io, timers, host = self._ready, self._io, self._timers, self.host
        now_ns = host.clock.monotonic_ns()
        for _ in range(SPINS_MAX):
            if io:
                ready.extend(io)
                io.clear()
            while timers and timers[0][0] <= now_ns:
                ready.append(heappop(timers)[2])
            if not ready or host.paused or self._closed:
                return
            for _ in range(len(ready)):
                if not ready:  # the one before ended the machine
                    return
                handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                try:
                    if handle.context is None:
                        handle.function(*handle.arguments)
                    else:
                        handle.context.run(handle.function, *handle.arguments)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio's own handles do
                    self.call_exception_handler({"message": "in a callback", "exception": error})
        raise SimulationError(f"{host.name} works for ever without any time passing")

    # The end

    def stop_for_ever(self) -> None:
        """The machine is gone: nothing of it runs any more."""
        self._closed = True
        self._ready.clear()
        self._io.clear()
        self._timers.clear()

    def bury(self) -> None:
        """Close the coroutines of a loop that will not be stepped again, the youngest first."""
        self.stop_for_ever()
        self._forget_done()
        while self.tasks:  # what is closed may make more, as `finally` of a lock does that sends something
            task: Any = self.tasks.popitem()[1]
            task._log_destroy_pending = False
            coroutine = task.get_coro()
            before = _get_running_loop()
            _set_running_loop(self)
            try:
                for _ in range(CLOSES):
                    try:
                        self.host.run(coroutine.close)
                        break
                    except Exception as error:  # noqa: BLE001 - it wanted to go on: it is dead either way
                        self.troubles.append(repr(error))
            finally:
                _set_running_loop(before)
            if (waits_for := task._fut_waiter) is not None:
                waits_for.cancel()  # or the two refer to each other
        self._ready.clear()

    def take_apart(self) -> None:
        """Nothing will run any more: cut what transports and protocols refer to each other."""
        for transport in self.transports:
            transport.forget()
        self.transports.clear()

    def close(self) -> None:
        """As a machine that is switched off."""
        self.stop_for_ever()

    # The rest of what libraries ask a loop for

    def time(self) -> float:
        """Return the host's monotonic clock, in seconds."""
        return self.host.clock.monotonic_ns() / S_NS

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        future: SimFuture[Any] = SimFuture(loop=self)
        future.number = self._number()
        return future

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """Run a coroutine on this host."""
        number = self._number()
        task = SimTask(number, coro, loop=self, name=name or f"{self.host.name}-{number}", context=context)
        self.tasks[number] = task
        if len(self.tasks) > self._tasks_max:
            self._forget_done()
            self._tasks_max = 2 * len(self.tasks) + TASKS_KEPT
        return task

    def _forget_done(self) -> None:
        self.tasks = {number: task for number, task in self.tasks.items() if not task.done()}

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a simulated node. Raises ``OSError`` as a real socket would."""
        if options.get("sock") is not None or options.get("ssl"):
            raise forbidden(self.host, "connects with a socket of its own, or with TLS")
        return await self.network.connect(self, protocol_factory, str(host), int(port or 0))

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """Names need no resolving: a simulated node is reached by its name."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> Awaitable[T]:  # type: ignore[override]
        """Refuse: threads cannot be made deterministic."""
        raise forbidden(self.host, f"wants a thread for {getattr(func, '__qualname__', func)!r}")

    get_debug = staticmethod(bool)  # never: it would look at real time. Asked for each future, so no Python

    def set_debug(self, enabled: bool) -> None:
        """Change nothing."""

    def is_running(self) -> bool:
        """Whether it can still be stepped."""
        return not self._closed

    def is_closed(self) -> bool:
        """Whether it is over."""
        return self._closed

    def get_task_factory(self) -> None:
        """Tasks are made by ``create_task`` alone."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Remember what nobody caught."""
        error = context.get("exception")
        self.troubles.append(f"{context.get('message')}: {error!r}")

    default_exception_handler = call_exception_handler

    async def shutdown_asyncgens(self) -> None:
        """Nothing to wait for."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""


def _deliver(waiting: Waiting, reply: Any) -> None:
    if waiting:  # or the connection was closed in the meantime
        waiting.popleft()[0](reply)


def _resolve(waiter: asyncio.Future[int], value: int) -> None:
    if not waiter.done():  # or it was cancelled
        waiter.set_result(value)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: HostLoop, *_: Any, **__: Any) -> Any:
        raise forbidden(self.host, f"asks its event loop for {name}")

    return refuse


for _name, _what in vars(asyncio.AbstractEventLoop).items():
    if callable(_what) and not _name.startswith("__") and _name not in vars(HostLoop):
        setattr(HostLoop, _name, _refusal(_name))


def host_with_loop(world: World, name: str, network: Network) -> HostLoop:
    """Make a host whose code runs in an event loop; return the loop."""
    host = Host(world, name)
    loop = HostLoop(host, network)  # type: ignore[abstract]  # the rest was set above
    host.on_resume = loop.resumed
    return loop
