"""Key presence: from the observations of a node, when a token was certainly there, and certainly not.

A node is observed after every command on the key, and at steps of the scenario (`lab.run.observer`). Between
two observations the key changes by a command, which MONITOR shows, by its expiry, or by a fault of the node.
What these do not decide stays open: the answers are *certainly there*, *certainly absent*, or none.

Assumed: a lock draws a new token for each attempt and sends it to a node once, so a token that is gone does
not come back, and one seen twice was there in between; the stamps of a node without a clock fault are right
within ε, its rate within ρ. Not assumed: that a node which went down still had the last observed token, nor
that nothing happened while MONITOR was disconnected.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checker.history.events import Event
from checker.history.history import Fault, History
from checker.history.operations import NEVER
from lab.faults.jump import Jump
from lab.scenario.registry import effect_of

OBSERVATIONS: Final = frozenset(("key-set", "key-deleted", "key-observed"))
TOUCHED: Final = "key-touched"
ENDS: Final = frozenset(("node-down", "node-left"))


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval of time."""

    start_ns: int
    end_ns: int

    def meets(self, other: Piece) -> bool:
        """Whether the two have more than an end in common."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns


@dataclass(frozen=True, slots=True)
class Observation:
    """Between two instants the key had this token and so much time left; None: it was not there."""

    number: int
    asked_ns: int
    answered_ns: int
    token: str | None
    left_ns: int | None


@dataclass(frozen=True, slots=True)
class ObservedCommand:
    """A command on the key: it ran between two instants, and between two observations, by their numbers."""

    first_ns: int
    last_ns: int
    after: int
    before: int
    words: tuple[str, ...]

    def may_set(self, token: str) -> bool:
        """Whether it may have set the key to this token."""
        return not self._is_script and token in self.words

    @property
    def may_end(self) -> bool:
        """Whether it may have deleted the key, or replaced its token."""
        return not self._is_script and not (self.words[0] == "SET" and "NX" in self.words)

    @property
    def _is_script(self) -> bool:
        """Whether its effects are recorded as commands of their own."""
        return self.words[0] in ("EVAL", "EVALSHA", "FCALL")


@dataclass(frozen=True, slots=True)
class Loss:
    """A node lost a token between two instants; why, as text."""

    node: str
    first_ns: int
    last_ns: int
    why: str


@dataclass(slots=True)
class Presence:
    """When a token was certainly on a node, when it was certainly absent, and how it was lost."""

    there: list[Piece] = field(default_factory=list)
    absent: list[Piece] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


class NodeRecord:
    """The observations of one key on one node.

    Args:
        node: its name.
        events: the events of this node in the history, by time.
        history: for its faults and assumptions.
    """

    def __init__(self, node: str, events: Sequence[Event], history: History) -> None:
        self.node = node
        self._rho, self._epsilon_ns = history.params.rho, history.params.epsilon_ns
        faults = [f for f in history.faults if node in f.targets and f.heals is None]
        healings = {f.heals: f for f in history.faults if f.heals is not None}
        clocks = [f for f in faults if effect_of(f.f) == "clock"]
        self._wrong = [(Piece(f.start_ns, f.until_ns), f.f) for f in clocks]
        self._moves = [move for f in clocks for move in _moves(f, healings.get(f.fault_id))]
        self._falls = [f for f in faults if effect_of(f.f) == "down"]
        self._down = [d for f in self._falls for d in _down(f, healings.get(f.fault_id), node)]
        ups = [event.time_ns for event in events if event.f == "node-up"]
        self._unobserved = [
            Piece(f.start_ns, min((up for up in ups if up > f.start_ns), default=NEVER)) for f in self._falls
        ]
        observations: list[Observation] = []
        lost_ns: int | None = None
        for event in events:
            if event.f == "node-down" and lost_ns is None:
                lost_ns = event.time_ns
            elif event.f == "node-up" and lost_ns is not None:
                self._unobserved.append(Piece(lost_ns, event.time_ns))
                lost_ns = None
            elif event.f in OBSERVATIONS and "asked_ns" in (event.value or {}):
                observations.append(_observation(event))
        if lost_ns is not None:
            self._unobserved.append(Piece(lost_ns, NEVER))
        self._observations = sorted(observations, key=lambda one: one.asked_ns)
        self._asked = [one.asked_ns for one in self._observations]
        by_number = {one.number: one.asked_ns for one in observations}
        noted = [
            (command, int(event.value.get("look", NEVER)))
            for event in events
            if event.f in OBSERVATIONS | {TOUCHED} and event.value
            for command in event.value.get("commands", ())
        ]
        noted.sort(key=lambda pair: int(pair[0]["seen_ns"]))
        self._touches = [self._touch(command, before, by_number) for command, before in noted]
        self._seen = [int(command["seen_ns"]) for command, _ in noted]
        self._ends = [(e.time_ns, int(e.value["passed"])) for e in events if e.f in ENDS and e.value]

    def _touch(self, command: dict[str, Any], before: int, asked_ns: dict[int, int]) -> ObservedCommand:
        """A command, with the time by the node's stamp unless its clock may have been wrong then."""
        after, seen_ns = int(command["after"]), int(command["seen_ns"])
        since_ns = asked_ns.get(after, 0)
        first_ns, last_ns = (int(at) for at in command["ran_ns"])
        name, *rest = str(command["command"]).split()
        words = (name.upper(), *(word.upper() if word.upper() == "NX" else word for word in rest))
        span = Piece(since_ns, seen_ns + 1)
        if any(span.meets(wrong) for wrong, _ in self._wrong) or first_ns > seen_ns:
            return ObservedCommand(since_ns, seen_ns, after, before, words)
        first_ns, last_ns = first_ns - self._epsilon_ns, last_ns + self._epsilon_ns
        return ObservedCommand(max(first_ns, since_ns), min(last_ns, seen_ns), after, before, words)

    def _missed(self, one: Observation) -> bool:
        """Whether commands before this observation may be missing in the history."""
        passed = next((passed for end_ns, passed in self._ends if end_ns >= one.asked_ns), 0)
        return one.number > passed

    def presence(self, token: str, asked_ns: int, until_ns: int) -> Presence:
        """The presence of a token, from `asked_ns`, before it was sent, until observed after `until_ns`."""
        found = Presence(absent=list(self._down))
        first = bisect_left(self._asked, asked_ns)
        end = bisect_left(self._asked, until_ns) + 1
        before = Observation(0, asked_ns, asked_ns, None, None)
        edge_ns = asked_ns
        for one in self._observations[first:end]:
            pair = _Pair(before, one, token, edge_ns)
            edge_ns = self._between(pair, found)
            before = one
        return found

    def _between(self, pair: _Pair, found: Presence) -> int:
        """Add what is certain between two observations; return since when the second one certainly holds."""
        a, b = pair.first, pair.second
        if self._missed(b) or any(pair.span.meets(gap) for gap in self._unobserved):
            return self._over_a_gap(pair, found)
        if pair.was and pair.there:
            found.there.append(Piece(pair.edge_ns, b.asked_ns))
            return b.asked_ns
        if pair.was:
            return self._lost(pair, found)
        touches = [touch for touch in self._touches_between(a, b) if touch.may_set(pair.token)]
        if pair.there:
            appeared = min((touch.first_ns for touch in touches), default=a.asked_ns)
            set_ns = min(max((touch.last_ns for touch in touches), default=b.answered_ns), b.answered_ns)
            found.absent.append(Piece(pair.edge_ns, max(pair.edge_ns, appeared)))
            found.there.append(Piece(set_ns, max(set_ns, b.asked_ns)))
            return set_ns
        if touches and not found.there:  # it may have been set, and deleted before the observation
            first_ns = min(touch.first_ns for touch in touches)
            found.absent.append(Piece(pair.edge_ns, max(pair.edge_ns, first_ns)))
            return b.answered_ns
        found.absent.append(Piece(pair.edge_ns, b.asked_ns))
        return b.asked_ns

    def _lost(self, pair: _Pair, found: Presence) -> int:
        """Add a loss: by a command, by expiry, or by a change of the node's clock."""
        a, b = pair.first, pair.second
        touches = [touch for touch in self._touches_between(a, b) if touch.may_end]
        moved = [(move.start_ns, f) for move, f in self._moves if pair.span.meets(move)]
        reasons = [(touch.first_ns, "deleted or replaced by a command") for touch in touches]
        reasons += [(at_ns, f"its clock was moved by a {f}") for at_ns, f in moved]
        gone_ns = b.answered_ns
        if a.left_ns is not None:
            expires_ns = a.asked_ns + int(a.left_ns * (1 - self._rho)) - self._epsilon_ns
            if expires_ns <= b.answered_ns:
                reasons.append((expires_ns, "it expired"))
            if not touches and not moved:
                expired_ns = a.answered_ns + int(a.left_ns * (1 + self._rho)) + self._epsilon_ns
                gone_ns = min(gone_ns, expired_ns)
        kept_ns, why = min(reasons, default=(pair.edge_ns, "no reason was seen"))
        kept_ns = max(kept_ns, pair.edge_ns)
        found.there.append(Piece(pair.edge_ns, kept_ns))
        found.losses.append(Loss(self.node, kept_ns, max(gone_ns, kept_ns), why))
        found.absent.append(Piece(gone_ns, max(gone_ns, b.asked_ns)))
        return gone_ns

    def _over_a_gap(self, pair: _Pair, found: Presence) -> int:
        """Between the two the node was not observed all the time: only a loss is recorded."""
        if pair.was:
            falls = [f for f in self._falls if pair.span.meets(Piece(f.start_ns, f.until_ns))]
            why = f"it went down in a {falls[0].f.replace('_', ' ')}" if falls else "it was not observed then"
            last_ns = min((f.receipt_ns for f in falls), default=pair.second.answered_ns)
            found.losses.append(Loss(self.node, pair.edge_ns, max(last_ns, pair.edge_ns), why))
        return pair.second.answered_ns

    def _touches_between(self, a: Observation, b: Observation) -> list[ObservedCommand]:
        """The commands that may have run after one observation and before another."""
        first = bisect_left(self._seen, a.asked_ns)
        found = []
        for touch in self._touches[first:]:
            if touch.after >= b.number:
                break
            if touch.before > a.number and touch.last_ns >= a.asked_ns and touch.first_ns <= b.answered_ns:
                found.append(touch)
        return found


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two consecutive observations; the first one is known to hold since `edge_ns`."""

    first: Observation
    second: Observation
    token: str
    edge_ns: int

    @property
    def was(self) -> bool:
        """Whether the first one saw the token."""
        return self.first.token == self.token

    @property
    def there(self) -> bool:
        """Whether the second one saw it."""
        return self.second.token == self.token

    @property
    def span(self) -> Piece:
        """The time from the beginning of the first to the end of the second."""
        return Piece(self.first.asked_ns, self.second.answered_ns + 1)


def _observation(event: Event) -> Observation:
    value: dict[str, Any] = event.value
    token = None if event.f == "key-deleted" else event.token
    return Observation(
        int(value["look"]), int(value["asked_ns"]), int(value["answered_ns"]), token, event.ttl_left_ns
    )


def _moves(fault: Fault, healing: Fault | None) -> list[tuple[Piece, str]]:
    """When a fault moves a clock: a jump at its beginning and its correction, any other all the time."""
    if fault.f != Jump.KEY:
        return [(Piece(fault.start_ns, fault.until_ns), fault.f)]
    moves = [(Piece(fault.start_ns, max(fault.receipt_ns, fault.start_ns + 1)), fault.f)]
    if healing is not None:
        moves.append((Piece(healing.start_ns, max(healing.receipt_ns, healing.start_ns + 1)), "correction"))
    return moves


def _down(fault: Fault, healing: Fault | None, node: str) -> list[Piece]:
    """When a node was certainly down: from the receipt of the fault until it was started again."""
    if not fault.confirmed:
        return []
    if healing is None:
        return [Piece(fault.receipt_ns, NEVER)]
    receipt = (healing.receipt or {}).get(node)
    waited_ms = receipt.get("down_ms", 0) if isinstance(receipt, dict) else 0
    return [Piece(fault.receipt_ns, healing.start_ns + int(waited_ms * 1e6))]
