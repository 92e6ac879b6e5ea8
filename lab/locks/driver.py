"""A lock behind a driver: a library in any language, as a process beside its client's.

The driver is a child of the client's process, in its process group and with its clock, so that a fault of the
client affects both. Times are the lab's own; what the library reports is recorded as a claim, and nothing is
added to it. The protocol: ``lab/drivers/PROTOCOL.md``.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from lab.addresses import Address
from lab.client_protocol import Mode
from lab.drivers import PREFIX, words_of
from lab.drivers.messages import DriverBroken, Failed, Hello
from lab.drivers.process import DriverProcess
from lab.drivers.shapes import is_blocking
from lab.durations import DurationError, parse_duration_ns
from lab.locks.base import (
    Belief,
    Indeterminate,
    Lease,
    LeaseLost,
    NotAcquired,
    OptionError,
    Options,
    Surroundings,
    usual_margin_ns,
)
from lab.locks.capacity import ONE_HOLDER, Capacity
from lab.locks.heartbeat import BEAT_NS, STALL_NS, KnowsPauses
from lab.locks.lease_options import NS_PER_MS, NS_PER_S

ANSWER_WITHIN: Final = "answer_within"
"""The option that is the lab's own: how long to wait for an answer to one command."""
ANSWER_WITHIN_NS: Final = 30 * NS_PER_S
NO_ANSWER: Final = "no answer from the driver"
"""So begins the error of a call that was given up: that it had not ended is all that was seen."""
T = TypeVar("T")


def driver_class(command: str) -> type[DriverLock]:
    """The class of the lock behind the driver that this command line starts."""
    return type("DriverLock", (DriverLock,), {"name": command, "client_repeats": is_blocking(command)})


def started_by(name: str) -> tuple[str, ...]:
    """How a driver is started. Raises ``LabError``: it is not installed, or the name is no command line."""
    if not name.startswith(PREFIX):
        return words_of(name)
    # By its name: a client in a container is given a command line, and has no environments.
    words: tuple[str, ...] = importlib.import_module("lab.drivers.environment").launch_of(name)
    return words


@dataclass(frozen=True, slots=True)
class DriverLease(Lease):
    """A lease of a library: ``handle`` is the driver's name for it, ``claimed_ns`` the library's claim.

    Without a claim, ``deadline_ns`` is a TTL after the call, less the usual margin: when a careful client
    stops, which has to know by itself that clocks run at different rates.
    """

    handle: str = ""
    claimed_ns: int | None = None

    def claim(self, now_ns: int) -> dict[str, int | None]:
        """The library's claim; it reports no instants."""
        return {"claimed_ns": self.claimed_ns}


def capacity_said(hello: Hello) -> Capacity:
    """How many may hold a library's lock at once, as its driver says."""
    return Capacity(hello.permits, hello.can("read-write"))


