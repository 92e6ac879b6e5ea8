"""What is searched: trials. A trial says all there is to say about a run: the same trial does the same.

It is a value: two equal trials are one, and as JSON it can be kept and replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from lab.durations import UNITS_NS
from lab.faults.down import DownFault
from lab.faults.fill_memory import FillMemory
from lab.faults.links import LinkFault
from lab.faults.promote import Promote
from lab.locks.capacity import READ
from lab.redis_model.persistence import Persistence
from lab.scenario.steps import Acquire
from lab.scenario.tracks import Timed
from lab.scenario.types import NODE_NAMES, SENTINEL_NAMES
from lab.substrates.plan import SentinelPlan

OptionValue = str | int | float | bool
Track = tuple[Timed, ...]

Ending = Literal["release", "keep", "twice"]
"""How a critical section ends: the lock is released, is kept until it expires, or is released twice."""
CLIENTS: Final = ("alice", "bob", "carol", "dave")
KEY: Final = "resource"
OTHER_KEY: Final = "another-order"
START_NS: Final = 20 * UNITS_NS["ms"]
"""When a trial starts: by then all clients are connected."""
LIMITED: Final = {"maxmemory": "8mb"}
"""The configuration of nodes whose memory can be filled: they refuse to write then."""
HORIZON_NS: Final = 30 * UNITS_NS["s"]
DOWN_AFTER_MS: Final = 1_000
FAILOVER_TIMEOUT_MS: Final = 4_000
"""The times of Sentinels in trials; those of the scenarios."""
PROMOTED_WITHIN_NS: Final = (2 * DOWN_AFTER_MS + 3 * FAILOVER_TIMEOUT_MS) * UNITS_NS["ms"]
"""How long Sentinels may take to promote a replica if the first that tries is not elected.

The next try comes after twice the time-out and up to a second; a promotion takes a second or two.
"""


class Readable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that is shown as the Python that makes it, without what is as by default."""

    def __repr__(self) -> str:
        shown = (f"{name}={python(value)}" for name, value in self._given())
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same over several lines, for Hypothesis and IPython, which ask for it by this name."""
        given = self._given()
        nested = any(isinstance(value, dict | tuple | Readable) for _, value in given)
        with printer.group(4, f"{type(self).__name__}("):
            for at, (name, value) in enumerate(given):
                printer.breakable(" " if at else "")
                printer.text(f"{name}=")
                if isinstance(value, int):
                    printer.text(python(value))
                else:
                    printer.pretty(value)
                if nested or at + 1 < len(given):
                    printer.text(",")
        if nested:
            printer.breakable("")
        printer.text(")")

    def _given(self) -> list[tuple[str, Any]]:
        found = []
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if field.required or value != default:
                found.append((field.name, value))
        return found


def python(value: object) -> str:
    """A value as Python: as ``repr``, with long numbers in groups of three digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}"
    if isinstance(value, tuple):
        return f"({', '.join(map(python, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {python(each)}" for key, each in value.items()) + "}"
    return repr(value)


