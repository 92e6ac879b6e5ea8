"""One line of a history: the event, its vocabulary, and the header's parameters."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from checker.history.completeness import Completeness

EventType = Literal["invoke", "ok", "fail", "info"]
Model = Literal[
    "lease",
    "mutex",
    "owner-mutex",
    "reentrant-mutex",
    "fenced-mutex",
    "reentrant-fenced-mutex",
    "cas-register",
    "semaphore",
    "read-write-lock",
    "leader-election",
]

NEMESIS: Final = "nemesis"
LAB: Final = "lab"
NODE: Final = "node"
RESERVED: Final = frozenset((NEMESIS, LAB, NODE))
STALL: Final = "stall"
CLOCK: Final = "clock"
"""The event of a recording that says in `value` by how many ns the wall clock is ahead of `time_ns`, and in
`duration_ns` how long it took to find out. In a history of several recordings `target` is the clock."""
GAP: Final = "gap"
"""The event of a recording that says that events are missing: from `start_ns` (`time_ns` if absent) on for
`duration_ns`, or to the end if that is absent. `value` is how many were lost, 0 if recording ended then in
good order, or if time passed that the clock did not count. `targets` are the clients whose grants may be over
since; all if absent."""
MISMATCH: Final = "mismatch"
"""The error of a compare-and-set that the store itself refused because the value was another one."""
SUPPOSED_MISMATCH: Final = "mismatch, as it seems"
"""The error of one that failed where the record does not say why."""
ABSENT: Final = "nil"
"""The value of a read that answered `nil`: that the register is absent, or nothing that was recorded."""
FORMAT_VERSION: Final = 1


class Event(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One event of a history, as recorded; absent fields are None.

    `time_ns` is read from the recorder's single monotonic clock; `claimed_ns` counts from it. On the same
    clock, `attempt_ns` is when the attempt that was granted began (a refused lock tries again inside one
    call) and `deadline_ns` the end of the lease as the lock states it, for locks that say so. `wait_ns` is
    for how long an acquire may wait (0 for a try that must not). Which fields belong to which event is told
    in the format's description; nothing here is checked across events.

    `refused_by` belongs to an acquire that failed: how many nodes answered that the key is taken, if they
    were enough to rule the grant out (the fewest over its attempts; a service, or a library that answers for
    its nodes, counts as one). 0: it failed for another reason, such as silence or no time left. Absent: the
    record does not tell, and no check takes the failure for a refusal.

    The `value` of a `held`, and of an extension that did not succeed, is what the client then believed: "yes"
    or "no".
    """

    time_ns: int
    process: str
    type: EventType
    f: str
    index: int | None = None
    client: str | None = None
    node: str | None = None
    key: str | None = None
    grant_id: str | None = None
    token: str | None = None
    fence: int | None = None
    ttl_ns: int | None = None
    claimed_ns: int | None = None
    attempt_ns: int | None = None
    deadline_ns: int | None = None
    wait_ns: int | None = None
    version_read: int | None = None
    version_written: int | None = None
    value: Any = None
    error: str | None = None
    refused_by: int | None = None
    start_ns: int | None = None
    duration_ns: int | None = None
    fault_id: str | None = None
    target: str | None = None
    targets: list[str] | None = None
    breaks: str | None = None
    receipt: dict[str, Any] | None = None
    heals: str | None = None
    entries: list[tuple[int, Any, str | None, int | None]] | None = None
    ttl_left_ns: int | None = None


class ForeignEvent(Event, kw_only=True, omit_defaults=True, forbid_unknown_fields=False):
    """An event of a history without a header: fields that we do not know are somebody else's business."""


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the checks may assume; the `params` of the header.

    `rho` bounds the rate error of any clock (a node's as well as the recorder's, so one against the other may
    err by (1+ρ)/(1−ρ)), `delta_ns` is the lock's own safety margin, `epsilon_ns` the uncertainty of every
    stamp. `lock_fences` tells whether the lock claims to hand out fences, `store_fences`
    whether the store claims to check them. `unavailable_ns` is the scenario's bound on waiting for a grant.
    `single_attempt` states that an acquire asks the nodes once, so that its lease counts from its call. A
    process may stand still for up to `stall_ns` without a stall being recorded; those of a client that has
    no operation under way and holds no lease need not be. `depth` is how often the holder of a reentrant
    lock may take it (any number if absent). `refusals` are the errors with which a failed acquire proves
    that somebody held the lock; any other failure (a split vote, say) proves nothing.
    `initial` is the first value of every register: a string, an integer or null (absent); if it is not given,
    the first operation that tells what it saw settles it.

    What some locks promise beyond that: `permits` of a semaphore; `fifo_ns`, that the lock is granted in the
    order of the requests, of which each is queued within that time; `wait_slack_ns`, how much later than its
    `wait_ns` an acquire may come back; `breaks_deadlocks`, that a circle of waiting clients is broken.
    """

    rho: float = 0.001
    delta_ns: int = 0
    epsilon_ns: int = 0
    store_fences: bool = False
    lock_fences: bool | None = None
    nodes: int | None = None
    quorum: int | None = None
    grace_ns: int = 1_000_000_000
    unavailable_ns: int | None = None
    single_attempt: bool = False
    stall_ns: int = 50_000_000
    clients: list[str] = []
    model: Model | None = None
    depth: int | None = None
    refusals: list[str] = []
    permits: int | None = None
    fifo_ns: int | None = None
    wait_slack_ns: int = 50_000_000
    breaks_deadlocks: bool = False
    initial: int | str | msgspec.UnsetType | None = msgspec.UNSET

    def given(self) -> dict[str, Any]:
        """What is worth writing down: without what is absent."""
        known = msgspec.to_builtins(self)
        return {name: v for name, v in known.items() if name == "initial" or v not in (None, [])}

    def majority(self) -> int | None:
        """The number of nodes that a grant needs, None if the cluster's size is not known."""
        if self.quorum is not None:
            return self.quorum
        return None if self.nodes is None else self.nodes // 2 + 1


class Recorder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who recorded a history in production: one process of an application.

    `client` is its name; its processes are `client/1`, `client/2`, …, the grants that it acquires
    `client.1`, `client.2`, … `clock` names the monotonic clock of its stamps, which processes of one host
    share. `clock_error_ns` bounds by how much the wall clock of the host may be off; None if it is not known.
    `parent` is the client from which it was forked, whose grants it may have inherited.
    """

    client: str
    clock: str
    clock_error_ns: int | None = None
    parent: str | None = None


class Header(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The first line of a history of our own.

    `complete` is written where the history came from a file that could not prove to be whole.
    """

    history: int
    params: Params = msgspec.field(default_factory=Params)
    complete: Completeness = Completeness.WHOLE
    recorder: Recorder | None = None


class Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of a history of our own: the number of events before it, and the digest of all bytes
    before it (`sha256:` and 64 hexadecimal digits; absent in files of earlier versions).
    """

    end: bool
    events: int
    digest: str | None = None

    def __post_init__(self) -> None:
        if not self.end:
            raise ValueError("`end` is true in the last line")
