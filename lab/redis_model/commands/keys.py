"""Keys of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.keyspace import TYPE_NAMES
from lab.redis_model.patterns import matches
from lab.redis_model.registry import command, subcommand
from lab.redis_model.reply import OK, RedisError, Reply, Status

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NO_KEY = "ERR no such key"


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
    return [b"0", filtered(args[2:], list(server.keys.visible()), server)]


def _cursor(argument: bytes) -> None:
    if not argument.isdigit():
        raise RedisError("ERR invalid cursor")


def filtered(options: list[bytes], found: list[bytes], server: RedisModel) -> list[bytes]:
    """Apply MATCH, COUNT and TYPE to keys. Raises ``RedisError``."""
    if len(options) % 2:
        raise RedisError(SYNTAX)
    for word, value in zip(options[::2], options[1::2], strict=True):
        option = word.upper()
        if option == b"MATCH":
            found = [key for key in found if matches(value, key)]
        elif option == b"TYPE":
            found = [key for key in found if TYPE_NAMES[type(server.keys.data[key])] == value.lower()]
        elif option != b"COUNT" or integer(value) < 1:
            raise RedisError(SYNTAX)
    return found


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
