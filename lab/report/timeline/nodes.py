"""From node events to how long each key was really on each node, and what ended it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checker.events import Event
from lab.report.timeline.model import Jump, KeyLife, NodeLane, Span
from lab.report.timeline.words import MS_NS

_SLACK_NS = 5 * MS_NS
_CLOCK_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Who asked for a token, when (ns since the start), and when its client began to give it back."""

    client: str
    asked_ns: int
    given_back_ns: int | None


@dataclass(slots=True)
class _Key:
    """A key that is on a node right now. ``expiry_ns`` None: no expiry known."""

    token: str | None
    start_ns: int
    expiry_ns: int | None
    promised_ns: int | None
    seen_ns: int


def node_lane(
    name: str, events: Sequence[Event], start_ns: int, jumps: Sequence[Jump], owners: Mapping[str, TokenOwner]
) -> NodeLane:
    """Follow one node's key through its events (of one key, ordered by time) and clock jumps.

    An expiry is not always observed; it is computed from the time to live that was seen last. A forward jump
    of the node's clock brings the expiry nearer, a backward one moves it away; what was observed later wins.
    """
    walk = _Walk(NodeLane(name=name, jumps=list(jumps)), owners)
    pending = sorted(jumps, key=lambda jump: jump.at_ns)
    for event in events:
        at_ns = event.time_ns - start_ns
        while pending and pending[0].at_ns <= at_ns:
            walk.jump(pending.pop(0))
        walk.take(event, at_ns)
    for jump in pending:
        walk.jump(jump)
    walk.finish()
    return walk.lane


class _Walk:
    """The state of one node while its events are read."""

    def __init__(self, lane: NodeLane, owners: Mapping[str, TokenOwner]) -> None:
        self.lane = lane
        self._owners = owners
        self._key: _Key | None = None
        self._down_ns: int | None = None

    def jump(self, jump: Jump) -> None:
        """The clock steps: what is left of the key's life shrinks or grows by as much."""
        key = self._key
        if key is None or key.expiry_ns is None or jump.by_ns is None or key.expiry_ns <= jump.at_ns:
            return
        key.expiry_ns -= jump.by_ns
        if key.expiry_ns <= jump.at_ns:
            self._close(jump.at_ns, "jump")

    def take(self, event: Event, at_ns: int) -> None:
        """Read one event of the node."""
        if event.f == "node-down":
            self._close(at_ns, "down")
            self._down_ns = at_ns
        elif event.f == "node-up":
            if self._down_ns is not None:
                self.lane.downs.append(Span(self._down_ns, at_ns))
            self._down_ns = None
        elif event.f == "key-deleted" or event.token is None:
            if event.f in ("key-deleted", "key-observed"):
                self._gone(at_ns)
        elif event.f in ("key-set", "key-observed"):
            self._there(event, at_ns)

    def _there(self, event: Event, at_ns: int) -> None:
        expiry = None if event.ttl_left_ns is None else at_ns + max(event.ttl_left_ns, 0)
        if self._key is not None and self._key.token == event.token:
            if event.f == "key-set":
                self._key.promised_ns = expiry
            self._key.expiry_ns = expiry
            self._key.seen_ns = at_ns
            return
        if self._key is not None:
            self._close(at_ns, "replaced")
        self._key = _Key(event.token, at_ns, expiry, expiry, at_ns)

    def _gone(self, at_ns: int) -> None:
        """The key was deleted or found missing: tell which of the possible reasons it was."""
        key = self._key
        if key is None:
            return
        owner = self._owners.get(key.token or "")
        if key.expiry_ns is not None:
            slack = _SLACK_NS + int((key.expiry_ns - key.start_ns) * _CLOCK_SHARE)
            if key.expiry_ns <= at_ns + slack:
                self._close(min(at_ns, key.expiry_ns), "expired")
                return
        if owner is not None and owner.given_back_ns is not None and owner.given_back_ns <= at_ns:
            self._close(at_ns, "deleted")
        else:
            self._close(at_ns, "gone")

    def _close(self, at_ns: int, reason: str) -> None:
        key = self._key
        if key is None:
            return
        self._key = None
        end = at_ns
        if key.expiry_ns is not None and key.expiry_ns < at_ns and reason != "jump":
            end, reason = key.expiry_ns, "expired"
        self._add(key, Span(key.start_ns, max(end, key.start_ns)), reason)

    def _add(self, key: _Key, span: Span, reason: str) -> None:
        owner = self._owners.get(key.token or "")
        early = reason in ("jump", "down", "gone", "replaced")
        asked = owner.asked_ns if owner is not None and owner.asked_ns <= span.start_ns else None
        client = None if owner is None else owner.client
        promised = key.promised_ns if early else None
        self.lane.lives.append(KeyLife(span, client, key.token, reason, promised, asked))

    def finish(self) -> None:
        """The history ends: what is still there lives on until its expiry."""
        if self._key is not None:
            key, self._key = self._key, None
            reason = "open" if key.expiry_ns is None else "expired"
            self._add(key, Span(key.start_ns, key.expiry_ns), reason)
        if self._down_ns is not None:
            self.lane.downs.append(Span(self._down_ns, None))