class DriverLock:
    """One client's driver, as a lock. Its subclasses, made by ``driver_class``, have the command line.

    A lost answer, a time-out and an exception are all ``Indeterminate``: only an explicit refusal of the
    library is a refusal.
    """

    name: ClassVar[str] = "driver"
    hands_out_fences: ClassVar[bool] = False
    client_repeats: ClassVar[bool] = False
    """Whether its client repeats commands by itself, for a time that nobody states."""

    def __init__(
        self, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> None:
        self._nodes = [f"{node.host}:{node.port}" for node in nodes]
        self._sentinels = [f"{sentinel.host}:{sentinel.port}" for sentinel in surroundings.sentinels]
        self._options = passed_on(options)
        self._timeout_s = answer_within_ns(options) / NS_PER_S
        self._clock_ns = surroundings.clock_ns
        self._stalled = surroundings.stalled
        self._owner = owner
        self._lost: set[str] = set()
        self.on_lost: list[Callable[[], None]] = []
        """Called when the library has reported that a lease is lost."""
        self._hello: Hello | None = None
        self._driver = DriverProcess(started_by(self.name), on_lost=self._note_loss)

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> DriverLock:
        """Make the lock; its driver is started by ``open``. Raises ``OptionError``."""
        return cls(nodes, options, surroundings, owner)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """0: a library's margin is part of what it claims."""
        return 0

    @property
    def abilities(self) -> tuple[str, ...]:
        """What the driver says that it can do, once it has said so."""
        return () if self._hello is None else self._hello.caps

    @property
    def renews(self) -> bool:
        """Whether the library extends its leases automatically."""
        return self._hello is not None and self._hello.can("renews")

    @property
    def capacity(self) -> Capacity:
        """How many may hold the library's lock at once, once the driver has said so."""
        return ONE_HOLDER if self._hello is None else capacity_said(self._hello)

    @property
    def read_write(self) -> bool:
        """Whether readers share the library's lock."""
        return self.capacity.read_write

    @property
    def key(self) -> str:
        """The pattern of its keys, once the driver has said it."""
        return "{}" if self._hello is None else self._hello.key

    @property
    def ttl_step_ns(self) -> int:
        """Leases are multiples of this."""
        return 1 if self._hello is None else self._hello.ttl_step_ms * NS_PER_MS

    def node_key(self, key: str) -> str:
        """Under which name the key lies on the nodes, once the driver has said it."""
        return key if self._hello is None else self._hello.node_key.replace("{key}", key)

    async def open(self) -> None:
        """Start the driver and let it open the library's lock. Raises ``LabError`` if it does not."""
        await self._driver.start()
        self._hello = await self._driver.hello(self._options)
        await self._driver.open(self._owner, self._nodes, self._options, self._sentinels)

    async def close(self) -> None:
        """End the driver; nothing is released."""
        await self._driver.close()

    async def acquire(self, key: str, ttl_ns: int, mode: Mode = "write") -> DriverLease:
        """One call of the library.

        Raises:
            NotAcquired: the library refused.
            Indeterminate: it answered otherwise, or not in time.
        """
        called_ns = self._clock_ns()
        asked = self._driver.acquire(key, ttl_ns // NS_PER_MS, self._timeout_s, mode=mode)
        answer = await self._in_time(self._watched(asked))
        if isinstance(answer, Failed):
            if answer.kind == "refused":
                raise NotAcquired(answer.words, refused_by=int(not answer.silent))
            raise Indeterminate(answer.words)
        claimed_ns = _ns(answer.claimed_ms)
        return DriverLease(
            key,
            answer.token or "",
            ttl_ns,
            self._deadline_ns(called_ns, ttl_ns, claimed_ns),
            answer.fence,
            handle=answer.lease,
            claimed_ns=claimed_ns,
        )

    async def extend(self, lease: Lease, ttl_ns: int) -> DriverLease:
        """Let the library extend a lease.

        Raises:
            LeaseLost: it refused, or has no extension. If it refused because nodes did not reply, they may
                have extended it.
            Indeterminate: it answered otherwise, or not in time.
        """
        assert isinstance(lease, DriverLease)
        if self._hello is None or not self._hello.can("extend"):
            raise LeaseLost("this library cannot extend a lease", no_effect=True)
        called_ns = self._clock_ns()
        asked = self._driver.extend(lease.handle, ttl_ns // NS_PER_MS, self._timeout_s)
        answer = await self._in_time(self._watched(asked))
        if isinstance(answer, Failed):
            if answer.kind == "refused":
                raise LeaseLost(answer.words, no_effect=not answer.silent)
            raise Indeterminate(answer.words)
        claimed_ns = _ns(answer.claimed_ms)
        return DriverLease(
            lease.key,
            lease.token,
            ttl_ns,
            self._deadline_ns(called_ns, ttl_ns, claimed_ns),
            lease.fence,
            lease.extensions + 1,
            handle=lease.handle,
            claimed_ns=claimed_ns,
        )

    async def release(self, lease: Lease) -> None:
        """Let the library release it. Raises ``LeaseLost`` (it was not held) or ``Indeterminate``."""
        assert isinstance(lease, DriverLease)
        answer = await self._in_time(self._driver.release(lease.handle, self._timeout_s))
        if isinstance(answer, Failed):
            said_no = answer.kind == "refused" and not answer.silent  # or nodes may have deleted the keys
            raise (LeaseLost if said_no else Indeterminate)(answer.words)

    def believes(self, lease: Lease) -> bool:
        """Whether its time is not over, and the library reported no loss."""
        return not self.is_lost(lease) and (self.renews or self._clock_ns() < lease.deadline_ns)

    def is_lost(self, lease: Lease) -> bool:
        """Whether the library has reported that this lease is lost."""
        return isinstance(lease, DriverLease) and lease.handle in self._lost

    def _note_loss(self, handle: str) -> None:
        self._lost.add(handle)
        for tell in self.on_lost:
            tell()

    async def held(self, lease: Lease) -> Belief:
        """Ask the library; if it cannot answer, ``believes`` decides. Raises ``Indeterminate``."""
        assert isinstance(lease, DriverLease)
        if self._hello is None or not self._hello.can("held"):
            return Belief(self.believes(lease))
        answer = await self._in_time(self._driver.held(lease.handle, self._timeout_s))
        if isinstance(answer, Failed):
            raise Indeterminate(answer.words)
        held = self.believes(lease) if answer.held is None else answer.held
        return Belief(held, _ns(answer.claimed_ms) if held else None)

    async def wall_clock_ns(self) -> int:
        """The library's wall clock. Raises ``Indeterminate`` if the driver does not give it."""
        answer = await self._in_time(self._driver.clock(self._timeout_s))
        if isinstance(answer, Failed):
            raise Indeterminate(answer.words)
        return round(answer.wall_ms * NS_PER_MS)

    def _deadline_ns(self, called_ns: int, ttl_ns: int, claimed_ns: int | None) -> int:
        if claimed_ns is None:
            return called_ns + ttl_ns - usual_margin_ns(ttl_ns)
        return self._clock_ns() + claimed_ns

    async def _watched(self, asked: Coroutine[Any, Any, T]) -> T:
        """Record stalls of the driver meanwhile, if the checker judges the time of its library's answers.

        In virtual time it stalls in a pause of its host alone, which is recorded already.
        """
        can = None if self._hello is None else self._hello.can
        if self._stalled is None or can is None or not (can("single-attempt") and can("clock")):
            return await asked
        if isinstance(asyncio.get_running_loop(), KnowsPauses):
            return await asked
        watch = asyncio.create_task(self._watch_for_stalls(self._stalled))
        try:
            return await asked
        finally:
            watch.cancel()

    async def _watch_for_stalls(self, report: Callable[[int, int], None]) -> None:
        while True:
            asked_ns = self._clock_ns()
            with contextlib.suppress(DriverBroken):  # the caller that awaits the answer gets it
                await self._driver.clock()
            took_ns = self._clock_ns() - asked_ns
            if took_ns > STALL_NS:
                report(asked_ns, took_ns)
            await asyncio.sleep(BEAT_NS / NS_PER_S)

    async def _in_time(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            return await asked
        except TimeoutError as error:
            raise Indeterminate(f"{NO_ANSWER} within {self._timeout_s:g} s") from error


def answer_within_ns(options: Options) -> int:
    """How long to wait for an answer, in nanoseconds. Raises ``OptionError``."""
    value = options.get(ANSWER_WITHIN)
    if value is None:
        return ANSWER_WITHIN_NS
    try:
        return parse_duration_ns(str(value))
    except DurationError as error:
        raise OptionError(ANSWER_WITHIN, repr(value), "a duration with its unit, such as 5s") from error


def passed_on(options: Options) -> Options:
    """The options for the driver."""
    return {name: value for name, value in options.items() if name != ANSWER_WITHIN}


def _ns(duration_ms: float | None) -> int | None:
    return None if duration_ms is None else round(duration_ms * NS_PER_MS)
