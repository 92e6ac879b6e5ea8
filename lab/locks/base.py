"""What every lock under test offers, and the words its outcomes are told in.

A lock is ordinary async code. It learns where its nodes are, which clock and which entropy to use,
and nothing about substrates, scenarios or faults.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Final, Protocol, cast

from lab.addresses import Address
from lab.channel import Channel

OptionValue = str | int | float | bool
Options = Mapping[str, OptionValue]


def new_token() -> str:
    """Return a value nobody else will ever use: 20 bytes from the system's entropy, as hexadecimal."""
    return secrets.token_hex(20)


async def _go_on(point: str) -> None:
    """Nobody waits for this client at ``point``."""


def _not_noted(start_ns: int, duration_ns: int) -> None:
    """Nobody wants to know when a lock's process stood still."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a lock may take from the world: a monotonic clock, entropy and random delays.

    They come in through the constructor, so that a simulation can hand in its own. A lock awaits
    ``at(point)`` where a story may want to hold its client in the middle of an operation; the points are
    named in ``lab.client_protocol``. One that is a process of its own tells ``stalled`` from when on it stood
    still, and for how long, in nanoseconds. ``channel`` makes its connections to Redis nodes, with the
    arguments of ``lab.channel.Channel``.
    """

    clock_ns: Callable[[], int] = time.monotonic_ns
    new_token: Callable[[], str] = new_token
    random: Random = field(default_factory=Random)
    at: Callable[[str], Awaitable[None]] = _go_on
    stalled: Callable[[int, int], None] = _not_noted
    channel: Callable[..., Channel] = Channel


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted lock: for a while, and only for a while.

    ``deadline_ns`` is the last instant, on the lock's own clock, at which the owner may believe that
    it holds the lock. ``fence`` is a number that grows with every grant, where the lock has one.
    ``attempt_ns`` is when the attempt that was granted (or extended) began: after refusals that is later than
    the call, and only a deadline beyond ``attempt_ns`` + TTL would be a lie.
    """

    key: str
    token: str
    ttl_ns: int
    deadline_ns: int
    fence: int | None = None
    extensions: int = 0
    attempt_ns: int | None = None

    def claim(self, now_ns: int) -> dict[str, int | None]:
        """What is written down of it: the time left, and the instants that the lock states itself.

        No pause of the client can move those.
        """
        return {
            "claimed_ns": self.deadline_ns - now_ns,
            "attempt_ns": self.attempt_ns,
            "deadline_ns": self.deadline_ns,
        }


@dataclass(frozen=True, slots=True)
class Belief:
    """Whether a lock says that a lease is held, and for how many more nanoseconds, where it says that."""

    held: bool
    claimed_ns: int | None = None


class LockError(Exception):
    """A lock operation that did not succeed."""


class NotAcquired(LockError):
    """The client surely does not hold the lock. ``tokens`` are the values it tried.

    ``refused_by`` is how many nodes answered that the key is taken, if they ruled the grant out: the fewest
    over all attempts. It is 0 if an attempt failed in another way: by silence, or with no time left after a
    grant.
    """

    def __init__(self, message: str, tokens: Sequence[str] = (), *, refused_by: int = 1) -> None:
        super().__init__(message)
        self.tokens = tuple(tokens)
        self.refused_by = refused_by


class LeaseLost(LockError):
    """An extension or a release found the lease gone (or could not prove that it is still there).

    ``no_effect`` says that the operation certainly had no effect: nothing was asked of the nodes, or so many
    of them said no that it can neither keep the lock for its owner nor keep it from others. Without that an
    extension may have prolonged the lease although its owner must not rely on it: the answers came too late,
    or too few.
    """

    def __init__(self, message: str, *, no_effect: bool = False) -> None:
        super().__init__(message)
        self.no_effect = no_effect


class Indeterminate(LockError):
    """Nobody knows whether the operation had an effect."""


class Lock(Protocol):
    """One client's handle on a lock service.

    ``open`` connects, ``close`` disconnects; the other calls may be used in between, for any number of keys.
    A class may also say ``announces_token: ClassVar[bool] = True``: then its client tells the store the token
    of each grant, and the store takes writes only under the token that it was told last; and
    ``service: ClassVar[str]``, if its nodes are no Redis: "etcd", "zookeeper" or "postgres". One that has to
    ask somebody whether a lease is held says so by ``held`` (see ``Asks``).
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
        """Take the lock or raise ``NotAcquired`` (surely not held) or ``Indeterminate``."""
        ...

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Return the lease with a later deadline, or raise ``LeaseLost`` or ``Indeterminate``.

        ``LeaseLost.no_effect`` says whether it certainly had no effect. An extension should only ever prolong
        what nodes keep: one that is delayed may reach a node after a later one.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """Give the lock back, or raise ``LeaseLost`` (it was not held any more) or ``Indeterminate``."""
        ...

    def believes(self, lease: Lease) -> bool:
        """Tell whether the lock would say, now, that this lease is still held."""
        ...


class Asks(Protocol):
    """A lock that cannot answer for itself whether a lease is held, nor what time it is."""

    renews: bool
    """Whether leases are extended until they are released, unasked."""

    async def held(self, lease: Lease) -> Belief:
        """Ask whether it is held. Raises ``Indeterminate``."""
        ...

    async def wall_clock_ns(self) -> int:
        """Ask for the wall clock that counts for the lock. Raises ``Indeterminate``."""
        ...


def asking(lock: Lock) -> Asks | None:
    """Return the lock as one that has to ask, None if it is none."""
    return cast("Asks", lock) if all(hasattr(lock, name) for name in _ASKS) else None


_ASKS: Final = ("renews", "held", "wall_clock_ns")


class OptionError(ValueError):
    """A lock option with an unknown name or a value of the wrong kind."""

    def __init__(self, option: str, seen: str, expected: str, choices: Sequence[str] = ()) -> None:
        super().__init__(f"option {option!r}: saw {seen}, expected {expected}")
        self.option, self.seen, self.expected, self.choices = option, seen, expected, tuple(choices)
