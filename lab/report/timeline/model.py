"""The content of the timeline picture, as plain values: no drawing and no checking happens here.

All times are integer nanoseconds since time zero of the history (`History.zero_ns`). ``None`` as an end means
that it had not ended at the end of the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.report.timeline.words import circled


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of time; ``end_ns`` None: it did not end within the history."""

    start_ns: int
    end_ns: int | None

    def clipped(self, last_ns: int) -> tuple[int, int]:
        """Start and end with an open end replaced by ``last_ns``."""
        return self.start_ns, last_ns if self.end_ns is None else self.end_ns


@dataclass(frozen=True, slots=True)
class Attempt:
    """One acquire, extend or release; ``outcome``: "ok", "fail" or "info" (not known)."""

    kind: str
    span: Span
    outcome: str
    grant_id: str | None = None
    index: int = -1
    guilty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant of the lock: its belief windows and its guaranteed windows."""

    grant_id: str
    belief: tuple[Span, ...]
    guaranteed: tuple[Span, ...]
    claimed_ns: tuple[int, ...] = ()
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """One read or write of the protected resource. ``outcome`` as for attempts.

    ``guilty`` names its violations, ``warned`` its warnings.
    """

    kind: str
    span: Span
    outcome: str
    version: int | None = None
    index: int = -1
    guilty: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    fence: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A stretch in which a client or node did not run: injected ("pause") or only observed ("stall")."""

    span: Span
    kind: str
    fault: int | None = None


@dataclass(slots=True)
class ClientLane:
    """The operations, grants and faults of one client."""

    name: str
    attempts: list[Attempt] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    cut_tries: list[CutTry] = field(default_factory=list)
    jumps: list[Jump] = field(default_factory=list)
    crashed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CutTry:
    """A request of a client to a node that was lost on a cut link."""

    node: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class KeyLife:
    """How long a key was on a node, and when it would have expired (``promised_ns``).

    ``ended_by``: "expired", "deleted", "jump", "down", "gone" (found missing), "replaced" or "open".
    """

    span: Span
    owner: str | None
    token: str | None
    ended_by: str
    promised_ns: int | None = None
    asked_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Jump:
    """A step of a node's (or client's) clock; ``by_ns`` None when the size is not in the history."""

    at_ns: int
    by_ns: int | None
    fault: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A command took a holder's key away from a node; ``words`` say whose command."""

    at_ns: int
    words: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """A node changed at once: a replica was made a master, or a key was removed."""

    at_ns: int
    fault: int
    words: str


@dataclass(frozen=True, slots=True)
class Down:
    """A stretch in which a node was down; ``words`` say by what, ``fault`` None: by no fault."""

    span: Span
    words: str = "down"
    fault: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of a node that was held back: when it was sent, delivered, and read by its client.

    The client may have stood still in between. ``read_ns`` None: its request had ended before.
    """

    client: str
    sent_ns: int
    delivered_ns: int
    read_ns: int | None
    fault: int

    @property
    def end_ns(self) -> int:
        """When it was read, or else delivered."""
        return self.delivered_ns if self.read_ns is None else self.read_ns


@dataclass(frozen=True, slots=True)
class LinkFault:
    """A stretch in which the link between a peer and a node was broken; ``lossy``: what was sent was lost.

    ``holds_replies``: what the node replied was kept in the network, and delivered at the end.
    """

    peer: str
    span: Span
    words: str
    lossy: bool
    fault: int
    holds_replies: bool = False


@dataclass(slots=True)
class NodeLane:
    """The keys and faults of one node."""

    name: str
    lives: list[KeyLife] = field(default_factory=list)
    jumps: list[Jump] = field(default_factory=list)
    downs: list[Down] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    links: list[LinkFault] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """A write that reached the store, drawn at ``at_ns``, when the store executed it.

    ``between`` None: the store recorded when. Otherwise only these two bounds are known.
    """

    client: str
    asked_ns: int
    at_ns: int
    version: int | None
    accepted: bool
    fence: int | None = None
    guilty: tuple[str, ...] = ()
    error: str | None = None
    between: Span | None = None


@dataclass(frozen=True, slots=True)
class Announcement:
    """A client (None: not known) announced its token to the store, which accepts its writes from now on."""

    client: str | None
    at_ns: int


@dataclass(frozen=True, slots=True)
class Fault:
    """One injected fault with its receipt as text; ``receipt`` None: there is none.

    ``causes`` are the findings that the checker puts down to it, by their names.
    """

    number: int
    name: str
    target: str
    span: Span
    receipt: str | None
    breaks: str | None = None
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch in which the windows of two clients overlap; ``name`` is the finding's name."""

    name: str
    clients: tuple[str, str]
    span: Span
    words: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A finding at one time on one lane."""

    names: tuple[str, ...]
    lane: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class FindingText:
    """One finding as text, for the block below the picture."""

    name: str
    severity: str
    why: str
    broken_assumption: str | None = None


@dataclass(slots=True)
class Timeline:
    """The content of the picture. ``notes`` say what is not shown and why."""

    title: str
    verdict: list[tuple[str, str]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    clients: list[ClientLane] = field(default_factory=list)
    nodes: list[NodeLane] = field(default_factory=list)
    writes: list[StoreWrite] = field(default_factory=list)
    announcements: list[Announcement] = field(default_factory=list)
    store_links: list[LinkFault] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    findings: list[FindingText] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    window_ends: list[int] = field(default_factory=list)
    gaps: list[Span] = field(default_factory=list)
    last_ns: int = 0

    def is_cause(self, number: int | None) -> bool:
        """Whether a violation is put down to the fault with this number."""
        return any(fault.number == number and fault.causes for fault in self.faults)

    def consequences(self, names: Sequence[str]) -> str:
        """Violations by name, and the fault of which they are the consequence, if there is one."""
        words = "✗ " + ", ".join(names)
        causes = [circled(fault.number) for fault in self.faults if set(fault.causes) & set(names)]
        return f"{words}: consequence of {' and '.join(causes)}" if causes else words
