"""Lists, and waiting for their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.redis_model.arguments import SYNTAX, integer, number
from lab.redis_model.blocking import Wait
from lab.redis_model.keyspace import List
from lab.redis_model.registry import command
from lab.redis_model.reply import NO_REPLY, NULL_ARRAY, OK, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


def _push(server: RedisModel, args: list[bytes], *, left: bool, must_be: bool = False) -> Reply:
    key = args[1]
    if must_be and server.keys.collection(key, List) is None:
        return 0
    found = server.keys.made(key, List)
    for value in args[2:]:
        if left:
            found.appendleft(value)
        else:
            found.append(value)
    server.keys.touch(key)
    server.blocking.signal(key)
    server.channels.notify("l", b"lpush" if left else b"rpush", key)
    return len(found)


@command("lpush", -3, writes=True)
def _lpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=True)


@command("rpush", -3, writes=True)
def _rpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=False)


@command("lpushx", -3, writes=True)
def _lpushx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=True, must_be=True)


@command("rpushx", -3, writes=True)
def _rpushx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=False, must_be=True)


def _taken(server: RedisModel, key: bytes, *, left: bool, count: int = 1) -> list[bytes] | None:
    """Take elements from a list; None if there is none. Raises ``RedisError``."""
    found = server.keys.collection(key, List)
    if found is None:
        return None
    taken = [found.popleft() if left else found.pop() for _ in range(min(count, len(found)))]
    if taken:
        server.channels.notify("l", b"lpop" if left else b"rpop", key)
        if server.keys.tidy(key, found):
            server.channels.notify("g", b"del", key)
    return taken


def _pop(server: RedisModel, args: list[bytes], *, left: bool) -> Reply:
    name = "lpop" if left else "rpop"
    if len(args) > 3:
        raise RedisError(f"ERR wrong number of arguments for '{name}' command")
    if len(args) == 2:
        taken = _taken(server, args[1], left=left)
        return taken[0] if taken else None
    count = integer(args[2], "ERR value is out of range, must be positive")
    if count < 0:
        raise RedisError("ERR value is out of range, must be positive")
    many = _taken(server, args[1], left=left, count=count)
    return NULL_ARRAY if many is None else many


@command("lpop", -2, writes=True)
def _lpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop(server, args, left=True)


@command("rpop", -2, writes=True)
def _rpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop(server, args, left=False)


def _blocking_pop(server: RedisModel, session: Session, args: list[bytes], *, left: bool) -> Reply:
    timeout_s = number(args[-1], "ERR timeout is not a float or out of range")
    if timeout_s < 0:
        raise RedisError("ERR timeout is negative")
    name = b"LPOP" if left else b"RPOP"

    def attempt(key: bytes | None) -> Reply:
        keys: Sequence[bytes] = args[1:-1] if key is None else (key,)
        for each in keys:
            taken = _taken(server, each, left=left)
            if taken:
                server.rewritten = [[name, each]]
                return [each, taken[0]]
        return None

    def served(key: bytes | None) -> Reply:
        dirty = server.keys.dirty
        try:
            reply = attempt(key)
        except RedisError:
            return None
        if server.keys.dirty != dirty and key is not None:
            server.propagate([name, key])
        return reply

    reply = attempt(None)
    if reply is None:
        return wait_or(server, session, args[1:-1], served, timeout_s)
    return reply


def wait_or(
    server: RedisModel, session: Session, keys: Sequence[bytes], served: object, timeout_s: float
) -> Reply:
    """Let the connection wait; where nobody can wait, the answer is that nothing came."""
    if session.queue is not None or not session.can_block:
        return NULL_ARRAY
    deadline_ms = server.keys.now_ms + int(timeout_s * 1000) if timeout_s else None
    server.blocking.add(session, Wait(keys, served, deadline_ms, lambda: NULL_ARRAY))  # type: ignore[arg-type]
    return NO_REPLY


@command("blpop", -3, writes=True, in_scripts=False)
def _blpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_pop(server, session, args, left=True)


@command("brpop", -3, writes=True, in_scripts=False)
def _brpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_pop(server, session, args, left=False)


@command("llen", 2)
def _llen(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(server.keys.collection(args[1], List) or ())


def _slice(found: Sequence[bytes] | List, start: int, stop: int) -> list[bytes]:
    """Return what lies between two indexes, both included, counted from the end if negative."""
    size = len(found)
    first = max(start + size, 0) if start < 0 else start
    last = stop + size if stop < 0 else stop
    return list(found)[first : last + 1] if last >= first else []


@command("lrange", 4)
def _lrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    start, stop = integer(args[2]), integer(args[3])
    found = server.keys.collection(args[1], List)
    return [] if found is None else _slice(found, start, stop)


@command("lindex", 3)
def _lindex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], List)
    if found is None:
        return None
    index = integer(args[2])
    return found[index] if -len(found) <= index < len(found) else None


@command("lset", 4, writes=True)
def _lset(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], List)
    if found is None:
        raise RedisError("ERR no such key")
    index = integer(args[2])
    if not -len(found) <= index < len(found):
        raise RedisError("ERR index out of range")
    found[index] = args[3]
    server.keys.touch(args[1])
    server.channels.notify("l", b"lset", args[1])
    return OK


@command("lrem", 4, writes=True)
def _lrem(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    count = integer(args[2])
    found = server.keys.collection(args[1], List)
    if found is None:
        return 0
    left = abs(count) or len(found)
    kept: list[bytes] = []
    for value in list(found) if count >= 0 else reversed(list(found)):
        if value == args[3] and left:
            left -= 1
        else:
            kept.append(value)
    removed = len(found) - len(kept)
    if removed:
        found.clear()
        found.extend(kept if count >= 0 else reversed(kept))
        server.channels.notify("l", b"lrem", args[1])
        if server.keys.tidy(args[1], found):
            server.channels.notify("g", b"del", args[1])
    return removed


@command("ltrim", 4, writes=True)
def _ltrim(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    start, stop = integer(args[2]), integer(args[3])
    found = server.keys.collection(args[1], List)
    if found is None:
        return OK
    kept = _slice(found, start, stop)
    found.clear()
    found.extend(kept)
    server.channels.notify("l", b"ltrim", args[1])
    if server.keys.tidy(args[1], found):
        server.channels.notify("g", b"del", args[1])
    return OK


_ENDS = {b"LEFT": True, b"RIGHT": False}


def _moved(server: RedisModel, source: bytes, target: bytes, from_left: bool, to_left: bool) -> Reply:
    if server.keys.collection(source, List) is None:
        return None
    server.keys.collection(target, List)
    taken = _taken(server, source, left=from_left)
    if not taken:
        return None
    _push(server, [b"", target, taken[0]], left=to_left)
    return taken[0]


@command("rpoplpush", 3, writes=True)
def _rpoplpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _moved(server, args[1], args[2], from_left=False, to_left=True)


@command("lmove", 5, writes=True)
def _lmove(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    source, target = args[3].upper(), args[4].upper()
    if source not in _ENDS or target not in _ENDS:
        raise RedisError(SYNTAX)
    return _moved(server, args[1], args[2], _ENDS[source], _ENDS[target])
