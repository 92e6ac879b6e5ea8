"""Keys of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.keyspace import TYPE_NAMES, copied
from lab.redis_model.patterns import matches
from lab.redis_model.registry import command, subcommand
from lab.redis_model.reply import OK, RedisError, Reply, Status

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NO_KEY = "ERR no such key"
T = TypeVar("T")
Pairs = list[tuple[bytes, T]]


@command("del", -2, writes=True)
@command("unlink", -2, writes=True)
def _del(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    count = 0
    for key in args[1:]:
        if server.keys.delete(key):
            count += 1
            server.channels.notify("g", b"del", key)
    return count


@command("exists", -2)
@command("touch", -2)
def _exists(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return sum(1 for key in args[1:] if server.keys.get(key) is not None)


@command("type", 2)
def _type(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    value = server.keys.get(args[1])
    return Status(b"none" if value is None else TYPE_NAMES[type(value)])


@command("keys", 2)
def _keys(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [key for key in server.keys.visible() if matches(args[1], key)]


@command("scan", -2, "MATCH COUNT TYPE")
def _scan(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Return everything in one step: what a real server may do as well."""
    _cursor(args[1])
    found, _ = _filtered(args[2:], list(server.keys.visible()), server, of_keys=True)
    return [b"0", found]


def _cursor(argument: bytes) -> None:
    if not argument.isdigit():
        raise RedisError("ERR invalid cursor")


def scanned(
    server: RedisModel, args: list[bytes], read: Callable[[], Pairs[T]], flag: bytes = b""
) -> tuple[Pairs[T], bool]:
    """What HSCAN, SSCAN or ZSCAN answers: all that fits, in one step; and whether a flag was given.

    Raises ``RedisError``.
    """
    _cursor(args[2])
    found = read()
    if server.keys.get(args[1]) is None:
        return [], False
    left, flagged = _filtered(args[3:], [name for name, _ in found], server, flag)
    names = set(left)
    return [pair for pair in found if pair[0] in names], flagged


def _filtered(
    options: list[bytes], found: list[bytes], server: RedisModel, flag: bytes = b"", *, of_keys: bool = False
) -> tuple[list[bytes], bool]:
    """Apply MATCH, COUNT and, to keys, TYPE; tell whether ``flag`` is there. Raises ``RedisError``."""
    flagged, at = False, 0
    while at < len(options):
        option, value = options[at].upper(), options[at + 1] if at + 1 < len(options) else None
        at += 1 if flag and option == flag else 2
        if flag and option == flag:
            flagged = True
        elif value is not None and option == b"MATCH":
            found = [key for key in found if matches(value, key)]
        elif value is not None and option == b"TYPE" and of_keys:
            found = [key for key in found if TYPE_NAMES[type(server.keys.data[key])] == value.lower()]
        elif value is None or option != b"COUNT" or integer(value) < 1:
            raise RedisError(SYNTAX)
    return found, flagged


@command("dbsize", 1)
def _dbsize(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Count what is there, keys whose time is over included."""
    return len(server.keys.data)


@command("randomkey", 1)
def _randomkey(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = list(server.keys.visible())
    return server.random.choice(found) if found else None


def _rename(server: RedisModel, old: bytes, new: bytes) -> None:
    keys = server.keys
    value, when_ms = keys.data[old], keys.expires.get(old)
    keys.delete(old)
    keys.put(new, value)
    keys.dirty -= 1  # a real server counts one change
    if when_ms is not None:
        keys.set_expiry(new, when_ms)
    server.channels.notify("g", b"rename_from", old)
    server.channels.notify("g", b"rename_to", new)


@command("rename", 3, writes=True)
def _rename_over(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if server.keys.get(args[1]) is None:
        raise RedisError(NO_KEY)
    if args[1] != args[2]:
        _rename(server, args[1], args[2])
    return OK


@command("renamenx", 3, writes=True)
def _renamenx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if server.keys.get(args[1]) is None:
        raise RedisError(NO_KEY)
    if server.keys.get(args[2]) is not None:
        return 0
    _rename(server, args[1], args[2])
    return 1


@command("copy", -3, "DB REPLACE", writes=True)
def _copy(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    keys, source, target, replaces, at = server.keys, args[1], args[2], False, 3
    while at < len(args):
        if args[at].upper() == b"REPLACE":
            replaces = True
        elif args[at].upper() == b"DB" and at + 1 < len(args):
            at += 1
            if integer(args[at]):
                server.miss("COPY … DB")
                raise RedisError("ERR DB index is out of range")
        else:
            raise RedisError(SYNTAX)
        at += 1
    if source == target:
        raise RedisError("ERR source and destination objects are the same")
    value = keys.get(source)
    if value is None or (keys.get(target) is not None and not replaces):
        return 0
    when_ms = keys.expires.get(source)
    keys.put(target, copied(value))
    if when_ms is not None:
        keys.set_expiry(target, when_ms)
    server.channels.notify("g", b"copy_to", target)
    return 1


def _flush(server: RedisModel, args: list[bytes]) -> Reply:
    if len(args) > 2 or (len(args) == 2 and args[1].upper() not in (b"SYNC", b"ASYNC")):
        raise RedisError(SYNTAX)
    # At least one change, so that files and replicas have it too.
    server.keys.dirty += max(server.keys.clear(), 1)
    return OK


@command("flushall", -1, "ASYNC SYNC", writes=True)
def _flushall(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    reply = _flush(server, args)
    if server.snapshots.points:
        server.snapshots.save()
    return reply


@command("flushdb", -1, "ASYNC SYNC", writes=True)
def _flushdb(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _flush(server, args)


@subcommand("object", "encoding", 3)
def _encoding(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Of strings only: "int", "embstr" or "raw"."""
    value = server.keys.get(args[2])
    if value is None:
        return None
    if not isinstance(value, bytes):
        server.miss("OBJECT ENCODING of a collection")
        raise RedisError("ERR the encoding of collections is not simulated")
    try:
        integer(value)
    except RedisError:
        return b"embstr" if len(value) <= 44 else b"raw"
    return b"int"


@subcommand("object", "refcount", 3)
def _refcount(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return None if server.keys.get(args[2]) is None else 1


@subcommand("object", "freq", 3)
def _freq(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Counted by the policies `lfu` only, which are not simulated."""
    if server.keys.get(args[2]) is None:
        return None
    raise RedisError(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when "
        "switching between policies at runtime LRU and LFU data will take some time to adjust."
    )
