"""The keys of one server: values, times of expiry, who watches them.

Expiry goes by the server's wall clock, in milliseconds of Unix time: a key is gone once the clock shows more
than its time. Whoever looks at such a key first removes it; a replica only pretends that it is gone and
waits for its master to say so, and whatever applies a master's stream or a file sees it still there.

Source: Redis 7.0, the documentation of EXPIRE, "How Redis expires keys" and "How expires are handled in the
replication link and AOF file".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from copy import copy
from dataclasses import dataclass
from dataclasses import field as made_by
from typing import Any, Final, TypeVar

from lab.redis_model.reply import RedisError

WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Hash(dict[bytes, bytes]):
    """A hash: fields and values. ``ends`` says when fields expire, in milliseconds of Unix time."""

    __slots__ = ("ends",)

    def __init__(self, *fields: Any) -> None:
        super().__init__(*fields)
        self.ends: dict[bytes, int] = {}

    def without_expired(self, now_ms: int) -> Hash:
        """Return it as clients see it: itself, or what is left of it."""
        if not any(now_ms > when_ms for when_ms in self.ends.values()):
            return self
        left = Hash({field: value for field, value in self.items() if now_ms <= self.ends.get(field, now_ms)})
        left.ends = {field: when_ms for field, when_ms in self.ends.items() if now_ms <= when_ms}
        return left


class List(deque[bytes]):
    """A list, head first."""

    __slots__ = ()


class Set(dict[bytes, None]):
    """A set, in the order in which members were added."""

    __slots__ = ()


class SortedSet(dict[bytes, float]):
    """A sorted set: members and their scores."""

    __slots__ = ()


EntryId = tuple[int, int]
"""The id of an entry of a stream: milliseconds and a number, each of 64 bits."""
NO_ID: Final[EntryId] = (0, 0)


@dataclass(slots=True)
class Consumer:
    """A consumer of a group: when it asked last, and when it was given something last (None: never)."""

    seen_ms: int
    active_ms: int | None = None


@dataclass(slots=True)
class Delivery:
    """An entry that a consumer was given and has not acknowledged."""

    consumer: bytes
    at_ms: int
    count: int = 1


@dataclass(slots=True)
class Group:
    """A group of consumers of a stream. ``read``: how many entries it was given; None: nobody knows."""

    last: EntryId
    read: int | None = None
    consumers: dict[bytes, Consumer] = made_by(default_factory=dict)
    pending: dict[EntryId, Delivery] = made_by(default_factory=dict)

    def copied(self) -> Group:
        """Return one that does not change with this one."""
        consumers = {name: Consumer(each.seen_ms, each.active_ms) for name, each in self.consumers.items()}
        pending = {
            entry: Delivery(each.consumer, each.at_ms, each.count) for entry, each in self.pending.items()
        }
        return Group(self.last, self.read, consumers, pending)


class Stream(dict[EntryId, tuple[bytes, ...]]):
    """A stream: entries, each with its fields and values in turn, in the order of their ids.

    It stays when it is empty. ``last``: the last id that was given; ``added``: how many entries it ever had;
    ``tombstone``: the highest id that XDEL has removed.
    """

    __slots__ = ("added", "groups", "last", "tombstone")

    def __init__(self, *entries: Any) -> None:
        super().__init__(*entries)
        self.last = self.tombstone = NO_ID
        self.added = 0
        self.groups: dict[bytes, Group] = {}

    def copied(self) -> Stream:
        """Return one that does not change with this one."""
        made = Stream(self)
        made.last, made.tombstone, made.added = self.last, self.tombstone, self.added
        made.groups = {name: group.copied() for name, group in self.groups.items()}
        return made


Value = bytes | Hash | List | Set | SortedSet | Stream
Collection = TypeVar("Collection", Hash, List, Set, SortedSet, Stream)
TYPE_NAMES: dict[type[Any], bytes] = {
    bytes: b"string",
    Hash: b"hash",
    List: b"list",
    Set: b"set",
    SortedSet: b"zset",
    Stream: b"stream",
}


def copied(value: Any) -> Any:
    """Return a value of a key that does not change with this one."""
    if isinstance(value, Stream):
        return value.copied()
    if not isinstance(value, Hash):
        return copy(value)
    made = Hash(value)
    made.ends = dict(value.ends)
    return made


class Keyspace:
    """One database.

    ``now_ms`` is what the server's clock showed when the command began; it stands still within a command, a
    script or a transaction. ``dirty`` counts changes. ``removed`` is called with a key that has just expired,
    ``fields_removed`` with fields of a hash that have. A hash whose fields have all expired is gone at the
    next look into it, or at the server's next round; EXISTS and TYPE see it until then.
    """

    def __init__(
        self, removed: Callable[[bytes], None], fields_removed: Callable[[bytes, list[bytes]], None]
    ) -> None:
        self.data: dict[bytes, Value] = {}
        self.expires: dict[bytes, int] = {}
        self.now_ms = 0
        self.dirty = 0
        self.obeys = False
        """While a master's stream or a file is applied: nothing expires by itself."""
        self.is_replica = False
        self.watchers: dict[bytes, list[Any]] = {}
        self.awaited: Container[bytes] = ()
        """Keys that connections wait for; ``changed`` collects those of them that have changed."""
        self.changed: dict[bytes, None] = {}
        self.earliest_ms: int | None = None
        """No key expires before this; it may be too early, never too late."""
        self._removed, self._fields_removed = removed, fields_removed
        self._with_ends: dict[bytes, None] = {}
        """The keys of hashes whose fields expire, and some that are gone."""

    def get(self, key: bytes) -> Value | None:
        """Return the value, None if there is none (any more)."""
        when_ms = self.expires.get(key)
        if when_ms is not None and self.now_ms > when_ms and not self.obeys:
            if not self.is_replica:
                self._expire(key)
            return None
        return self.data.get(key)

    def string(self, key: bytes) -> bytes | None:
        """Return a string. Raises ``RedisError`` for another kind of value."""
        value = self.get(key)
        if value is None or type(value) is bytes:
            return value
        raise RedisError(WRONG_TYPE)

    def collection(self, key: bytes, kind: type[Collection]) -> Collection | None:
        """Return a collection of that kind. Raises ``RedisError`` for another kind of value."""
        value = self.get(key)
        if isinstance(value, Hash) and value.ends and not self.obeys:
            value = value.without_expired(self.now_ms) if self.is_replica else self._expire_fields(key, value)
        if value is None or type(value) is kind:
            return value
        raise RedisError(WRONG_TYPE)

    def field_ends(self, key: bytes, field: bytes, found: Hash, when_ms: int) -> None:
        """Let a field of a hash that is there expire after that time."""
        found.ends[field] = when_ms
        self._with_ends[key] = None
        if self.earliest_ms is None or when_ms < self.earliest_ms:
            self.earliest_ms = when_ms

    def until_ms(self, key: bytes) -> int | None:
        """When a key is gone by itself: by its own time, or by that of all its fields. None: never."""
        own_ms, value = self.expires.get(key), self.data.get(key)
        if not isinstance(value, Hash) or not value.ends or len(value.ends) < len(value):
            return own_ms
        last_ms = max(value.ends.values())
        return last_ms if own_ms is None else min(own_ms, last_ms)

    def made(self, key: bytes, kind: type[Collection]) -> Collection:
        """Return a collection of that kind, a new one if there is none. Raises ``RedisError``."""
        found = self.collection(key, kind)
        if found is None:
            found = self.data[key] = kind()
        return found

    def put(self, key: bytes, value: Value) -> None:
        """Set a value that never expires."""
        self.data[key] = value
        self.expires.pop(key, None)
        if isinstance(value, Hash) and value.ends:
            self._with_ends[key] = None
        self.touch(key)

    def replace(self, key: bytes, value: Value) -> None:
        """Set a value; when it expires stays as it is."""
        self.data[key] = value
        self.touch(key)

    def delete(self, key: bytes) -> bool:
        """Remove a key; False if there was none."""
        if self.get(key) is None:
            return False
        del self.data[key]
        self.expires.pop(key, None)
        self.touch(key)
        return True

    def tidy(self, key: bytes, value: Hash | List | Set | SortedSet, changes: int = 1) -> bool:
        """Note that a collection has changed, and remove it if it is empty; tell whether it was."""
        if not value:
            del self.data[key]
            self.expires.pop(key, None)
        self.touch(key, changes)
        return not value

    def set_expiry(self, key: bytes, when_ms: int) -> None:
        """Let a key that is there expire after that time."""
        self.expires[key] = when_ms
        if self.earliest_ms is None or when_ms < self.earliest_ms:
            self.earliest_ms = when_ms

    def touch(self, key: bytes, changes: int = 1) -> None:
        """Count changes, of several elements of a collection, and tell who watches or awaits the key."""
        self.dirty += changes
        self._tell(key)

    def _tell(self, key: bytes) -> None:
        if key in self.awaited:
            self.changed[key] = None
        if self.watchers:
            for session in self.watchers.get(key, ()):
                session.watch_failed = True

    def is_expired(self, key: bytes) -> bool:
        """Whether its time is over, though it may still be there."""
        when_ms = self.expires.get(key)
        return when_ms is not None and self.now_ms > when_ms

    def visible(self) -> Iterator[bytes]:
        """Return the keys whose time is not over; what is over is left in place."""
        return (key for key in list(self.data) if not self.is_expired(key))

    def expire_due(self) -> None:
        """Remove all keys whose time is over: what the server does by itself ten times a second."""
        for key in [key for key, when_ms in self.expires.items() if self.now_ms > when_ms]:
            self._expire(key)
        self.earliest_ms = min(self.expires.values(), default=None)
        if self._with_ends:
            self._expire_all_fields()

    def _expire_all_fields(self) -> None:
        hashes = {
            key: value
            for key in self._with_ends
            if isinstance(value := self.data.get(key), Hash) and value.ends
        }
        left = [
            each for key, value in hashes.items() if (each := self._expire_fields(key, value)) is not None
        ]
        self._with_ends = {key: None for key in hashes if key in self.data}
        ends = [when_ms for value in left for when_ms in value.ends.values()]
        if self.earliest_ms is not None:
            ends.append(self.earliest_ms)
        self.earliest_ms = min(ends, default=None)

    def _expire_fields(self, key: bytes, value: Hash) -> Hash | None:
        """Remove what has expired of a hash, and the hash if nothing is left."""
        over = [field for field, when_ms in value.ends.items() if self.now_ms > when_ms]
        if not over:
            return value
        for field in over:
            del value[field], value.ends[field]
        if not value:
            del self.data[key]
            self.expires.pop(key, None)
        self._tell(key)
        self._fields_removed(key, over)
        return value or None

    def clear(self) -> int:
        """Remove everything; return how many keys there were."""
        count = len(self.data)
        for key in self.data:
            self._tell(key)
        self.data.clear()
        self.expires.clear()
        self.earliest_ms = None
        return count

    def evict(self, key: bytes) -> None:
        """Remove a key that is there before its time; it counts as no change."""
        del self.data[key]
        self.expires.pop(key, None)
        self._tell(key)

    def _expire(self, key: bytes) -> None:
        self.evict(key)
        self._removed(key)


