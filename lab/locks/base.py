"""The interface of every lock under test, and the exceptions for its outcomes.

A lock is ordinary async code. It is given the addresses of its nodes, a clock and a source of entropy, and
knows nothing of substrates, scenarios or faults.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final, Protocol, Self, cast

from lab.addresses import Address
from lab.channel import Channel, NodeError, Reply, connect_all

OptionValue = str | int | float | bool
Options = Mapping[str, OptionValue]


def new_token() -> str:
    """Return a unique value: 20 bytes from the system's entropy, as hexadecimal."""
    return secrets.token_hex(20)


async def _continue(point: str) -> None:
    """Do not stop at ``point``."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of a lock: a monotonic clock, entropy and random delays.

    They are passed to the constructor, so that a simulation can replace them. A lock awaits ``at(point)``
    where a scenario may stop its client in the middle of an operation; the points are named in
    ``lab.client_protocol``. A lock with a process of its own calls ``stalled`` with the start and the length
    of each stall of it, in nanoseconds; in a search, where it cannot stall, there is none. ``channel`` makes
    its connections to Redis nodes, with the arguments of ``lab.channel.Channel``. ``sentinels`` are the Redis
    Sentinels that know the master, where there are some; they name it as a host that the lock can connect to.
    """

    clock_ns: Callable[[], int] = time.monotonic_ns
    new_token: Callable[[], str] = new_token
    random: Random = field(default_factory=Random)
    at: Callable[[str], Awaitable[None]] = _continue
    stalled: Callable[[int, int], None] | None = None
    channel: Callable[..., Channel] = Channel
    sentinels: tuple[Address, ...] = ()


OTHER_CLOCK_NS: Final = 10 * 365 * 86_400 * 1_000_000_000
"""A deadline that lies ten years away was not counted on this clock: the wall clock begins in 1970."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A lock that was granted for a limited time, ``ttl_ns``: as long as was asked for, or less.

    ``deadline_ns`` is the end of the belief window, on the clock of the lock's surroundings or on the wall
    clock. ``fence`` is a number that grows with every grant, where the lock has one. ``attempt_ns`` is when
    the attempt that was granted (or extended) began, after refusals later than the call; a deadline beyond
    ``attempt_ns`` + TTL would be wrong.
    """

    key: str
    token: str
    ttl_ns: int
    deadline_ns: int
    fence: int | None = None
    extensions: int = 0
    attempt_ns: int | None = None

    def claim(self, now_ns: int) -> dict[str, int | None]:
        """What is recorded of it: the time left, and the lock's own instants, which no pause can shift.

        Instants of the wall clock are not recorded: a step of it shifts them.

        Raises:
            TypeError: the lock gave it a deadline that is no instant of either clock, in whole nanoseconds.
        """
        by_wall = isinstance(self.deadline_ns, int) and abs(self.deadline_ns - now_ns) > OTHER_CLOCK_NS
        left_ns = self.deadline_ns - (time.time_ns() if by_wall else now_ns)
        if not isinstance(left_ns, int) or abs(left_ns) > OTHER_CLOCK_NS:
            raise TypeError(
                f"a lease's deadline_ns: saw {self.deadline_ns!r}, expected an instant in whole ns"
            )
        if by_wall:
            return {"claimed_ns": left_ns}
        return {
            "claimed_ns": left_ns,
            "attempt_ns": self.attempt_ns,
            "deadline_ns": self.deadline_ns,
        }


@dataclass(frozen=True, slots=True)
class Belief:
    """Whether a lock claims that a lease is held, and for how many nanoseconds, if it claims that."""

    held: bool
    claimed_ns: int | None = None


class LockError(Exception):
    """A lock operation that did not succeed."""


class NotAcquired(LockError):
    """The client certainly does not hold the lock. ``tokens`` are the values it tried.

    ``refused_by`` is how many nodes replied that the key is taken, if that ruled the grant out: the minimum
    over all attempts. It is 0 if an attempt failed otherwise: without replies, or with no time left after a
    grant.
    """

    def __init__(self, message: str, tokens: Sequence[str] = (), *, refused_by: int = 1) -> None:
        super().__init__(message)
        self.tokens = tuple(tokens)
        self.refused_by = refused_by


