"""From node events to how long each key was on each node, and what ended it.

Two sources: observations of the key, and the commands that the node executed (see `lab.run.observer`). A key
that was set and deleted between two observations is known from its commands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checker.history.events import Event
from lab.report.timeline.model import Down, Jump, KeyLife, NodeLane, Span
from lab.report.timeline.words import MS_NS

_SLACK_NS = 5 * MS_NS
_CLOCK_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """A client that requested the lock with a token, and when (ns since the start) it did and released it."""

    client: str
    asked_ns: int
    released_ns: int | None


Owners = Mapping[str, Sequence[TokenOwner]]
"""The owners of each token, by time; most locks draw a new token for each attempt, some do not."""


def owner_of(owners: Owners, token: str | None, at_ns: int) -> TokenOwner | None:
    """The client that had requested the lock with a token last, at some time (ns since the start)."""
    found = owners.get(token or "", ())
    return next((one for one in reversed(found) if one.asked_ns <= at_ns), found[0] if found else None)


@dataclass(slots=True)
class _Key:
    """A key that is on a node right now. ``expiry_ns`` None: no expiry known.

    ``observed``: an observation has seen it; else only the command is known that set it, if the key was free.
    """

    token: str | None
    start_ns: int
    expiry_ns: int | None
    promised_ns: int | None
    observed: bool


def node_lane(
    name: str, events: Sequence[Event], start_ns: int, jumps: Sequence[Jump], owners: Owners
) -> NodeLane:
    """Follow one node's key through its events (of one key, ordered by time) and clock jumps.

    An expiry is not always observed; it is computed from the last observed time to live. A forward jump of
    the node's clock brings the expiry nearer, a backward one moves it away; a later observation replaces it.
    """
    walk = _Walk(NodeLane(name=name, jumps=list(jumps)), owners)
    steps: list[tuple[int, int, Jump | Event | _Command]] = [(jump.at_ns, 0, jump) for jump in jumps]
    for event in events:
        commands = list(_commands(event, start_ns, stamped=not jumps))
        steps += [(command.at_ns, 1, command) for command in commands]
        steps.append((_answered_ns(event) - start_ns, 2, event))
    for at_ns, _, step in sorted(steps, key=lambda one: one[:2]):
        if isinstance(step, Jump):
            walk.jump(step)
        elif isinstance(step, _Command):
            walk.execute(step)
        else:
            asked = Span(_asked_ns(step, at_ns + start_ns) - start_ns, at_ns)
            walk.take(step, step.time_ns - start_ns, asked)
    walk.finish()
    return walk.lane


@dataclass(frozen=True, slots=True)
class _Command:
    """A command that a node executed: when (ns since the start), its name, and the other words."""

    at_ns: int
    name: str
    words: tuple[str, ...]


def tokens_set(event: Event) -> Iterator[str]:
    """The tokens in the SET commands of an event."""
    for command in _commands(event, 0, stamped=False):
        if command.name == "SET" and len(command.words) > 1:
            yield command.words[1]


def _commands(event: Event, start_ns: int, *, stamped: bool) -> Iterator[_Command]:
    """The commands in an event; ``stamped``: the node's own stamps are valid."""
    commands = event.value.get("commands") if isinstance(event.value, Mapping) else None
    for one in commands if isinstance(commands, list) else ():
        name, *words = str(one.get("command", "")).split()
        at_ns, ran = int(one["seen_ns"]), one.get("ran_ns")
        if stamped and isinstance(ran, list) and len(ran) == 2 and ran[0] <= at_ns:
            at_ns = min((ran[0] + ran[1]) // 2, at_ns)
        yield _Command(at_ns - start_ns, name.upper(), tuple(words))


def _answered_ns(event: Event) -> int:
    """When an observation was answered at the latest."""
    return _stamp_ns(event.value, "answered_ns", event.time_ns)


def _asked_ns(event: Event, otherwise_ns: int) -> int:
    return _stamp_ns(event.value, "asked_ns", min(event.time_ns, otherwise_ns))


def _stamp_ns(value: Any, name: str, otherwise_ns: int) -> int:
    stamp = value.get(name) if isinstance(value, Mapping) else None
    return stamp if isinstance(stamp, int) else otherwise_ns


class _Walk:
    """The state of one node while its events are read."""

    def __init__(self, lane: NodeLane, owners: Owners) -> None:
        self.lane = lane
        self._owners = owners
        self._key: _Key | None = None
        self._down_ns: int | None = None
        self._set_ns: dict[str, int] = {}

    def jump(self, jump: Jump) -> None:
        """The clock steps: the key's remaining time changes by as much."""
        key = self._key
        if key is None or key.expiry_ns is None or jump.by_ns is None or key.expiry_ns <= jump.at_ns:
            return
        key.expiry_ns -= jump.by_ns
        if key.expiry_ns <= jump.at_ns:
            self._close(jump.at_ns, "jump")

    def execute(self, command: _Command) -> None:
        """A command sets the key if it was free (or without NX), or deletes it."""
        at_ns, words = command.at_ns, command.words
        if command.name in ("DEL", "UNLINK"):
            self._gone(at_ns, by_command=True)
        elif command.name == "SET" and len(words) > 1:
            key, options = self._key, tuple(word.upper() for word in words[2:])
            if key is not None and key.expiry_ns is not None and key.expiry_ns <= at_ns:
                self._close(at_ns, "expired")
            if self._key is not None and "NX" in options:
                return
            if self._key is not None:
                self._close(at_ns, "replaced")
            ttl_ns = _ttl_ns(options)
            expiry = None if ttl_ns is None else at_ns + ttl_ns
            self._set_ns[words[1]] = at_ns
            self._key = _Key(words[1], at_ns, expiry, expiry, observed=False)

    def take(self, event: Event, at_ns: int, look: Span) -> None:
        """Read one event of the node; an observation was made at some time in ``look``."""
        if event.f == "node-down":
            self._close(at_ns, "down")
            self._set_ns.clear()  # a key observed after this is there since the restart
            self._down_ns = at_ns
        elif event.f == "node-up":
            ran_on = isinstance(event.value, dict) and event.value.get("ran_on")
            if self._down_ns is not None and not ran_on:
                self.lane.downs.append(Down(Span(self._down_ns, at_ns)))
            self._down_ns = None
        elif self._down_ns is not None and look.start_ns <= self._down_ns:
            return  # an observation from before the node went down
        elif event.f == "key-deleted" or event.token is None:
            if event.f in ("key-deleted", "key-observed"):
                if self._key is not None and not self._key.observed and not self._is_over(look.start_ns):
                    self._key = None  # the command did not set it
                self._gone(at_ns)
        elif event.f in ("key-set", "key-observed"):
            self._there(event, at_ns, look)

    def _is_over(self, at_ns: int) -> bool:
        """Whether the key that was set last had expired by then."""
        return self._key is not None and self._key.expiry_ns is not None and self._key.expiry_ns <= at_ns

    def _there(self, event: Event, at_ns: int, look: Span) -> None:
        """The key was observed. Its TTL counts from the observation, the key from the command that set it."""
        left_ns = None if event.ttl_left_ns is None else max(event.ttl_left_ns, 0)
        key, token = self._key, str(event.token)
        if key is not None and key.token == token:
            if not key.observed and key.expiry_ns is not None and left_ns is not None:
                least_ns, most_ns = (at + left_ns for at in look.clipped(at_ns))
                if least_ns - _SLACK_NS <= key.expiry_ns <= most_ns + _SLACK_NS:
                    key.observed = True
                    return
            expiry = None if left_ns is None else max(at_ns, look.start_ns) + left_ns
            if event.f == "key-set":
                key.promised_ns = expiry
            key.expiry_ns, key.observed = expiry, True
            return
        began_ns = self._set_ns.get(token, at_ns)
        if key is not None and key.observed:
            self._close(began_ns, "replaced")
        expiry = None if left_ns is None else max(at_ns, look.start_ns) + left_ns
        self._key = _Key(token, began_ns, expiry, expiry, observed=True)

    def _gone(self, at_ns: int, *, by_command: bool = False) -> None:
        """The key was deleted or found missing: determine the reason."""
        key = self._key
        if key is None:
            return
        owner = owner_of(self._owners, key.token, key.start_ns)
        if key.expiry_ns is not None:
            slack = _SLACK_NS + int((key.expiry_ns - key.start_ns) * _CLOCK_SHARE)
            if key.expiry_ns <= at_ns + slack:
                self._close(min(at_ns, key.expiry_ns), "expired")
                return
        released = owner is not None and owner.released_ns is not None and owner.released_ns <= at_ns
        if released or (by_command and owner is None):
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
        owner = owner_of(self._owners, key.token, key.start_ns)
        early = reason in ("jump", "down", "gone", "replaced")
        asked = owner.asked_ns if owner is not None and owner.asked_ns <= span.start_ns else None
        if any(life.token == key.token and life.ended_by == "down" for life in self.lane.lives):
            asked = None  # it was on the node's disk: no request set it
        client = None if owner is None else owner.client
        promised = key.promised_ns if early else None
        self.lane.lives.append(KeyLife(span, client, key.token, reason, promised, asked))

    def finish(self) -> None:
        """The history ends: a key that is there stays until its expiry."""
        if self._key is not None:
            key, self._key = self._key, None
            reason = "open" if key.expiry_ns is None else "expired"
            self._add(key, Span(key.start_ns, key.expiry_ns), reason)
        if self._down_ns is not None:
            self.lane.downs.append(Down(Span(self._down_ns, None)))


def _ttl_ns(options: Sequence[str]) -> int | None:
    """The time to live of a SET, in ns; None if there is none that is understood."""
    for unit, size_ns in (("PX", MS_NS), ("EX", 1000 * MS_NS)):
        if unit in options[:-1]:
            amount = options[options.index(unit) + 1]
            return int(amount) * size_ns if amount.isdecimal() else None
    return None