def snapshot(keys: Keyspace) -> list[list[bytes]]:
    """Return commands that make all these keys anew, in order; what a full synchronisation sends."""
    commands: list[list[bytes]] = []
    for key, value in keys.data.items():
        if isinstance(value, bytes):
            commands.append([b"SET", key, value])
        elif isinstance(value, Hash):
            commands.append([b"HSET", key, *(part for pair in value.items() for part in pair)])
        elif isinstance(value, SortedSet):
            pairs = ((repr(score).encode(), member) for member, score in value.items())
            commands.append([b"ZADD", key, *(part for pair in pairs for part in pair)])
        elif isinstance(value, Stream):
            commands += _stream_anew(key, value)
        else:
            commands.append([b"SADD" if isinstance(value, Set) else b"RPUSH", key, *value])
        if isinstance(value, Hash):
            commands += (
                [b"HPEXPIREAT", key, b"%d" % when_ms, b"FIELDS", b"1", field]
                for field, when_ms in value.ends.items()
            )
        when_ms = keys.expires.get(key)
        if when_ms is not None:
            commands.append([b"PEXPIREAT", key, b"%d" % when_ms])
    return commands


def id_text(entry: EntryId) -> bytes:
    """Write the id of an entry."""
    return b"%d-%d" % entry


def _stream_anew(key: bytes, stream: Stream) -> Iterator[list[bytes]]:
    """Commands that make a stream; when its consumers asked last is not among what they tell."""
    if not stream:
        yield [b"XADD", key, b"MAXLEN", b"0", b"0-1", b"", b""]
    for entry, content in stream.items():
        yield [b"XADD", key, id_text(entry), *content]
    numbers = [b"ENTRIESADDED", b"%d" % stream.added, b"MAXDELETEDID", id_text(stream.tombstone)]
    yield [b"XSETID", key, id_text(stream.last), *numbers]
    for name, group in stream.groups.items():
        read = b"%d" % (-1 if group.read is None else group.read)
        yield [b"XGROUP", b"CREATE", key, name, id_text(group.last), b"ENTRIESREAD", read]
        for consumer in group.consumers:
            yield [b"XGROUP", b"CREATECONSUMER", key, name, consumer]
        for entry, each in group.pending.items():
            counted = [b"TIME", b"%d" % each.at_ms, b"RETRYCOUNT", b"%d" % each.count, b"FORCE", b"JUSTID"]
            yield [b"XCLAIM", key, name, each.consumer, b"0", id_text(entry), *counted]
