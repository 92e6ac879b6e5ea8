"""What nodes execute in a trial, one command after the other, and what that changes: for telling why."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, NamedTuple

from lab.redis_model import RedisModel
from lab.redis_model.keyspace import Stream, id_text
from lab.redis_model.session import FROM_MASTER
from lab.search.origin import Origins, Place, Sent
from lab.substrates.asked import OWN_KEYS
from lab.substrates.sim.host import Host

_SIMULATION: Final = "lab.substrates.sim."
"""The modules whose functions stand in for clocks."""

OF_THE_LAB: Final = OWN_KEYS.encode()
State = dict[str, tuple[str, int | None]]
"""The keys of a node but for lists: the value as text, and its milliseconds left; None: it has no end."""


@dataclass(slots=True)
class Executed:
    """A command that a node executed: for which client, in a script or not, and its keys before and after.

    ``time_ns`` is by the history's clock.
    """

    time_ns: int
    node: str
    client: str
    words: tuple[str, ...]
    in_script: bool
    before: State
    after: State
    sent: Sent | None = None
    """The request that it came in, if it was seen to leave its client."""
    error: str = ""
    """The error that it was answered with, if it was."""

    @property
    def sent_ns(self) -> int:
        """When its request left its client, if that is known."""
        return self.time_ns if self.sent is None else self.sent.time_ns

    @property
    def name(self) -> str:
        """The command, in capitals."""
        return self.words[0].upper()

    def changes(self) -> list[tuple[str, str | None, str | None]]:
        """The keys whose value is another one afterwards: key, value before, value after."""
        keys = [*self.before, *(key for key in self.after if key not in self.before)]
        pairs = [(key, self.before.get(key), self.after.get(key)) for key in keys]
        return [
            (key, old and old[0], new and new[0])
            for key, old, new in pairs
            if (old and old[0]) != (new and new[0])
        ]


@dataclass
class CommandLog:
    """All commands of a trial, in the order in which they were executed."""

    now_ns: Any
    origins: Origins
    clients: Collection[str]
    """Whose commands are noted: not those of servers that replicate or watch others."""
    entries: list[Executed] = field(default_factory=list)
    asker: str = ""
    """Whose request is being executed."""
    message: object = None
    """What it came in."""
    request: Sent | None = None
    """The request that is being executed."""
    _seen: tuple[object, State] = (None, {})

    def begin(self, node: str, model: RedisModel) -> None:
        """Note what this server executes from now on."""

        def note(words: Sequence[bytes], peer: str) -> None:
            if peer == FROM_MASTER or self.asker not in self.clients:
                return
            self.end(node, model)
            state = self._state(node, model)
            said = tuple(word.decode(errors="replace") for word in words)
            in_script = peer == "lua"
            if not in_script:
                self.request = self.origins.arrived(self.asker, node, said, self.message)
            entry = Executed(self.now_ns(), node, self.asker, said, in_script, state, state, self.request)
            self.entries.append(entry)

        def failed(words: Sequence[bytes], error: str) -> None:
            said = tuple(word.decode(errors="replace") for word in words)
            for at in range(len(self.entries) - 1, -1, -1):
                entry = self.entries[at]
                if entry.time_ns != self.now_ns():
                    return
                if (entry.node, entry.words) == (node, said):
                    entry.error = error
                    return

        model.on_command, model.on_error = note, failed

    def end(self, node: str, model: RedisModel) -> None:
        """The command that was noted last is over, if it was one of this node's."""
        if self.entries and self.entries[-1].node == node and self.entries[-1].time_ns == self.now_ns():
            self.entries[-1].after = self._state(node, model)

    def _state(self, node: str, model: RedisModel) -> State:
        """What a node has now; looked at only if it may be something else than the last time."""
        keys = model.keys
        about = node, id(keys), keys.dirty, len(keys.data), model.wall_ns() // 1_000_000
        if self._seen[0] != about:
            self._seen = about, state_of(model)
        return self._seen[1]

    def set_state(self, since: int, model: RedisModel) -> None:
        """Something has been undone: this is what a node has since the entry at this place."""
        state = state_of(model)
        for each in self.entries[since:]:
            each.after = state
        self._seen = None, {}


def state_of(model: RedisModel) -> State:
    now_ms = model.wall_ns() // 1_000_000
    state: State = {}
    for key, value in model.keys.data.items():
        if key.startswith(OF_THE_LAB):
            continue
        until_ms = model.keys.until_ms(key)
        if isinstance(value, bytes | dict) and (until_ms is None or until_ms > now_ms):
            left_ms = None if until_ms is None else until_ms - now_ms
            state[key.decode(errors="replace")] = _text_of(value), left_ms
    return state


def _text_of(value: bytes | dict[Any, Any]) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Stream):
        return " ".join(
            f"{f'{part.group}:' * bool(part.group)}{part.entry}={part.text.replace(' ', '_')}"
            for part in parts_of_stream(value)
        )
    return " ".join(f"{_text_of(name)}={_part(each)}" for name, each in sorted(value.items()))


def _part(value: bytes | float | None) -> str:
    """What a hash has in a field, or the score of a member of a sorted set."""
    return _text_of(value) if isinstance(value, bytes) else "" if value is None else f"{value:g}"


class StreamPart(NamedTuple):
    """An entry of a stream, or one that a consumer of a group has: which, since when, and what.

    ``text`` is its only value, or all its fields and values; of a group's the consumer.
    """

    group: str
    entry: str
    text: str
    since_ms: int = 0


def parts_of_stream(stream: Stream) -> Iterator[StreamPart]:
    """What lies in a stream: its entries, and what consumers have of them."""
    for entry, content in stream.items():
        text = b" ".join(content[1:] if len(content) == 2 else content)
        yield StreamPart("", id_text(entry).decode(), text.decode(errors="replace"))
    for name, group in stream.groups.items():
        for entry, given in group.pending.items():
            consumer = given.consumer.decode(errors="replace")
            yield StreamPart(name.decode(errors="replace"), id_text(entry).decode(), consumer, given.at_ms)


def parts_of(value: str) -> list[str]:
    """The fields of a hash, or the members of a set, in its text; else the text alone."""
    parts = value.split(" ")
    return parts if all("=" in part for part in parts) else [value]


@dataclass(frozen=True, slots=True)
class ClockRead:
    """A client's code read its wall clock: when, by the history's clock, and the lock's calls that led there.

    The outermost call comes first; there is none if no code of the lock's own did it.
    """

    time_ns: int
    places: tuple[Place, ...]


def note_wall_clock(host: Host, reads: dict[str, list[ClockRead]], origins: Origins) -> None:
    """Note under the host's name whenever its code asks what time it is on the wall.

    The stamp of a log record does not count: nothing depends on it.
    """
    wall_ns = host.clock.wall_ns

    def noted() -> int:
        caller: FrameType | None = sys._getframe(1)
        while caller is not None and caller.f_globals.get("__name__", "").startswith(_SIMULATION):
            caller = caller.f_back
        if caller is None or caller.f_globals.get("__name__") != logging.__name__:
            reads.setdefault(host.name, []).append(ClockRead(origins.now_ns(), origins.places_of(caller)))
        return wall_ns()

    host.clock.wall_ns = noted  # type: ignore[method-assign]
