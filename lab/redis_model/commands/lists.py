"""Lists, as far as the lab's store, python-redis-lock and walrus need them, and waiting for an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.redis_model.arguments import integer, number
from lab.redis_model.blocking import Wait
from lab.redis_model.keyspace import List
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import NO_REPLY, NULL_ARRAY, OK, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NOT_POSITIVE = "ERR value is out of range, must be positive"


def _push(server: RedisModel, args: list[bytes], *, left: bool) -> Reply:
    key = args[1]
    found = server.keys.made(key, List)
    if left:
        found.extendleft(args[2:])
    else:
        found.extend(args[2:])
    server.keys.touch(key, len(args) - 2)
    server.blocking.signal(key)
    server.channels.notify("l", b"lpush" if left else b"rpush", key)
    return len(found)


@command("lpush", -3, writes=True)
def _lpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=True)


@command("rpush", -3, writes=True)
def _rpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=False)


def _taken(server: RedisModel, key: bytes, count: int = 1) -> list[bytes] | None:
    """Take elements from a list's head; None if there is none. Raises ``RedisError``."""
    found = server.keys.collection(key, List)
    if found is None:
        return None
    taken = [found.popleft() for _ in range(min(count, len(found)))]
    if taken:
        server.channels.notify("l", b"lpop", key)
        if server.keys.tidy(key, found, len(taken)):
            server.channels.notify("g", b"del", key)
    return taken


@command("lpop", -2, writes=True)
def _lpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """What BLPOP is for files and replicas."""
    if len(args) > 3:
        raise RedisError(wrong_count("lpop"))
    if len(args) == 2:
        taken = _taken(server, args[1])
        return taken[0] if taken else None
    count = integer(args[2], NOT_POSITIVE)
    if count < 0:
        raise RedisError(NOT_POSITIVE)
    many = _taken(server, args[1], count)
    return NULL_ARRAY if many is None else many


@command("blpop", -3, writes=True, in_scripts=False)
def _blpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    timeout_s = number(args[-1], "ERR timeout is not a float or out of range")
    if timeout_s < 0:
        raise RedisError("ERR timeout is negative")
    awaited = args[1:-1]

    def attempt(keys: Sequence[bytes]) -> Reply:
        for each in keys:
            taken = _taken(server, each)
            if taken:
                server.rewritten = [[b"LPOP", each]]
                return [each, taken[0]]
        return None

    def served(key: bytes | None) -> Reply:
        if key is None:
            return None
        try:
            reply = attempt((key,))
        except RedisError:
            return None
        if reply is not None:
            server.propagate([b"LPOP", key])
        return reply

    reply = attempt(awaited)
    if reply is not None:
        return reply
    if session.queue is not None or not session.can_block:
        return NULL_ARRAY
    deadline_ms = server.keys.now_ms + int(timeout_s * 1000) if timeout_s else None
    server.blocking.add(session, Wait(awaited, served, deadline_ms, lambda: NULL_ARRAY))
    return NO_REPLY


@command("lrange", 4)
def _lrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """What lies between two indexes, both included, counted from the end if negative."""
    start, stop = integer(args[2]), integer(args[3])
    found = server.keys.collection(args[1], List)
    return [] if found is None else _between(found, start, stop)


@command("ltrim", 4, writes=True)
def _ltrim(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Keep nothing but what LRANGE shows."""
    key, start, stop = args[1], integer(args[2]), integer(args[3])
    found = server.keys.collection(key, List)
    if found is None:
        return OK
    kept, before = _between(found, start, stop), len(found)
    found.clear()
    found.extend(kept)
    server.channels.notify("l", b"ltrim", key)
    if server.keys.tidy(key, found, before - len(kept)):
        server.channels.notify("g", b"del", key)
    return OK


def _between(found: List, start: int, stop: int) -> list[bytes]:
    size = len(found)
    first = max(start + size, 0) if start < 0 else start
    last = stop + size if stop < 0 else stop
    return list(found)[first : last + 1] if last >= first else []
