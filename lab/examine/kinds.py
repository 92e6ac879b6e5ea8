"""The kinds of locks, the reference that a lock of each kind is compared with, and what that reference loses.

A *limit* is a finding that a correct lock of the kind has as well once an assumption is broken. It is listed
here by finding and broken assumption, as searching the references themselves showed (a test repeats that).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lab.drivers.shapes import shape_of
from lab.errors import LabError
from lab.examine.programs import S_NS
from lab.locks import check_options, lock_class
from lab.locks.base import OptionValue
from lab.locks.capacity import ONE_HOLDER, Capacity

PAUSED: Final = "a client is paused"
HELD: Final = "packets are held up for long"
DIES: Final = "a client dies"
JUMPS: Final = "a node's clock jumps"
DRIFTS: Final = "a node's clock drifts"
FORGETS: Final = "a node forgets"
PROMOTED: Final = "a replica becomes the master"
CLOCKS: Final = frozenset((JUMPS, DRIFTS, FORGETS, PROMOTED))
LATE: Final = frozenset((PAUSED, HELD))

SEMAPHORE: Final = "lab.locks.semaphore:Semaphore"
"""The reference of locks that several clients may hold at once."""
READ_WRITE: Final = "lab.locks.read_write:ReadWrite"
"""The reference of locks that readers share."""
_ON_MOST: Final = "lab.locks.reentrant:ReentrantRedlock"
TAKEN_AGAIN: Final = {
    "single": "lab.locks.reentrant:ReentrantSingle",
    "redlock": _ON_MOST,
    "redlock-sequential": _ON_MOST,
}
"""By the reference of a kind, that of schedules in which the holder takes the lock again."""
FALSE_VALIDITY: Final = "false-validity"
UNFENCED: Final = ("stale-write", "unfenced-write", "lost-update", "cycle")
"""What a fencing token would stop."""

SENTENCES: Final[dict[str, str]] = {
    PAUSED: "a client that stands still after its last check writes when its lease is over (Kleppmann 2016)",
    HELD: "what the network holds back arrives when the lease is over",
    DIES: "the key of a client that died is kept until it expires",
    JUMPS: "a node whose clock jumps forward gives the key away early, back: keeps it for longer",
    DRIFTS: "a node whose clock runs too fast gives the key away early, too slow: keeps it for longer",
    FORGETS: "a node that comes back without its data gives the key to a second client",
    PROMOTED: "replication is asynchronous: a replica without the key gives it to a second client",
}
"""Why a broken assumption leads to what it leads to."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a lock is, as far as its promise goes.

    ``quorum``: it asks several nodes. ``fenced``: its grants come with numbers. ``announces``: the resource
    knows its token. ``sequential``: it asks one node after the other. ``observed``: its node lets no key
    expire; who wants the lock watches its record for a lease. ``states_validity``: it says for how long a
    lease is good; else its user has to look at a clock. ``replicated``: its node is a master with replicas,
    one of which may take its place. ``watched``: Sentinels name the master, and promote a replica.
    ``capacity``: how many may hold it at once. ``tells_loss``: whether its user can learn that a lease is
    lost; not of a lock that renews its leases and has nothing to ask.
    """

    quorum: bool
    fenced: bool = False
    announces: bool = False
    sequential: bool = False
    observed: bool = False
    states_validity: bool = True
    replicated: bool = False
    watched: bool = False
    capacity: Capacity = ONE_HOLDER
    tells_loss: bool = True

    @property
    def reference(self) -> str:
        """The lock of the lab that is right for this kind."""
        if not self.capacity.of_one:
            return READ_WRITE if self.capacity.read_write else SEMAPHORE
        if self.replicated:
            return "sentinel" if self.watched else "failover"
        if not self.quorum:
            return "observed-lease" if self.observed else "single"
        if self.fenced:
            return "redlock-fenced"
        if self.announces:
            return "redlock-cas"
        return "redlock-sequential" if self.sequential else "redlock"

    @property
    def reference_options(self) -> dict[str, OptionValue]:
        """The options of the reference that depend on the kind."""
        permits = self.capacity.permits
        return {"permits": permits} if permits > 1 else {}

    @property
    def owes_undo(self) -> bool:
        """Whether what an acquire of unknown outcome has set must go before its TTL is over.

        Redlock's algorithm says so. ``SET NX PX`` on one node leaves that to the TTL, unless the lock says
        for how long its leases are good: such a one is held to its reference. What a master that died has
        replicated nobody can know.
        """
        return not self.replicated and (self.quorum or self.states_validity)

    @property
    def words(self) -> str:
        """What it is, in words."""
        one = "a lock on a master that has replicas" if self.replicated else "a lock on one node"
        one = "a lock on the master that Sentinels name" if self.watched else one
        base = "a lock on a majority of independent nodes" if self.quorum else one
        if not self.capacity.of_one:
            base = f"{self.capacity.words} on one node"
        extras = [
            *(["with fencing tokens"] if self.fenced else []),
            *(["whose token the resource checks"] if self.announces else []),
            *(["whose lease the clients observe"] if self.observed else []),
        ]
        return " ".join([base, *extras])

    @property
    def promise(self) -> str:
        """What a lock of this kind promises."""
        text = (
            f"{self.capacity.promise}, and a lock that is free again after its TTL, while clocks run at "
            "nearly one rate and nodes do not forget"
        )
        if self.quorum:
            text += "; it is served while a majority of the nodes can be reached"
        if self.replicated:
            text += "; after a failover as well, if the new master has all that the old one had acknowledged"
        if self.fenced:
            text += "; each grant has a larger number than all grants before it"
        return text

    def limits(self, finding: str) -> frozenset[str]:
        """The broken assumptions under which the reference has this finding as well, or may have it.

        A lock on one node that claims nothing is not held to a look at the clock after the reply either: the
        pattern of Redis's documentation has none. (Redlock's algorithm has.) One that reads off its node for
        how long the key lasts is told what the clock there says.
        """
        if finding in UNFENCED and not (self.fenced or self.announces):
            return CLOCKS | LATE
        if finding == FALSE_VALIDITY and not self.quorum:
            return CLOCKS if self.states_validity else CLOCKS | LATE
        return LIMITS.get(finding, frozenset())


LIMITS: Final[dict[str, frozenset[str]]] = {
    "overlap": CLOCKS,
    "over-capacity": CLOCKS,
    "continuity-loss": CLOCKS,
    "unavailable": CLOCKS | LATE | {DIES},
    "leak": CLOCKS,
    "fence-order": frozenset((FORGETS,)),
    **dict.fromkeys(UNFENCED, CLOCKS),
}


def reference_in(reference: str, *, reentrant: bool) -> str:
    """The reference of a schedule, in which the holder may take the lock again or not."""
    return TAKEN_AGAIN.get(reference, reference) if reentrant else reference


def limits_its_tries(lock: str, options: Mapping[str, object]) -> bool:
    """Whether a lock is told how often to try, and reads its options: it refuses one that there is not."""
    return "retry_count" in options and _refuses_options(lock)


def longest_wait_ns(lock: str, options: Mapping[str, OptionValue]) -> int | None:
    """How long an acquire may take if a lock that waits says for how long; None: it does not say.

    Twice that and two seconds more: how often it asks, and what it does at the end, is its own matter.
    """
    shape = shape_of(lock)
    wait_ns = None if shape is None else shape.wait_ns(options)
    return None if wait_ns is None else 2 * wait_ns + 2 * S_NS


def client_repeats(lock: str) -> bool:
    """Whether a lock's client repeats commands by itself, for a time that nobody states."""
    return bool(getattr(lock_class(lock), "client_repeats", False))


@functools.cache
def _refuses_options(lock: str) -> bool:
    try:
        check_options(lock, S_NS, {"no_such_option": 1})
    except LabError:
        return True
    return False
