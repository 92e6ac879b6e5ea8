"""Sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.keyspace import Set
from lab.redis_model.registry import command
from lab.redis_model.reply import Members, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NOT_POSITIVE: Final = "ERR value is out of range, must be positive"


def _found(server: RedisModel, key: bytes) -> Set:
    """Return a set, an empty one if there is none. Raises ``RedisError``."""
    return server.keys.collection(key, Set) or Set()


def _remove(server: RedisModel, key: bytes, found: Set, members: list[bytes], event: bytes) -> int:
    """Remove members that are there, and the set if nothing is left; return how many."""
    gone = [member for member in dict.fromkeys(members) if member in found]
    for member in gone:
        del found[member]
    if gone:
        server.channels.notify("s", event, key)
        if server.keys.tidy(key, found, len(gone)):
            server.channels.notify("g", b"del", key)
    return len(gone)


@command("sadd", -3, writes=True)
def _sadd(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.made(args[1], Set)
    before = len(found)
    found.update(dict.fromkeys(args[2:]))
    added = len(found) - before
    if added:
        server.keys.touch(args[1], added)
        server.channels.notify("s", b"sadd", args[1])
    return added


@command("srem", -3, writes=True)
def _srem(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _remove(server, args[1], _found(server, args[1]), args[2:], b"srem")


@command("smembers", 2)
def _smembers(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return Members(_found(server, args[1]))


@command("scard", 2)
def _scard(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(_found(server, args[1]))


@command("sismember", 3)
def _sismember(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return int(args[2] in _found(server, args[1]))


@command("smismember", -3)
def _smismember(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = _found(server, args[1])
    return [int(member in found) for member in args[2:]]


@command("smove", 4, writes=True)
def _smove(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    source, target = _found(server, args[1]), server.keys.collection(args[2], Set)
    if args[3] not in source:
        return 0
    if args[1] == args[2]:
        return 1
    _remove(server, args[1], source, [args[3]], b"srem")
    if target is None or args[3] not in target:
        server.keys.made(args[2], Set)[args[3]] = None
        server.keys.touch(args[2])
        server.channels.notify("s", b"sadd", args[2])
    return 1


@command("spop", -2, writes=True)
def _spop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 3:
        raise RedisError(SYNTAX)
    count = integer(args[2], NOT_POSITIVE) if len(args) == 3 else 1
    if count < 0:
        raise RedisError(NOT_POSITIVE)
    found = _found(server, args[1])
    taken = server.random.sample(list(found), min(count, len(found)))
    if taken:
        _remove(server, args[1], found, taken, b"spop")
        is_empty = args[1] not in server.keys.data and len(args) == 3
        server.rewritten = [[b"DEL", args[1]] if is_empty else [b"SREM", args[1], *taken]]
    if len(args) == 3:
        return Members(taken)
    return taken[0] if taken else None
