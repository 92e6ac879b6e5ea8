"""The operations that are kept: those of grants that were not released, and of the last that were, by key."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from checker.history.events import Event
from checker.history.operations import NEVER
from checker.history.pairing import client_of

RELEASED_MAX: Final = 64
"""Released grants that are kept per key."""
HELD_MAX: Final = 1_000
"""Grants that nobody released that are kept per key."""
OPERATIONS_MAX: Final = 64
"""Extensions, and writes, that are kept per grant."""


@dataclass(slots=True, eq=False)
class Operation:
    """An invocation and, once it is known, its completion; with their positions in the history."""

    call: Event
    called_at: int
    done: Event | None = None
    done_at: int = -1

    def get(self, name: str) -> Any:
        """A field of the completion, else of the invocation, as pairing joins them."""
        value = None if self.done is None else getattr(self.done, name)
        return getattr(self.call, name) if value is None else value

    @property
    def ok(self) -> bool:
        """Whether it is known to have succeeded."""
        return self.done is not None and self.done.type == "ok"

    def events(self) -> list[tuple[int, Event]]:
        """Its events with their positions."""
        events = [(self.called_at, self.call)]
        if self.done is not None:
            events.append((self.done_at, self.done))
        return events


@dataclass(slots=True, eq=False)
class Grant:
    """A grant that its client was told of, and what was done under it.

    `closed_ns` is from when on the grant is not counted on any more although no release names it: somebody
    released without saying which grant, or an extension for another TTL was forgotten. `over_ns` is when its
    lease is over at the latest. `last_version` is the largest version that a write under it that had read
    before was given; `writing` holds its writes that are under way or of unknown outcome.
    """

    id: str
    key: str | None
    acquire: Operation
    called_ns: int
    acquired_ns: int
    over_ns: int
    extensions: list[Operation] = field(default_factory=list)
    release: Operation | None = None
    writes: list[Operation] = field(default_factory=list)
    longest: Operation | None = None
    closed_ns: int = NEVER
    last_version: int | None = None
    writing: list[Operation] = field(default_factory=list)
    writes_cut: bool = False
    keys: list[Key] = field(default_factory=list)

    @property
    def client(self) -> str:
        """The client that acquired it."""
        return client_of(self.acquire.call.process, self.acquire.call.client)

    @property
    def held(self) -> bool:
        """Whether nobody released it so far."""
        return self.release is None and self.closed_ns == NEVER

    def trim(self) -> bool:
        """Forget the oldest operations beyond the bound; whether there were any.

        Of extensions the one that lasts longest is kept as well: a lease is not over before that.
        """
        cut = False
        if len(self.extensions) > OPERATIONS_MAX:
            dropped = self.extensions.pop(0)
            if self.longest is None or _until(dropped) > _until(self.longest):
                self.longest = dropped
            if dropped.get("ttl_ns") not in (None, self.acquire.get("ttl_ns")):
                self.closed_ns = min(self.closed_ns, dropped.call.time_ns)
            cut = True
        if len(self.writing) > OPERATIONS_MAX:
            self.writing.pop(0)
            self.writes_cut = True
        if len(self.writes) > OPERATIONS_MAX:
            self.writes.pop(0)
            self.writes_cut = cut = True
        return cut

    def operations(self) -> list[Operation]:
        """All that is kept of it."""
        kept = [self.acquire, *self.extensions, *self.writes]
        return kept + [one for one in (self.release, self.longest) if one is not None]


def _until(extension: Operation) -> int:
    done = extension.done
    return NEVER if done is None or done.type == "info" else done.time_ns + (extension.get("ttl_ns") or 0)


@dataclass(slots=True, eq=False)
class Key:
    """The grants that took a key or wrote to it, and the largest of what has been seen on it.

    `loose` holds the last accepted writes under no grant that is known. `based` is the largest version that a
    write was based on. `deferred`: a lost update could not be judged while a grant was writing once more.
    `unnamed_ns` is when a release or an extension that names no known grant was called last, and `late`
    counts those of them that may still take effect.
    """

    held: dict[str, Grant] = field(default_factory=dict)
    released: deque[Grant] = field(default_factory=deque)
    loose: deque[Operation] = field(default_factory=lambda: deque(maxlen=RELEASED_MAX))
    fence: int | None = None
    fenced: Grant | None = None
    called_ns: int = -NEVER
    began_ns: int = -NEVER
    newest: Grant | None = None
    written_fence: int | None = None
    version: int | None = None
    based: int | None = None
    deferred: bool = False
    unnamed_ns: int = -NEVER
    late: int = 0

    def open_from(self, grant: Grant) -> int:
        """From when on a new grant may be gone for what named none; `NEVER` if nothing did."""
        return grant.called_ns if self.late or self.unnamed_ns >= grant.called_ns else NEVER

    def add(self, grant: Grant) -> bool:
        """Keep a grant; whether it is new here."""
        if any(key is self for key in grant.keys):
            return False
        grant.keys.append(self)
        self.held[grant.id] = grant
        return True

    def settle(self, grant: Grant) -> list[Grant]:
        """Move a released grant among the released ones; returns the grants that are forgotten for it."""
        if self.held.pop(grant.id, None) is not None:
            self.released.append(grant)
        forgotten = []
        while len(self.released) > RELEASED_MAX:
            oldest = self.released.popleft()
            if oldest is self.fenced or oldest is self.newest:
                self.released.append(oldest)  # later ones are compared with it; there are at most two such
                oldest = self.released.popleft()
                if oldest is self.fenced or oldest is self.newest:
                    self.released.append(oldest)
                    oldest = self.released.popleft()
            forgotten.append(oldest)
        return forgotten

    def crowded(self) -> Grant | None:
        """Forget the oldest grant that nobody released, if there are too many; returns it."""
        if len(self.held) <= HELD_MAX:
            return None
        return self.held.pop(next(iter(self.held)))

    def clear(self) -> list[Grant]:
        """Forget all grants; returns them."""
        forgotten = self.grants()
        self.held.clear()
        self.released.clear()
        self.fenced = self.newest = None
        return forgotten

    def grants(self) -> list[Grant]:
        """All that are kept, each once."""
        pinned = [g for g in (self.fenced, self.newest) if g is not None]
        return list({id(g): g for g in (*self.released, *self.held.values(), *pinned)}.values())
