"""What was seen of a key on the nodes: looks at it, and the commands that were the reason to look.

A history may hold events of process `node`: `key-set`, `key-deleted`, `key-observed` (a look at the key,
taken between `value.asked_ns` and `value.answered_ns`, with the `token` it had and `ttl_left_ns`),
`key-touched` (commands that no look followed), `node-down`, `node-up`, `node-left`. After `node-down` a node
is not watched until `node-up`, whose `value.ran_on` says that the same process ran meanwhile.
`value.commands` lists what the node executed on the key before a look: `command`; `seen_ns`, when it was
shown at the latest; `ran_ns`, two instants between which it ran by the node's own stamp; `after`, the number
of the last look (`value.look`) that it surely followed. A history without such events has no sightings, and
nothing is decided by them.

All answers are bounds that hold whatever was not seen. They rest on this: a node keeps a key for no longer
than its TTL by its own clock, whose rate is right to within ρ unless a fault changed it; and a token belongs
to one grant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checker.history.events import NODE, Event
from checker.history.history import History
from checker.history.operations import NEVER

LOOKS: Final = frozenset(("key-set", "key-deleted", "key-observed"))
TOUCHED: Final = "key-touched"
CLOCKS: Final = frozenset(("jump", "drift", "strobe"))
SCRIPTS: Final = frozenset(("EVAL", "EVALSHA", "FCALL"))
PTTL_STEP_NS: Final = 1_000_000
"""Nodes tell the time that is left in whole milliseconds, rounded down."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command on the key: it ran between two instants, and surely after the look numbered `after`."""

    words: tuple[str, ...]
    first_ns: int
    last_ns: int
    after: int
    index: int

    @property
    def name(self) -> str:
        """Its first word, in capitals."""
        return self.words[0].upper() if self.words else ""

    @property
    def is_script(self) -> bool:
        """Whether what it did was shown as commands of its own."""
        return self.name in SCRIPTS

    @property
    def may_end(self) -> bool:
        """Whether it may have taken a key away, replaced it, or changed when it ends."""
        only_if_absent = self.name == "SETNX" or (
            self.name == "SET" and "NX" in (word.upper() for word in self.words)
        )
        return not self.is_script and not only_if_absent

    def may_set(self, token: str) -> bool:
        """Whether it may have given the key this token."""
        return not self.is_script and token in self.words


@dataclass(frozen=True, slots=True)
class Look:
    """One look: between two instants the key had this token and this time left; None: it was not there."""

    number: int
    asked_ns: int
    answered_ns: int
    token: str | None
    left_ns: int | None
    commands: tuple[Command, ...]
    index: int


@dataclass(slots=True)
class Node:
    """All that was seen of one key on one node, looks in the order in which they were asked.

    Whoever asks about tokens has noted all looks: they are indexed by token once, when first asked about.
    """

    name: str
    looks: list[Look] = field(default_factory=list)
    unordered: list[Command] = field(default_factory=list)
    downs: list[tuple[int, int]] = field(default_factory=list)
    """When it was watched no more, and the event."""
    ran_on: set[int] = field(default_factory=set)
    """Those of these events after which the same process was watched again: it had not been down."""
    left: bool = False
    hit: bool = False
    """Whether any fault had it for a target."""
    clock_moved: bool = False
    _places: dict[str | None, list[int]] | None = field(default=None, init=False, repr=False, compare=False)
    _set_and_ended: set[str] | None = field(default=None, init=False, repr=False, compare=False)

    def of(self, token: str) -> list[Look]:
        """The looks that saw the token."""
        return [self.looks[at] for at in self._at(token)]

    def _at(self, token: str) -> list[int]:
        """Where the looks that saw the token stand."""
        if self._places is None:
            self._places = {}
            for at, look in enumerate(self.looks):
                self._places.setdefault(look.token, []).append(at)
        return self._places.get(token, [])

    def _may_have_gone_unseen(self) -> set[str]:
        """Words of commands that may have set a token, where one before the same look may have ended it."""
        if self._set_and_ended is None:
            self._set_and_ended = {
                word
                for look in self.looks
                if any(one.may_end for one in look.commands)
                for one in look.commands
                if not one.is_script
                for word in one.words
            }
        return self._set_and_ended

    def commands(self) -> Iterator[Command]:
        """Every command that was seen."""
        for look in self.looks:
            yield from look.commands
        yield from self.unordered

    def appeared_ns(self, token: str, since_ns: int) -> int:
        """Before which instant the token surely was not there, if it was not before `since_ns`."""
        at = self._at(token)[0]
        look = self.looks[at]
        floor_ns = max(since_ns, self.looks[at - 1].asked_ns) if at else since_ns
        setters = [command for command in look.commands if command.may_set(token)]
        if not setters or self.clock_moved:
            return floor_ns
        return max(floor_ns, min(command.first_ns for command in setters))

    def never_had(self, token: str) -> bool:
        """Whether the token surely never was there: all was seen, and it was not."""
        watched = self.left and not self.downs and not self.hit and not self.unordered
        return watched and token not in self._may_have_gone_unseen()


