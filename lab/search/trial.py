"""What is searched: trials. A trial says all there is to say about a run: the same trial does the same.

It is a value: two equal trials are one, and as JSON it can be kept and replayed.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from lab.durations import UNITS_NS
from lab.redis_model.persistence import Persistence

OptionValue = str | int | float | bool

Kind = Literal["cut", "hold", "delay", "pause", "jump", "crash", "power_cut"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LINK_KINDS: Final = ("cut", "hold", "delay")
"""Faults on the links from one client to some nodes."""

Moment = Literal["start", "asks", "granted", "before-write", "releases"]
"""What a fault waits for: the start, or that a client calls acquire, is granted it, has checked its lease and
is about to write, calls release."""

CLIENTS: Final = ("alice", "bob", "carol", "dave")
START_NS: Final = 20 * UNITS_NS["ms"]
"""When a trial starts: by then all clients are connected."""
FOR_GOOD: Final = 0
"""As a duration: it does not end."""
HORIZON_NS: Final = 30 * UNITS_NS["s"]


class When(msgspec.Struct, frozen=True, omit_defaults=True):
    """A time anchored on an event: ``after_ns`` after the ``nth`` time that ``client`` comes there."""

    moment: Moment = "start"
    client: str = ""
    nth: int = 1
    after_ns: int = 0


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault: where it hits, when, how much (``by_ns``: of a jump or a delay), and for how long."""

    kind: Kind
    when: When
    client: str = ""
    nodes: tuple[str, ...] = ()
    by_ns: int = 0
    lasts_ns: int = FOR_GOOD
    direction: Literal["both", "requests", "replies"] = "both"


class Round(msgspec.Struct, frozen=True):
    """One critical section: wait, acquire, read, compute for ``hold_ns``, check, write, release."""

    think_ns: int
    hold_ns: int


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cluster, a lock, what each client does, and what happens; ``seed`` draws latencies and tokens.

    A negative seed draws no latencies: the nodes always answer in one order, which depends on the seed.
    """

    lock: str
    clients: dict[str, tuple[Round, ...]]
    faults: tuple[Fault, ...] = ()
    nodes: int = 5
    persistence: Persistence = "aof-always"
    ttl_ns: int = 10 * UNITS_NS["s"]
    options: dict[str, OptionValue] = {}
    store_fences: bool = False
    seed: int = 0
    horizon_ns: int = HORIZON_NS

    @property
    def node_names(self) -> tuple[str, ...]:
        """A, B, C…"""
        return tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: self.nodes])

    def key(self) -> bytes:
        """The trial as bytes: equal for equal trials."""
        return msgspec.json.encode(self)
