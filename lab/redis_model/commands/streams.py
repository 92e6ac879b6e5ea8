"""Streams: entries with ids, and groups of consumers who share them.

What a server trims with ``~`` depends on how it packs entries, and so does what XINFO STREAM says of packs:
of a stream that may take more than one pack this is not simulated. How long ago a consumer asked for entries
is not known after a server has started from its files, or a replica from its master.

Source: Redis 7.2, ``t_stream.c``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.blocking import await_keys
from lab.redis_model.keyspace import NO_ID, Consumer, Delivery, EntryId, Group, Stream, id_text
from lab.redis_model.known import since
from lab.redis_model.registry import command, subcommand, wrong_count
from lab.redis_model.reply import NULL_ARRAY, OK, Map, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

_MAX: Final = 2**64 - 1
LAST_ID: Final[EntryId] = (_MAX, _MAX)
_ID: Final = re.compile(rb"(\d{1,20})(?:-(\d{1,20}|\*))?")
NO_SUCH_ID: Final = "ERR Invalid stream ID specified as stream command argument"
TOO_SMALL: Final = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
PACK_ENTRIES: Final = 100
PACK_BYTES: Final = 4096
PART_BYTES: Final = 11
"""What a field, a value, or one of some numbers of an entry takes at most besides its text."""


# Ids.


def _parsed(argument: bytes, number: int, *, partial: bool = False) -> tuple[int, int | None]:
    found = _ID.fullmatch(argument)
    if found is None or (found[2] == b"*" and not partial):
        raise RedisError(NO_SUCH_ID)
    ms, rest = int(found[1]), number if found[2] is None else None if found[2] == b"*" else int(found[2])
    if ms > _MAX or (rest or 0) > _MAX:
        raise RedisError(NO_SUCH_ID)
    return ms, rest


def _id(argument: bytes, number: int = 0) -> EntryId:
    """Read ``ms-number``; ``number`` stands for one that is left out. Raises ``RedisError``."""
    ms, rest = _parsed(argument, number)
    assert rest is not None
    return ms, rest


def _after(entry: EntryId) -> EntryId | None:
    """The next id; None after the last one."""
    ms, number = entry
    return (ms, number + 1) if number < _MAX else (ms + 1, 0) if ms < _MAX else None


def _before(entry: EntryId) -> EntryId | None:
    ms, number = entry
    return (ms, number - 1) if number else (ms - 1, _MAX) if ms else None


def _bound(argument: bytes, number: int) -> EntryId:
    """Read an end of an interval: an id, ``-``, ``+``, or ``(`` and an id that is left out.

    ``number`` stands for one that is left out. Raises ``RedisError``.
    """
    if argument in (b"-", b"+"):
        return NO_ID if argument == b"-" else LAST_ID
    if not argument.startswith(b"("):
        return _id(argument, number)
    is_start = number == 0
    found = (_after if is_start else _before)(_id(argument[1:], number))
    if found is None:
        raise RedisError(f"ERR invalid {'start' if is_start else 'end'} ID for the interval")
    return found


# Adding and removing.


@dataclass(slots=True)
class _Trimming:
    """What XADD and XTRIM are told to remove: what lies before an id, or all but so many."""

    by: bytes = b""
    value: int = 0
    least: EntryId = NO_ID
    roughly: bool = False
    limit: int = 0
    has_limit: bool = False

    def read(self, args: list[bytes], at: int) -> int:
        """Read what is at that place; return how many words. Raises ``RedisError``."""
        word = args[at].upper()
        if word == b"LIMIT":
            self.limit, self.has_limit = integer(args[at + 1]), True
            if self.limit < 0:
                raise RedisError("ERR The LIMIT argument must be >= 0.")
            return 2
        if self.by:
            raise RedisError("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
        self.by, count = word, 2
        self.roughly = args[at + 1] == b"~" and at + 2 < len(args)
        if self.roughly or (args[at + 1] == b"=" and at + 2 < len(args)):
            count = 3
        given = args[at + count - 1]
        if word == b"MINID":
            self.least = _id(given)
        else:
            self.value = integer(given)
            if self.value < 0:
                raise RedisError("ERR The MAXLEN argument must be >= 0.")
        return count

    def check(self) -> None:
        """Raises ``RedisError`` if a limit does not fit."""
        if self.limit and not self.by:
            raise RedisError("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
        if self.has_limit and not self.roughly:
            raise RedisError("ERR syntax error, LIMIT cannot be used without the special ~ option")

    def apply(self, server: RedisModel, key: bytes, found: Stream) -> int:
        """Remove what is to be removed; return how many. Raises ``RedisError``: it is not simulated."""
        if not self.by:
            return 0
        if self.by == b"MINID":
            gone = [entry for entry in found if entry < self.least]
        else:
            gone = list(found)[: max(len(found) - self.value, 0)]
        if self.roughly and gone and len(gone) < len(found):
            # Whole packs go only.
            if not _is_one_pack(found):
                server.miss("trimming with ~ of a stream with more than one pack of entries")
                raise RedisError("ERR trimming with ~ is not simulated of a stream as long as this one")
            gone = []
        if self.roughly and self.has_limit and 0 < self.limit < len(gone):
            gone = []
        for entry in gone:
            del found[entry]
        if gone:
            server.channels.notify("t", b"xtrim", key)
        return len(gone)

    def as_done(self, found: Stream) -> list[bytes]:
        """What was removed, for files and replicas."""
        if not self.by:
            return []
        if self.by == b"MINID":
            least = id_text(next(iter(found), NO_ID)) if self.roughly else id_text(self.least)
            return [b"MINID", b"=", least]
        return [b"MAXLEN", b"=", b"%d" % (len(found) if self.roughly else self.value)]


def _is_one_pack(found: Stream) -> bool:
    """Whether a server surely keeps a stream in one pack."""
    size = sum(len(part) + PART_BYTES for content in found.values() for part in (*content, b"", b"", b""))
    return found.added <= PACK_ENTRIES and size < PACK_BYTES


_REFERENCES: Final = frozenset({b"KEEPREF", b"DELREF", b"ACKED"})


def _refuse_references(server: RedisModel, word: bytes) -> None:
    """Options since 8.2 that look into the groups. Raises ``RedisError``."""
    if word in _REFERENCES and since(server.server, redis=(8, 2), valkey=(99, 0)):
        server.miss(f"XADD and XTRIM … {word.decode()}")


@command("xadd", -5, "NOMKSTREAM MAXLEN MINID = ~ LIMIT *", writes=True)
def _xadd(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    trimming, makes, at = _Trimming(), True, 2
    while at < len(args):
        word = args[at].upper()
        if word in (b"MAXLEN", b"MINID", b"LIMIT") and at + 1 < len(args):
            at += trimming.read(args, at)
        elif word == b"NOMKSTREAM":
            makes, at = False, at + 1
        else:
            _refuse_references(server, word)
            break
    partial = since(server.server, redis=(7, 0))
    ms, number = (
        (None, None)
        if args[at : at + 1] == [b"*"]
        else _parsed(args[at] if at < len(args) else b"", 0, partial=partial)
    )
    trimming.check()
    content = tuple(args[at + 1 :])
    if len(content) < 2 or len(content) % 2:
        raise RedisError(wrong_count("xadd"))
    if (ms, number) == NO_ID:
        raise RedisError("ERR The ID specified in XADD must be greater than 0-0")
    keys, key = server.keys, args[1]
    found = keys.collection(key, Stream)
    if found is None and not makes:
        return None
    last = NO_ID if found is None else found.last
    if last == LAST_ID:
        raise RedisError("ERR The stream has exhausted the last possible ID, unable to add more items")
    entry = _next_id(last, ms, number, keys.now_ms)
    found = keys.made(key, Stream)
    found[entry] = content
    found.last = entry
    found.added += 1
    keys.touch(key)
    server.channels.notify("t", b"xadd", key)
    trimming.apply(server, key, found)
    options = [] if makes else [b"NOMKSTREAM"]
    server.rewritten = [[b"XADD", key, *options, *trimming.as_done(found), id_text(entry), *content]]
    return id_text(entry)


def _next_id(last: EntryId, ms: int | None, number: int | None, now_ms: int) -> EntryId:
    """The id of a new entry: what was given of it, the rest by the clock. Raises ``RedisError``."""
    following = _after(last)
    assert following is not None
    if ms is None:
        return (now_ms, 0) if now_ms > last[0] else following
    if number is None:
        if ms == last[0] and last[1] < _MAX:
            return following
        number = 0
    if (ms, number) <= last:
        raise RedisError(TOO_SMALL)
    return ms, number


@command("xtrim", -4, "MAXLEN MINID = ~ LIMIT", writes=True)
def _xtrim(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    trimming, at = _Trimming(), 2
    while at < len(args):
        if args[at].upper() not in (b"MAXLEN", b"MINID", b"LIMIT") or at + 1 == len(args):
            _refuse_references(server, args[at].upper())
            raise RedisError(SYNTAX)
        at += trimming.read(args, at)
    if trimming.limit and not trimming.by:
        trimming.check()
    if not trimming.by:
        raise RedisError("ERR syntax error, XTRIM must be called with a trimming strategy")
    trimming.check()
    found = server.keys.collection(args[1], Stream)
    removed = 0 if found is None else trimming.apply(server, args[1], found)
    if found is not None and removed:
        server.keys.touch(args[1], removed)
        server.rewritten = [[b"XTRIM", args[1], *trimming.as_done(found)]]
    return removed


@command("xdel", -3, writes=True)
def _xdel(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Stream)
    if found is None:
        return 0
    gone = [entry for entry in dict.fromkeys(map(_id, args[2:])) if entry in found]
    for entry in gone:
        del found[entry]
        found.tombstone = max(found.tombstone, entry)
    if gone:
        server.keys.touch(args[1], len(gone))
        server.channels.notify("t", b"xdel", args[1])
    return len(gone)


@command("xlen", 2)
def _xlen(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(server.keys.collection(args[1], Stream) or ())


@command("xsetid", -3, "ENTRIESADDED MAXDELETEDID", writes=True)
def _xsetid(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    last, added, tombstone = _id(args[2]), None, None
    for at in range(3, len(args), 2):
        word = args[at].upper()
        if word not in (b"ENTRIESADDED", b"MAXDELETEDID") or at + 1 == len(args):
            raise RedisError(SYNTAX)
        if word == b"ENTRIESADDED":
            added = integer(args[at + 1])
            if added < 0:
                raise RedisError("ERR entries_added must be positive")
        else:
            tombstone = _id(args[at + 1])
            if last < tombstone:
                raise RedisError(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
                )
    found = server.keys.collection(args[1], Stream)
    if found is None:
        raise RedisError("ERR no such key")
    if last < found.tombstone:
        raise RedisError("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if found and last < next(reversed(found)):
        raise RedisError("ERR The ID specified in XSETID is smaller than the target stream top item")
    if added is not None and added < len(found):
        raise RedisError("ERR The entries_added specified in XSETID is smaller than the target stream length")
    found.last = last
    found.added = found.added if added is None else added
    found.tombstone = tombstone or found.tombstone
    server.keys.touch(args[1])
    server.channels.notify("t", b"xsetid", args[1])
    return OK


# Reading.


def _shown(entry: EntryId, content: tuple[bytes, ...]) -> list[object]:
    return [id_text(entry), list(content)]


def _interval(server: RedisModel, args: list[bytes], least: bytes, most: bytes, *, reverse: bool) -> Reply:
    start, stop, count, at = _bound(least, 0), _bound(most, _MAX), -1, 4
    while at < len(args):
        if args[at].upper() != b"COUNT" or at + 1 == len(args):
            raise RedisError(SYNTAX)
        count, at = max(integer(args[at + 1]), 0), at + 2
    found = server.keys.collection(args[1], Stream)
    if found is None:
        return []
    if count == 0:
        return NULL_ARRAY
    chosen = [_shown(entry, content) for entry, content in found.items() if start <= entry <= stop]
    if reverse:
        chosen.reverse()
    return list(chosen if count < 0 else chosen[:count])


@command("xrange", -4, "COUNT")
def _xrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _interval(server, args, args[2], args[3], reverse=False)


@command("xrevrange", -4, "COUNT")
def _xrevrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _interval(server, args, args[3], args[2], reverse=True)


@dataclass(slots=True)
class _Reading:
    """What XREAD or XREADGROUP is asked for: after which id of each key; None: what is new to the group."""

    after: list[tuple[bytes, EntryId | None]]
    count: int = 0
    timeout_ms: int | None = None
    group: bytes | None = None
    consumer: bytes = b""
    acknowledged: bool = False


def _reading(server: RedisModel, session: Session, args: list[bytes], *, grouped: bool) -> _Reading:
    """Read the options and ids. Raises ``RedisError``."""
    asked, name = _Reading([]), "xreadgroup" if grouped else "xread"
    at = _options_of_reading(server, session, args, asked, name)
    count, odd = divmod(len(args) - at, 2)
    if odd:
        named = name.upper() if server.is_before_7 else name
        raise RedisError(
            f"ERR Unbalanced '{named}' list of streams: for each stream key an ID or "
            f"'{'>' if grouped else '$'}' must be specified."
        )
    if grouped and asked.group is None:
        raise RedisError("ERR Missing GROUP option for XREADGROUP")
    for key, given in zip(args[at : at + count], args[at + count :], strict=True):
        found = server.keys.collection(key, Stream)
        if asked.group is not None:
            _group_to_read(found, key, asked.group)
        asked.after.append((key, _read_from(server, given, found, grouped=grouped)))
    return asked


def _options_of_reading(
    server: RedisModel, session: Session, args: list[bytes], asked: _Reading, name: str
) -> int:
    """Read the options; return where the streams begin. Raises ``RedisError``."""
    at = 1
    while at < len(args) - 1 or args[at:] in ([b"NOACK"], [b"noack"]):
        word = args[at].upper()
        if word in (b"GROUP", b"NOACK") and name == "xread" and at + (word == b"GROUP") * 2 < len(args):
            raise RedisError(
                f"ERR The {word.decode()} option is only supported by XREADGROUP. You called XREAD instead."
            )
        if word == b"BLOCK":
            if session is server.script_session and not since(server.server, redis=(7, 4)):
                raise RedisError(f"ERR {name} command is not allowed with BLOCK option from scripts")
            asked.timeout_ms = integer(args[at + 1], "ERR timeout is not an integer or out of range")
            if asked.timeout_ms < 0:
                raise RedisError("ERR timeout is negative")
        elif word == b"COUNT":
            asked.count = max(integer(args[at + 1]), 0)
        elif word == b"STREAMS":
            return at + 1
        elif word == b"GROUP" and at + 2 < len(args):
            asked.group, asked.consumer = args[at + 1], args[at + 2]
            at += 1
        elif word == b"NOACK":
            asked.acknowledged = True
            at -= 1
        else:
            break
        at += 2
    raise RedisError(SYNTAX)


def _group_to_read(found: Stream | None, key: bytes, name: bytes) -> Group:
    group = None if found is None else found.groups.get(name)
    if group is None:
        shown, shown_group = (text.decode(errors="replace") for text in (key, name))
        raise RedisError(
            f"NOGROUP No such key '{shown}' or consumer group '{shown_group}' in XREADGROUP with GROUP option"
        )
    return group


def _read_from(server: RedisModel, given: bytes, found: Stream | None, *, grouped: bool) -> EntryId | None:
    """After which entry to read; None: after what the group was given. Raises ``RedisError``."""
    last = since(server.server, redis=(7, 4), valkey=(99, 0))
    if given == b"$" or (given == b"+" and last):
        if grouped:
            raise RedisError(
                f"ERR The {given.decode()} ID is meaningless in the context of XREADGROUP: you want to read "
                "the history of this consumer by specifying a proper ID, or use the > ID to get new "
                f"messages. The {given.decode()} ID would just return an empty result set."
            )
        if not found:
            return NO_ID if found is None else found.last
        return found.last if given == b"$" else _before(next(reversed(found)))
    if given == b">":
        if grouped:
            return None
        raise RedisError(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> "
            "option."
        )
    return _id(given)


Results = list[tuple[bytes, list[object]]]


def _answer(session: Session, results: Results) -> Reply:
    if not results:
        return None
    if session.resp3:
        return Map(part for pair in results for part in pair)
    return [list(pair) for pair in results]


def _asked_of(asked: _Reading, keys: Sequence[bytes]) -> list[tuple[bytes, EntryId | None]]:
    """What is read of these keys: all that was asked for, or of one that has changed, once."""
    of_these = [pair for pair in asked.after if pair[0] in keys]
    return of_these[: len(keys)]


def _read(server: RedisModel, session: Session, asked: _Reading, keys: Sequence[bytes]) -> Reply:
    """What XREAD answers now; None if it has nothing. Raises ``RedisError``."""
    results: Results = []
    for key, after in _asked_of(asked, keys):
        found = server.keys.collection(key, Stream) or Stream()
        fresh = [_shown(entry, content) for entry, content in found.items() if entry > (after or NO_ID)]
        if fresh:
            results.append((key, list(fresh[: asked.count or None])))
    return _answer(session, results)


def _now_or_later(
    server: RedisModel,
    session: Session,
    asked: _Reading,
    read: Callable[[RedisModel, Session, _Reading, Sequence[bytes]], Reply],
) -> Reply:
    """Answer what is there; wait for more if that was asked for."""
    keys = [key for key, _ in asked.after]
    if asked.timeout_ms is None:
        reply = read(server, session, asked, keys)
        return NULL_ARRAY if reply is None else reply
    attempt = functools.partial(read, server, session, asked)
    by_group = asked.group is not None
    return await_keys(server, session, keys, Stream, asked.timeout_ms, attempt, also_gone=by_group)


@command("xread", -4, "COUNT BLOCK STREAMS")
def _xread(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _now_or_later(server, session, _reading(server, session, args, grouped=False), _read)


def _consumer(server: RedisModel, key: bytes, group: Group, name: bytes) -> tuple[Consumer, bool]:
    """A consumer that asks now, and whether it is a new one."""
    consumer = group.consumers.get(name)
    if consumer is not None:
        consumer.seen_ms = server.keys.now_ms
        return consumer, False
    consumer = group.consumers[name] = Consumer(server.keys.now_ms)
    server.keys.touch(key)
    server.channels.notify("t", b"xgroup-createconsumer", key)
    return consumer, True


def _as_claim(key: bytes, name: bytes, group: Group, entry: EntryId, given: Delivery) -> list[bytes]:
    """Who has an entry, for files and replicas."""
    when = [b"TIME", b"%d" % given.at_ms, b"RETRYCOUNT", b"%d" % given.count, b"FORCE", b"JUSTID"]
    return [b"XCLAIM", key, name, given.consumer, b"0", id_text(entry), *when, b"LASTID", id_text(group.last)]


def _as_position(server: RedisModel, key: bytes, name: bytes, group: Group) -> list[bytes]:
    """How far a group has come, for files and replicas."""
    read = [] if server.is_before_7 else [b"ENTRIESREAD", b"%d" % (-1 if group.read is None else group.read)]
    return [b"XGROUP", b"SETID", key, name, id_text(group.last), *read]


def _read_by_group(server: RedisModel, session: Session, asked: _Reading, keys: Sequence[bytes]) -> Reply:
    """What XREADGROUP answers now; None if it has nothing. Raises ``RedisError``."""
    assert asked.group is not None
    results: Results = []
    sent: list[list[bytes]] = []
    for key, after in _asked_of(asked, keys):
        found = server.keys.collection(key, Stream)
        group = _group_to_read(found, key, asked.group)
        assert found is not None
        consumer, is_new = _consumer(server, key, group, asked.consumer)
        if is_new:
            sent.append([b"XGROUP", b"CREATECONSUMER", key, asked.group, asked.consumer])
        if after is not None:
            results.append((key, list(_history(server, asked, found, group, after))))
            server.keys.touch(key)
            continue
        fresh = [entry for entry in found if entry > group.last][: asked.count or None]
        for entry in fresh:
            _passes(found, group, entry)
            if not asked.acknowledged:
                given = group.pending[entry] = Delivery(asked.consumer, server.keys.now_ms)
                consumer.active_ms = server.keys.now_ms
                sent.append(_as_claim(key, asked.group, group, entry, given))
        if fresh:
            sent.append(_as_position(server, key, asked.group, group))
            results.append((key, [_shown(entry, found[entry]) for entry in fresh]))
            server.keys.touch(key)
    server.rewritten = sent
    return _answer(session, results)


def _history(
    server: RedisModel, asked: _Reading, found: Stream, group: Group, after: EntryId
) -> Iterator[object]:
    """What a consumer was given before; an entry that is gone has no fields."""
    own = sorted(
        entry for entry, each in group.pending.items() if each.consumer == asked.consumer and entry > after
    )
    for entry in own[: asked.count or None]:
        if entry not in found:
            yield [id_text(entry), NULL_ARRAY]
            continue
        given = group.pending[entry]
        given.at_ms, given.count = server.keys.now_ms, given.count + 1
        yield _shown(entry, found[entry])


def _passes(found: Stream, group: Group, entry: EntryId) -> None:
    """A group is given an entry: count it if that can be known."""
    if group.read is not None and not _has_tombstones(found, entry):
        group.read += 1
    elif found.added:
        group.read = _distance(found, entry)
    group.last = entry


def _has_tombstones(found: Stream, start: EntryId) -> bool:
    """Whether an entry from this one on was removed by XDEL."""
    return bool(found) and found.tombstone != NO_ID and start <= found.tombstone


def _distance(found: Stream, entry: EntryId) -> int | None:
    """How many entries came up to this one since the stream is there; None: nobody knows."""
    if not found.added:
        return 0
    first = next(iter(found), NO_ID)
    if not found and entry < found.last:
        return None
    if not found and entry == found.last:
        return found.added
    if entry != NO_ID and entry < found.last and _has_tombstones(found, entry):
        return None
    if entry == found.last:
        return found.added
    if entry > found.last:
        return None
    if found.tombstone == NO_ID or found.tombstone < first:
        if entry < first:
            return found.added - len(found)
        if entry == first:
            return found.added - len(found) + 1
    return None


@command("xreadgroup", -7, "GROUP COUNT BLOCK NOACK STREAMS", writes=True)
def _xreadgroup(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    server.rewritten = []
    return _now_or_later(server, session, _reading(server, session, args, grouped=True), _read_by_group)


# Groups.


def _no_group(key: bytes, name: bytes) -> RedisError:
    shown, shown_name = (text.decode(errors="replace") for text in (key, name))
    return RedisError(f"NOGROUP No such key '{shown}' or consumer group '{shown_name}'")


def _found_group(server: RedisModel, key: bytes, name: bytes) -> tuple[Stream, Group]:
    """A stream and its group. Raises ``RedisError`` if there is none."""
    found = server.keys.collection(key, Stream)
    group = None if found is None else found.groups.get(name)
    if found is None or group is None:
        raise _no_group(key, name)
    return found, group


def _options_of_group(server: RedisModel, args: list[bytes], *, makes: bool) -> tuple[bool, int | None]:
    """Read MKSTREAM and ENTRIESREAD: whether a stream is made, what was read. Raises ``RedisError``."""
    mkstream, read, at = False, None, 5
    while at < len(args):
        word = args[at].upper()
        if word == b"MKSTREAM" and makes:
            mkstream, at = True, at + 1
        elif word == b"ENTRIESREAD" and at + 1 < len(args) and not server.is_before_7:
            value, at = integer(args[at + 1]), at + 2
            if value < -1:
                raise RedisError("ERR value for ENTRIESREAD must be positive or -1")
            read = None if value == -1 else value
        else:
            raise _subcommand_syntax(server, args)
    return mkstream, read


def _subcommand_syntax(server: RedisModel, args: list[bytes]) -> RedisError:
    shown = args[1].decode(errors="replace")
    if server.is_before_7:
        return RedisError(
            f"ERR Unknown subcommand or wrong number of arguments for '{shown}'. Try XGROUP HELP."
        )
    return RedisError(f"ERR unknown subcommand or wrong number of arguments for '{shown}'. Try XGROUP HELP.")


def _of_group(server: RedisModel, args: list[bytes], *, needs_group: bool = True) -> Stream:
    """The stream that a subcommand is about. Raises ``RedisError`` if it, or its group, is not there."""
    found = server.keys.collection(args[2], Stream)
    if found is None:
        raise RedisError(
            "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
            "the MKSTREAM option to create an empty stream automatically."
        )
    if needs_group and args[3] not in found.groups:
        shown, name = (text.decode(errors="replace") for text in (args[2], args[3]))
        raise RedisError(f"NOGROUP No such consumer group '{name}' for key name '{shown}'")
    return found


@subcommand("xgroup", "create", -5, "$ MKSTREAM ENTRIESREAD", writes=True)
def _create(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    mkstream, read = _options_of_group(server, args, makes=True)
    key, name = args[2], args[3]
    found = server.keys.collection(key, Stream) if mkstream else _of_group(server, args, needs_group=False)
    last = (NO_ID if found is None else found.last) if args[4] == b"$" else _id(args[4])
    if found is None:
        found = server.keys.made(key, Stream)
    if name in found.groups:
        raise RedisError("BUSYGROUP Consumer Group name already exists")
    found.groups[name] = Group(last, read)
    server.keys.touch(key)
    server.channels.notify("t", b"xgroup-create", key)
    return OK


@subcommand("xgroup", "setid", -5, "$ ENTRIESREAD", writes=True)
def _setid(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    _, read = _options_of_group(server, args, makes=False)
    found = _of_group(server, args)
    group = found.groups[args[3]]
    if args[4] in (b"-", b"+"):
        group.last = NO_ID if args[4] == b"-" else LAST_ID
    else:
        group.last = found.last if args[4] == b"$" else _id(args[4])
    group.read = read
    server.keys.touch(args[2])
    server.channels.notify("t", b"xgroup-setid", args[2])
    return OK


@subcommand("xgroup", "destroy", 4, writes=True)
def _destroy(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = _of_group(server, args, needs_group=False)
    if found.groups.pop(args[3], None) is None:
        return 0
    server.keys.touch(args[2])
    server.channels.notify("t", b"xgroup-destroy", args[2])
    return 1


@subcommand("xgroup", "createconsumer", 5, writes=True)
def _createconsumer(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    group = _of_group(server, args).groups[args[3]]
    if args[4] in group.consumers:
        return 0
    _consumer(server, args[2], group, args[4])
    return 1


@subcommand("xgroup", "delconsumer", 5, writes=True)
def _delconsumer(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    group = _of_group(server, args).groups[args[3]]
    if group.consumers.pop(args[4], None) is None:
        return 0
    own = [entry for entry, given in group.pending.items() if given.consumer == args[4]]
    for entry in own:
        del group.pending[entry]
    server.keys.touch(args[2])
    server.channels.notify("t", b"xgroup-delconsumer", args[2])
    return len(own)


@command("xack", -4, writes=True)
def _xack(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Stream)
    group = None if found is None else found.groups.get(args[2])
    if group is None:
        return 0
    entries = [_id(each) for each in args[3:]]
    done = sum(group.pending.pop(entry, None) is not None for entry in entries)
    if done:
        server.keys.touch(args[1], done)
    return done


@command("xpending", -3, "IDLE")
def _xpending(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) != 3 and not 6 <= len(args) <= 9:
        raise RedisError(SYNTAX)
    if len(args) == 3:
        return _pending_in_short(_found_group(server, args[1], args[2])[1])
    idle_ms, at = 0, 3
    if args[3].upper() == b"IDLE":
        idle_ms, at = integer(args[4]), 5
        if len(args) < 8:
            raise RedisError(SYNTAX)
    count = max(integer(args[at + 2]), 0)
    start, stop = _bound(args[at], 0), _bound(args[at + 1], _MAX)
    _, group = _found_group(server, args[1], args[2])
    consumer = args[at + 3] if len(args) > at + 3 else None
    now_ms = server.keys.now_ms
    chosen = [
        [id_text(entry), given.consumer, max(now_ms - given.at_ms, 0), given.count]
        for entry, given in sorted(group.pending.items(), key=lambda pair: pair[0])
        if start <= entry <= stop
        and consumer in (None, given.consumer)
        and (not idle_ms or now_ms - given.at_ms >= idle_ms)
    ]
    return list(chosen[:count])


def _pending_in_short(group: Group) -> Reply:
    """How many, the first and the last, and how many each consumer has."""
    if not group.pending:
        return [0, None, None, NULL_ARRAY]
    counts: dict[bytes, int] = {}
    for given in group.pending.values():
        counts[given.consumer] = counts.get(given.consumer, 0) + 1
    by_consumer = [[name, b"%d" % counts[name]] for name in sorted(counts)]
    return [len(group.pending), id_text(min(group.pending)), id_text(max(group.pending)), by_consumer]


@dataclass(slots=True)
class _Claiming:
    """How XCLAIM and XAUTOCLAIM give entries: as of when, as given how often, and what they answer."""

    at_ms: int
    count: int | None = None
    force: bool = False
    ids_only: bool = False
    last: EntryId = NO_ID


def _options_of_claim(args: list[bytes], now_ms: int) -> tuple[list[EntryId], _Claiming]:
    """Read the ids and the options of XCLAIM. Raises ``RedisError``."""
    entries, how, at = [], _Claiming(now_ms), 5
    while at < len(args):
        try:
            entries.append(_id(args[at]))
        except RedisError:
            break
        at += 1
    while at < len(args):
        word, has_more = args[at].upper(), at + 1 < len(args)
        at += 1
        if word == b"FORCE":
            how.force = True
        elif word == b"JUSTID":
            how.ids_only = True
        elif word in (b"IDLE", b"TIME", b"RETRYCOUNT") and has_more:
            value = integer(args[at], f"ERR Invalid {word.decode()} option argument for XCLAIM")
            if word == b"RETRYCOUNT":
                how.count = value if value >= 0 else None
            else:
                how.at_ms = value if word == b"TIME" else now_ms - value
                how.at_ms = how.at_ms if 0 <= how.at_ms <= now_ms else now_ms
            at += 1
        elif word == b"LASTID" and has_more:
            how.last, at = _id(args[at]), at + 1
        else:
            shown = args[at - 1].decode(errors="replace")
            raise RedisError(f"ERR Unrecognized XCLAIM option '{shown}'")
    return entries, how


def _idle_ms(argument: bytes, name: str) -> int:
    return max(integer(argument, f"ERR Invalid min-idle-time argument for {name}"), 0)


@command("xclaim", -6, "IDLE TIME RETRYCOUNT FORCE JUSTID LASTID", writes=True)
def _xclaim(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    server.rewritten = sent = []
    keys, key, name = server.keys, args[1], args[2]
    found, group = _found_group(server, key, name)
    idle_ms = _idle_ms(args[4], "XCLAIM")
    entries, how = _options_of_claim(args, keys.now_ms)
    moves = how.last > group.last
    group.last = max(group.last, how.last)
    consumer, is_new = _consumer(server, key, group, args[3])
    if is_new:
        sent.append([b"XGROUP", b"CREATECONSUMER", key, name, args[3]])
    answers: list[object] = []
    for entry in entries:
        given = group.pending.get(entry)
        if entry not in found and not server.is_before_7:
            if given is not None:
                sent.append(_as_claim(key, name, group, entry, given))
                moves = False
                del group.pending[entry]
                keys.touch(key)
            continue
        if given is None and how.force and (entry in found or server.is_before_7):
            given = Delivery(b"", keys.now_ms)
        elif given is None or (idle_ms and keys.now_ms - given.at_ms < idle_ms):
            continue
        moves = False
        _claim(server, key, name, group, entry, given, args[3], how, sent)
        consumer.active_ms = keys.now_ms
        if how.ids_only:
            answers.append(id_text(entry))
        else:
            answers.append(_shown(entry, found[entry]) if entry in found else None)
    if moves:
        sent.append(_as_position(server, key, name, group))
        keys.touch(key)
    return answers


def _claim(
    server: RedisModel,
    key: bytes,
    name: bytes,
    group: Group,
    entry: EntryId,
    given: Delivery,
    consumer: bytes,
    how: _Claiming,
    sent: list[list[bytes]],
) -> None:
    """Give an entry to a consumer."""
    given.consumer, given.at_ms = consumer, how.at_ms
    if how.count is not None:
        given.count = how.count
    elif not how.ids_only:
        given.count += 1
    group.pending[entry] = given
    sent.append(_as_claim(key, name, group, entry, given))
    server.keys.touch(key)


@command("xautoclaim", -6, "COUNT JUSTID", writes=True)
def _xautoclaim(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    server.rewritten = sent = []
    keys, key, name = server.keys, args[1], args[2]
    idle_ms, start = _idle_ms(args[4], "XAUTOCLAIM"), _bound(args[5], 0)
    how, count, at = _Claiming(keys.now_ms), 100, 6
    while at < len(args):
        if args[at].upper() == b"COUNT" and at + 1 < len(args):
            count, at = integer(args[at + 1]), at + 1
            if count < 1:
                raise RedisError("ERR COUNT must be > 0")
        elif args[at].upper() == b"JUSTID":
            how.ids_only = True
        else:
            raise RedisError(SYNTAX)
        at += 1
    found, group = _found_group(server, key, name)
    consumer, is_new = _consumer(server, key, group, args[3])
    if is_new:
        sent.append([b"XGROUP", b"CREATECONSUMER", key, name, args[3]])
    waiting = sorted(entry for entry in group.pending if entry >= start)
    answers: list[object] = []
    gone: list[bytes] = []
    left, tries = count, 10 * count
    while waiting and left and tries:
        entry, given = waiting[0], group.pending[waiting.pop(0)]
        tries -= 1
        if entry not in found and not server.is_before_7:
            sent.append(_as_claim(key, name, group, entry, given))
            del group.pending[entry]
            keys.touch(key)
            gone.append(id_text(entry))
            left -= 1
        elif not idle_ms or keys.now_ms - given.at_ms >= idle_ms:
            _claim(server, key, name, group, entry, given, args[3], how, sent)
            consumer.active_ms = keys.now_ms
            shown = _shown(entry, found[entry]) if entry in found else None
            answers.append(id_text(entry) if how.ids_only else shown)
            left -= 1
    cursor = id_text(waiting[0] if waiting else NO_ID)
    return [cursor, answers] if server.is_before_7 else [cursor, answers, gone]


# What is there.


def _of_info(server: RedisModel, key: bytes) -> Stream:
    found = server.keys.collection(key, Stream)
    if found is None:
        raise RedisError("ERR no such key")
    return found


@subcommand("xinfo", "groups", 3)
def _groups(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = _of_info(server, args[2])
    return [Map(_group_fields(server, found, name)) for name in sorted(found.groups)]


def _group_fields(server: RedisModel, found: Stream, name: bytes) -> list[object]:
    group = found.groups[name]
    fields: list[object] = [
        *(b"name", name),
        *(b"consumers", len(group.consumers)),
        *(b"pending", len(group.pending)),
        *(b"last-delivered-id", id_text(group.last)),
    ]
    if not server.is_before_7:
        fields += [b"entries-read", group.read, b"lag", _lag(found, group)]
    return fields


def _lag(found: Stream, group: Group) -> int | None:
    """How many entries a group was not given yet; None: nobody knows."""
    if not found.added:
        return 0
    if group.read is not None and not _has_tombstones(found, group.last):
        return found.added - group.read
    read = _distance(found, group.last)
    return None if read is None else found.added - read


@subcommand("xinfo", "consumers", 4)
def _consumers(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = _of_info(server, args[2])
    group = found.groups.get(args[3])
    if group is None:
        shown, name = (text.decode(errors="replace") for text in (args[2], args[3]))
        raise RedisError(f"NOGROUP No such consumer group '{name}' for key name '{shown}'")
    answers: list[object] = []
    for each in sorted(group.consumers):
        consumer, now_ms = group.consumers[each], server.keys.now_ms
        own = sum(given.consumer == each for given in group.pending.values())
        fields: list[object] = [b"name", each, b"pending", own, b"idle", max(now_ms - consumer.seen_ms, 0)]
        if since(server.server, redis=(7, 2)):
            active_ms = consumer.active_ms
            fields += [b"inactive", -1 if active_ms is None else max(now_ms - active_ms, 0)]
        answers.append(Map(fields))
    return answers


@subcommand("xinfo", "stream", -3)
def _stream(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 3:
        server.miss("XINFO STREAM … FULL")
        raise RedisError(SYNTAX)
    found = _of_info(server, args[2])
    if not _is_one_pack(found) or since(server.server, redis=(8, 6), valkey=(99, 0)):
        server.miss("XINFO STREAM of a stream with more than one pack of entries")
        raise RedisError("ERR XINFO STREAM is not simulated of this stream; real servers have it")
    first, last = next(iter(found), None), next(reversed(found), None)
    fields: list[object] = [
        *(b"length", len(found)),
        *(b"radix-tree-keys", int(bool(found))),
        *(b"radix-tree-nodes", 2 if found else 1),
        *(b"last-generated-id", id_text(found.last)),
    ]
    if not server.is_before_7:
        fields += [b"max-deleted-entry-id", id_text(found.tombstone), b"entries-added", found.added]
        fields += [b"recorded-first-entry-id", id_text(first or NO_ID)]
    fields += [b"groups", len(found.groups)]
    for word, entry in ((b"first-entry", first), (b"last-entry", last)):
        fields += [word, None if entry is None else _shown(entry, found[entry])]
    return Map(fields)