class Sightings:
    """The sightings of a history, by key and node."""

    def __init__(self, history: History) -> None:
        self._rho, self._epsilon_ns = history.params.rho, history.params.epsilon_ns
        self._total, self._majority = history.params.nodes, history.params.majority() or 0
        self.nodes: dict[str | None, dict[str, Node]] = {}
        events = [(i, e) for i, e in history.others if e.process == NODE and e.node is not None]
        keys = {e.key for _, e in events if e.key is not None}
        for index, event in events:
            for key in keys if event.key is None else (event.key,):
                self._take_note(self._node(key, str(event.node)), index, event)
        for node in (node for nodes in self.nodes.values() for node in nodes.values()):
            node.looks.sort(key=lambda look: look.asked_ns)
            hits = [f for f in history.faults if node.name in f.targets and f.heals is None]
            node.hit = any(not set(f.targets) & set(history.params.clients) for f in hits)
            node.clock_moved = any(f.f in CLOCKS for f in hits)

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def _node(self, key: str | None, name: str) -> Node:
        return self.nodes.setdefault(key, {}).setdefault(name, Node(name))

    def _take_note(self, node: Node, index: int, event: Event) -> None:
        value: dict[str, Any] = event.value if isinstance(event.value, dict) else {}
        commands = tuple(self._command(c, index) for c in value.get("commands", ()))
        if event.f in LOOKS and "asked_ns" in value:
            token = None if event.f == "key-deleted" else event.token
            asked_ns, answered_ns = int(value["asked_ns"]), int(value["answered_ns"])
            number = int(value.get("look", 0))
            node.looks.append(Look(number, asked_ns, answered_ns, token, event.ttl_left_ns, commands, index))
        elif event.f == TOUCHED:
            node.unordered.extend(commands)
        elif event.f == "node-down":
            node.downs.append((event.time_ns, index))
        elif event.f == "node-up" and value.get("ran_on") and node.downs:
            node.ran_on.add(node.downs[-1][1])
        elif event.f == "node-left":
            node.left = True

    def _command(self, noted: dict[str, Any], index: int) -> Command:
        seen_ns = int(noted["seen_ns"])
        first_ns, last_ns = (int(at) for at in noted.get("ran_ns", (0, seen_ns)))
        first_ns, last_ns = first_ns - self._epsilon_ns, min(last_ns + self._epsilon_ns, seen_ns)
        words = tuple(str(noted["command"]).split())
        return Command(words, first_ns, max(first_ns, last_ns), int(noted.get("after", 0)), index)

    def voters(self, key: str | None, token: str, called_ns: int) -> dict[str, Node] | None:
        """The nodes that had the token, or may have had it unseen; None if nothing can be told of it.

        Nothing can be told of a token that was there before the acquire was called: others use it too; nor
        where there may be nodes that were not watched, as in a cluster of unknown size.
        """
        nodes = self.nodes.get(key)
        if nodes is None or self._total is None or len(nodes) < self._total:
            return None
        having = {name: node for name, node in nodes.items() if not node.never_had(token) or node.of(token)}
        early = any(look.answered_ns < called_ns for node in having.values() for look in node.of(token)[:1])
        return None if early or not any(node.of(token) for node in having.values()) else having

    def needed(self, voters: Sequence[object]) -> int:
        """How many nodes made a grant: a majority, or one where fewer than that can have had its token."""
        return self._majority if len(voters) >= self._majority else 1

    def over_by(self, key: str | None, token: str, called_ns: int, until_ns: int) -> int:
        """When so many nodes as made a grant had it no more at the latest, `NEVER` if that is not known.

        Only looks asked for before `until_ns` count, when something may have prolonged it.
        """
        voters = self.voters(key, token, called_ns)
        if voters is None:
            return NEVER
        ends = sorted((self._ends_by(node, token, until_ns) for node in voters.values()), reverse=True)
        return ends[self.needed(ends) - 1]

    def _ends_by(self, node: Node, token: str, until_ns: int) -> int:
        looks = [look for look in node.of(token) if look.asked_ns < until_ns]
        if not looks or node.clock_moved or any(look.left_ns is None for look in looks):
            return NEVER
        left = ((look.answered_ns, (look.left_ns or 0) + PTTL_STEP_NS) for look in looks)
        return max(at_ns + left_ns + int(left_ns * self._rho) + 1 for at_ns, left_ns in left)

    def began_ns(self, key: str | None, token: str, called_ns: int) -> int:
        """Before which instant the grant of a token surely was not made: a majority was not complete."""
        voters = self.voters(key, token, called_ns)
        if voters is None:
            return called_ns
        known = [
            node.appeared_ns(token, called_ns) if node.of(token) else called_ns for node in voters.values()
        ]
        return sorted(known)[self.needed(known) - 1]


def lost_between(node: Node, token: str, until_ns: int) -> tuple[Look, Look] | None:
    """The last look that saw the token and the next, which did not; None if it was there until then."""
    asked = [look.asked_ns for look in node.looks]
    end = min(bisect_right(asked, until_ns) + 1, len(node.looks))
    pair = None
    for before, after in zip(node.looks[:end], node.looks[1:end], strict=False):
        if before.token == token and after.token != token:
            pair = before, after
    return pair