class Round(Readable, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One critical section: wait, acquire, read, compute for ``hold_ns``, check, write, release.

    The lease is extended ``extends`` times, at equal distances while the client computes. An acquire with
    ``cancel_ns`` is cancelled after so long, if it is not over by then. With ``other`` the client takes and
    releases a lock on the trial's ``other_key`` meanwhile, with the same lock object. One that does not
    ``checks`` writes without asking first whether it still holds the lock. It asks for a lease of ``ttl_ns``,
    and its extensions for one of ``extend_ttl_ns``; 0 is that of the trial, for extensions that of the round.
    With ``reads`` it takes a read-write lock as a reader, and writes nothing.
    """

    think_ns: int
    hold_ns: int
    extends: int = 0
    ends: Ending = "release"
    cancel_ns: int = 0
    other: bool = False
    checks: bool = True
    ttl_ns: int = 0
    extend_ttl_ns: int = 0
    reads: bool = False

    @property
    def leases_ns(self) -> tuple[int, int]:
        """The leases that it and its extensions ask for; 0 as above."""
        return self.ttl_ns, self.extend_ttl_ns


class Trial(Readable, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A cluster, a lock, what each client does, and what happens; ``seed`` draws latencies and tokens.

    A negative seed draws no latencies: the nodes always answer in one order, which depends on the seed.
    After its rounds each client asks for the lock again and again until it was granted it once, for
    ``demand_ns`` at most; with 0 it does not ask. Of a ``reentrant`` lock a client may have several grants.
    ``server`` is the product and version that nodes show, like ``redis@8.4``; the newest if it is empty.
    ``uses`` says how many of the nodes the lock uses for one key, where that depends on the key; 0: all.
    ``keys`` is the pattern of all keys, in place of the lock's own; ``{}`` in it is ``key_name``, or
    ``other_key``. ``faults`` are actions of the environment, each of which waits for its own trigger alone.
    Nodes know no end of an ``observed`` lease: who asks for the lock watches its record for a lease first.
    So many clients may hold the lock at once as it has ``permits``, or any number of readers of one that is
    ``read_write``; 0 and False: as it says itself, which a driver cannot before it is started.
    In a ``replicated`` trial the first node is the master, and all others are its replicas. So many
    ``sentinels`` watch the master of a replicated trial, and promote a replica; 0: there are none.
    ``tracks`` are played beside what rounds and faults say, and say all that scenarios can say.
    An examination looks ``closely`` at what each command does on the nodes, not only at the history.
    """

    lock: str
    clients: dict[str, tuple[Round, ...]]
    faults: Track = ()
    nodes: int = 5
    persistence: Persistence = "aof-always"
    ttl_ns: int = 10 * UNITS_NS["s"]
    options: dict[str, OptionValue] = {}
    store_fences: bool = False
    seed: int = 0
    horizon_ns: int = HORIZON_NS
    demand_ns: int = 0
    other_key: str = OTHER_KEY
    reentrant: bool = False
    server: str = ""
    uses: int = 0
    observed: bool = False
    keys: str = ""
    key_name: str = KEY
    tracks: dict[str, Track] = {}
    replicated: bool = False
    sentinels: int = 0
    permits: int = 0
    read_write: bool = False
    closely: bool = False

    @property
    def node_names(self) -> tuple[str, ...]:
        """A, B, C…"""
        return NODE_NAMES[: self.nodes]

    @property
    def replicas(self) -> dict[str, str]:
        """Which nodes replicate which master when it begins."""
        first, *others = self.node_names
        return dict.fromkeys(others, first) if self.replicated else {}

    @property
    def watched_by(self) -> SentinelPlan | None:
        """Its Sentinels, of which a majority must agree; None: there are none."""
        if not self.sentinels:
            return None
        names = SENTINEL_NAMES[: self.sentinels]
        return SentinelPlan(names, len(names) // 2 + 1, DOWN_AFTER_MS, FAILOVER_TIMEOUT_MS)

    @property
    def config(self) -> Mapping[str, str]:
        """How its nodes are set up besides: they have a limit if their memory is to be filled."""
        told = (timed.step for track in self.tracks.values() for timed in track)
        fills = any(isinstance(step, FillMemory) for step in (*(each.step for each in self.faults), *told))
        return LIMITED if fills else {}

    @property
    def voters(self) -> tuple[str, ...]:
        """The nodes whose keys decide who holds the lock: of a replicated trial all that are ever masters.

        Which replica Sentinels promote is not said before.
        """
        if self.sentinels:
            return self.node_names
        told = (timed.step for track in self.tracks.values() for timed in track)
        heirs = {step.node for step in told if isinstance(step, Promote)}
        return tuple(name for name in self.node_names if name not in self.replicas or name in heirs)

    @property
    def majority(self) -> int:
        """The least number of nodes, of those that the lock uses for a key, of which two sets share one."""
        return (self.uses or self.nodes) // 2 + 1

    @property
    def minority(self) -> int:
        """The largest number of nodes without which a majority is left."""
        return ((self.uses or self.nodes) - 1) // 2

    @property
    def leases_ns(self) -> frozenset[int]:
        """The lengths of lease that clients may ask for."""
        others = (ns for rounds in self.clients.values() for each in rounds for ns in each.leases_ns)
        told = (getattr(timed.step, "ttl_ns", None) for track in self.tracks.values() for timed in track)
        return frozenset((self.ttl_ns, *filter(None, others), *filter(None, told)))

    @property
    def longest_ttl_ns(self) -> int:
        """The longest of them."""
        return max(self.leases_ns)

    @property
    def has_readers(self) -> bool:
        """Whether some client asks for a read-write lock as a reader."""
        told = (timed.step for track in self.tracks.values() for timed in track)
        return any(each.reads for rounds in self.clients.values() for each in rounds) or any(
            isinstance(step, Acquire) and step.mode == READ for step in told
        )

    @property
    def asks_for_long(self) -> bool:
        """Whether a client asks for the lock for longer than a free one may be refused, if need be."""
        if self.replicated and not self._has_one_new_master():
            return False
        told = (timed.step for track in self.tracks.values() for timed in track)
        return self.demand_ns > 0 or any(
            isinstance(step, Acquire) and step.key is None and (step.insist_ns or 0) > self.unavailable_ns
            for step in told
        )

    def _has_one_new_master(self) -> bool:
        """Whether a replica takes the place of a master that stays away, and nothing is between the others.

        Where two nodes say that they are the master, a lock may ask the wrong one for ever; where the new one
        has lost its replicas, who waits for them waits in vain. Sentinels do that by themselves.
        """
        told = [timed for track in self.tracks.values() for timed in track]
        apart = any(isinstance(one.step, LinkFault) and one.step.client is None for one in told)
        gone = any(isinstance(one.step, DownFault) and one.until is None for one in told)
        promotes = self.sentinels > 0 or any(isinstance(one.step, Promote) for one in told)
        return gone and not apart and promotes

    @property
    def unavailable_ns(self) -> int:
        """How long a free lock may be refused while a majority is up: two seconds, or half a longer TTL.

        An observed lease that was not given back is free for others a lease after they first looked. What was
        asked of a master that died may lie on its replica, and nobody knows: it goes with its lease. It takes
        Sentinels some time to promote one.
        """
        longest_ns = self.longest_ttl_ns
        whole = self.observed or self.replicated
        promoted_ns = PROMOTED_WITHIN_NS if self.sentinels else 0
        return max(2 * UNITS_NS["s"], longest_ns // 2) + (longest_ns if whole else 0) + promoted_ns

    def key(self) -> bytes:
        """The trial as bytes: equal for equal trials."""
        usual = {name: value for name, value in USUAL.items() if getattr(self, name) == value}
        return msgspec.json.encode(
            msgspec.structs.replace(self, **usual) if usual else self, enc_hook=as_in_a_file
        )


def as_in_a_file(value: Any) -> Any:
    """An action of a track as data. Raises ``NotImplementedError`` for anything else."""
    if isinstance(value, Timed):
        return value.model_dump(mode="json", exclude_none=True)
    raise NotImplementedError


def decode(text: bytes) -> Trial:
    """The trial that ``Trial.key`` has written.

    Raises:
        msgspec.DecodeError: it is no trial; of an action that is none the cause is pydantic's error.
    """
    return msgspec.json.decode(text, type=Trial, dec_hook=from_a_file)


def from_a_file(kind: type[Any], value: Any) -> Any:
    """An action of a track from data. Raises ``NotImplementedError`` for another kind of value."""
    if kind is not Timed:
        raise NotImplementedError
    return Timed.model_validate(value)


USUAL: Final = {
    name: msgspec.structs.fields(Trial)[at].default
    for at, name in enumerate(Trial.__struct_fields__)
    if name in ("persistence", "ttl_ns", "horizon_ns")
}
"""Defaults that JSON leaves out only if they are the same object, not if they are equal."""
