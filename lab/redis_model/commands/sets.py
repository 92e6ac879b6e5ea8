"""Sets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.commands.keys import scanned
from lab.redis_model.keyspace import Set
from lab.redis_model.registry import command
from lab.redis_model.reply import Members, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NOT_POSITIVE: Final = "ERR value is out of range, must be positive"
_DRAWN_MAX: Final = 2**62
T = TypeVar("T")


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


def drawn(
    server: RedisModel, args: list[bytes], read: Callable[[], Sequence[T]], word: bytes
) -> tuple[Sequence[T], bool]:
    """Draw one of a collection, or as many as ``count`` says, the same ones again if that is negative.

    Also returns whether ``word`` asks for more than names. Raises ``RedisError``.
    """
    count = integer(args[2]) if len(args) > 2 else 1
    if len(args) > 4 or (len(args) == 4 and args[3].upper() != word):
        raise RedisError(SYNTAX)
    if len(args) == 4 and not -_DRAWN_MAX <= count <= _DRAWN_MAX:
        raise RedisError("ERR value is out of range")
    found = read()
    if not found:
        return [], len(args) == 4
    if count < 0:
        return [server.random.choice(found) for _ in range(-count)], len(args) == 4
    return server.random.sample(found, min(count, len(found))), len(args) == 4


@command("srandmember", -2)
def _srandmember(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 3:
        raise RedisError(SYNTAX)
    chosen, _ = drawn(server, args, lambda: list(_found(server, args[1])), b"")
    if len(args) == 2:
        return chosen[0] if chosen else None
    return list(chosen)


@command("sscan", -3, "MATCH COUNT")
def _sscan(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found, _ = scanned(server, args, lambda: [(member, None) for member in _found(server, args[1])])
    return [b"0", [member for member, _ in found]]


def _combined(server: RedisModel, keys: list[bytes], how: str) -> Set:
    """The members of sets that are in all, in any, or in the first only. Raises ``RedisError``."""
    first, *others = [_found(server, key) for key in keys]
    if how == "union":
        return Set({member: None for source in (first, *others) for member in source})
    test = all if how == "inter" else _none
    return Set({member: None for member in first if test(member in other for other in others)})


def _none(tests: Iterable[bool]) -> bool:
    return not any(tests)


def _combine(server: RedisModel, session: Session, args: list[bytes], *, how: str) -> Reply:
    return Members(_combined(server, args[1:], how))


def _combine_into(server: RedisModel, session: Session, args: list[bytes], *, how: str) -> Reply:
    made, key = _combined(server, args[2:], how), args[1]
    if made:
        server.keys.put(key, made)
        server.channels.notify("s", f"s{how}store".encode(), key)
    elif server.keys.delete(key):
        server.channels.notify("g", b"del", key)
    return len(made)


for _how in ("inter", "union", "diff"):
    command(f"s{_how}", -2)(functools.partial(_combine, how=_how))
    command(f"s{_how}store", -3, writes=True)(functools.partial(_combine_into, how=_how))


def limit_in(words: list[bytes]) -> int:
    """Read ``[LIMIT n]``, 0 without one. Raises ``RedisError``."""
    limit = 0
    for at in range(0, len(words), 2):
        if words[at].upper() != b"LIMIT" or at + 1 == len(words):
            raise RedisError(SYNTAX)
        limit = integer(words[at + 1], "ERR LIMIT can't be negative")
        if limit < 0:
            raise RedisError("ERR LIMIT can't be negative")
    return limit


@command("sintercard", -3, "LIMIT")
def _sintercard(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    few = "ERR numkeys should be greater than 0"
    count = integer(args[1], few)
    if count < 1:
        raise RedisError(few)
    if count > len(args) - 2:
        raise RedisError("ERR Number of keys can't be greater than number of args")
    limit = limit_in(args[2 + count :])
    common = len(_combined(server, args[2 : 2 + count], "inter"))
    return min(common, limit) if limit else common