class LeaseLost(LockError):
    """An extension or a release found the lease gone (or could not prove that it is still held).

    ``no_effect``: the operation certainly had no effect. No request was sent, or so many nodes refused it
    that it can neither keep the lock for its owner nor keep it from others. Otherwise an extension may have
    prolonged the lease although its owner must not rely on it: replies came too late, or from too few nodes.
    """

    def __init__(self, message: str, *, no_effect: bool = False) -> None:
        super().__init__(message)
        self.no_effect = no_effect


class Indeterminate(LockError):
    """It is unknown whether the operation had an effect."""


class Lock(Protocol):
    """The interface of one client's handle on a lock service; ``BaseLock`` has defaults for most of it.

    ``open`` connects, ``close`` disconnects; the other calls may be used in between, for any number of keys.
    Optional attributes of a class: ``announces_token: ClassVar[bool] = True``: its client sends the token of
    each grant to the store, which accepts writes only under the token that was announced last.
    ``service: ClassVar[str]``: "etcd", "zookeeper" or "postgres", if its nodes are not Redis. A lock that
    needs a request to find out whether a lease is held has the method ``held`` (see ``Asks``).
    ``key: ClassVar[str]``: the pattern of its keys, such as ``"order:{}"``, if it does not take any text.
    ``extends: ClassVar[bool] = False``: it cannot extend a lease.
    ``permits: ClassVar[int]``: how many clients may hold it at once, if it is a semaphore of more than one.
    ``read_write: ClassVar[bool] = True``: readers share it, and its ``acquire`` has a third parameter, "read"
    or "write".
    ``asks: ClassVar[str]``: "sentinels" if it needs Redis Sentinels (``Surroundings.sentinels``), "cluster"
    if its nodes must be a Redis Cluster.
    """

    name: ClassVar[str]
    hands_out_fences: ClassVar[bool]
    """Whether each grant comes with a number that grows."""

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Lock:
        """Make a lock from a scenario's options. Raises ``OptionError`` for a bad one."""
        ...

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """Return the safety margin the lock keeps below its TTL (the checker's δ), in nanoseconds."""
        ...

    async def open(self) -> None:
        """Connect to the nodes that can be reached."""
        ...

    async def close(self) -> None:
        """Disconnect; grants that were not released stay on the nodes until they expire."""
        ...

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Take the lock or raise ``NotAcquired`` (certainly not held) or ``Indeterminate``."""
        ...

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Return the lease with a later deadline, or raise ``LeaseLost`` or ``Indeterminate``.

        ``LeaseLost.no_effect`` says whether it certainly had no effect. An extension should never shorten the
        time for which a node keeps a key: a delayed one may reach a node after a later one.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Release the lock, or raise ``LeaseLost`` (it was no longer held) or ``Indeterminate``."""
        ...

    def believes(self, lease: Lease) -> bool:
        """Whether the lock claims, now, that this lease is still held."""
        ...


class Asks(Protocol):
    """A lock that needs a request to find out whether a lease is held, and what time it is."""

    renews: bool
    """Whether leases are extended automatically until they are released."""

    async def held(self, lease: Lease) -> Belief:
        """Ask whether it is held. Raises ``Indeterminate``."""
        ...

    async def wall_clock_ns(self) -> int:
        """Read the wall clock that the lock uses. Raises ``Indeterminate``."""
        ...


def asking(lock: Lock) -> Asks | None:
    """The lock as one that needs requests, None if it is not."""
    return cast("Asks", lock) if all(hasattr(lock, name) for name in _ASKS) else None


def is_believed(lock: Lock, lease: Lease) -> bool:
    """What ``believes`` answers.

    Raises:
        TypeError: it answered something else than True or False. Any object counts as true, so a ``Belief``,
            or a coroutine that nobody awaited, would be a belief that never ends.
    """
    answer = lock.believes(lease)
    if not isinstance(answer, bool):
        raise TypeError(f"believes returned {answer!r}, which is neither True nor False")
    return answer


_ASKS: Final = ("renews", "held", "wall_clock_ns")


class OptionError(ValueError):
    """A lock option with an unknown name or a value of the wrong kind."""

    def __init__(self, option: str, seen: str, expected: str, choices: Sequence[str] = ()) -> None:
        super().__init__(f"option {option!r}: saw {seen}, expected {expected}")
        self.option, self.seen, self.expected, self.choices = option, seen, expected, tuple(choices)


def usual_margin_ns(ttl_ns: int) -> int:
    """1 % of the TTL and 2 ms: what the references leave of a lease for clocks of different rates."""
    return ttl_ns // 100 + 2_000_000


class BaseLock:
    """A lock of your own on Redis: derive from it, and write ``acquire`` and ``release``.

    ``extend`` is optional; without it, leases are not extended. ``believes`` compares the lease's deadline
    with the clock. ``nodes`` are connections to all nodes, ``addresses`` where they are, for a client library
    of your own. Override ``__init__``, ``open`` and ``close``, with the same arguments, to set up more.
    """

    name: ClassVar[str]
    """Its name in reports: that of the class."""
    hands_out_fences: ClassVar[bool] = False
    extends: ClassVar[bool] = False
    permits: ClassVar[int] = 1
    """How many clients may hold it at once."""
    read_write: ClassVar[bool] = False
    """Whether readers share it: then ``acquire`` has a third parameter, ``mode``, "read" or "write"."""
    reentrant: ClassVar[bool | None] = None
    """Whether its holder may take it again; with None it is tried only if it is seen to work."""
    key: ClassVar[str] = "{}"
    """The pattern of its keys."""
    OPTIONS: ClassVar[Options] = {}
    """The options that it takes, with their defaults; others are refused. ``self.options`` has the values."""
    ANSWER_WITHIN_S: ClassVar[float] = 0.25
    """How long ``ask`` waits for the reply of a node."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.name = vars(cls).get("name", cls.__name__)
        cls.extends = vars(cls).get("extends", cls.extend is not BaseLock.extend)

    def __init__(
        self, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> None:
        self.addresses, self.owner = list(nodes), owner
        self.options: dict[str, OptionValue] = {**self.OPTIONS, **options}
        self.clock_ns, self.new_token = surroundings.clock_ns, surroundings.new_token
        self.random = surroundings.random
        connects = {"connect_timeout_s": self.ANSWER_WITHIN_S, "stale_after_s": 5.0, "client_name": owner}
        self.nodes = [surroundings.channel(node, **connects) for node in nodes]

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        """Make the lock. Raises ``OptionError``: an option that is not among ``OPTIONS``."""
        for option in options:
            if option not in cls.OPTIONS:
                known = "one of " + ", ".join(cls.OPTIONS) if cls.OPTIONS else "no option"
                raise OptionError(option, "an unknown option", known, tuple(cls.OPTIONS))
        return cls(nodes, options, surroundings, owner)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """What ``lease`` leaves for clocks that run at different rates: ``usual_margin_ns``."""
        return usual_margin_ns(ttl_ns)

    async def open(self) -> None:
        """Connect to the nodes that can be reached; the others are tried again when they are asked."""
        await connect_all(self.nodes)

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.gather(*(node.close() for node in self.nodes))

    async def ask(self, *command: str | int | bytes, node: int = 0) -> Reply:
        """The reply of one node. Raises ``Indeterminate``: it gave none in time, or an error."""
        try:
            return await asyncio.wait_for(self.nodes[node].call(*command), self.ANSWER_WITHIN_S)
        except (NodeError, TimeoutError) as error:
            raise Indeterminate(str(error) or f"no reply within {self.ANSWER_WITHIN_S:g} s") from error

    def lease(self, key: str, token: str, ttl_ns: int, asked_ns: int, fence: int | None = None) -> Lease:
        """A lease that is counted from the request at ``asked_ns``, less ``margin_ns``.

        Raises:
            Indeterminate: it is over already, since the reply came late.
        """
        over_ns = asked_ns + ttl_ns - self.margin_ns(ttl_ns, self.options)
        if self.clock_ns() >= over_ns:
            raise Indeterminate(f"{key}: the reply came when the lease was over")
        return Lease(key, token, ttl_ns, over_ns, fence, attempt_ns=asked_ns)

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Take the lock, or raise ``NotAcquired`` (certainly not held) or ``Indeterminate``."""
        raise NotImplementedError

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Return the lease with a later deadline, or raise ``LeaseLost`` or ``Indeterminate``."""
        raise LeaseLost("this lock does not extend leases", no_effect=True)

    async def release(self, lease: Lease) -> None:
        """Release the lock, or raise ``LeaseLost`` (it was no longer held) or ``Indeterminate``."""
        raise NotImplementedError

    def believes(self, lease: Lease) -> bool:
        """Whether the lease's time is not over yet, by the monotonic clock."""
        return self.clock_ns() < lease.deadline_ns
