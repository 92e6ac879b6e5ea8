"""Hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.redis_model.arguments import INTEGER_MAX, INTEGER_MIN, integer
from lab.redis_model.keyspace import Hash
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import OK, Map, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


def _hset(server: RedisModel, args: list[bytes], name: str) -> int:
    if len(args) % 2:
        raise RedisError(wrong_count(name))
    found = server.keys.made(args[1], Hash)
    before = len(found)
    found.update(zip(args[2::2], args[3::2], strict=True))
    server.keys.touch(args[1])
    server.channels.notify("h", b"hset", args[1])
    return len(found) - before


@command("hset", -4, writes=True)
def _hset_counted(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _hset(server, args, "hset")


@command("hmset", -4, writes=True)
def _hmset(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    _hset(server, args, "hmset")
    return OK


@command("hsetnx", 4, writes=True)
def _hsetnx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Hash)
    return 0 if found is not None and args[2] in found else _hset(server, args, "hsetnx")


@command("hget", 3)
def _hget(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Hash)
    return None if found is None else found.get(args[2])


@command("hmget", -3)
def _hmget(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Hash) or Hash()
    return [found.get(field) for field in args[2:]]


@command("hexists", 3)
def _hexists(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return int(args[2] in (server.keys.collection(args[1], Hash) or ()))


@command("hlen", 2)
def _hlen(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(server.keys.collection(args[1], Hash) or ())


@command("hgetall", 2)
def _hgetall(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Hash) or Hash()
    return Map(part for pair in found.items() for part in pair)


@command("hkeys", 2)
def _hkeys(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return list(server.keys.collection(args[1], Hash) or ())


@command("hvals", 2)
def _hvals(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return list((server.keys.collection(args[1], Hash) or Hash()).values())


@command("hdel", -3, writes=True)
def _hdel(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], Hash)
    if found is None:
        return 0
    removed = sum(found.pop(field, None) is not None for field in args[2:])
    if removed:
        server.channels.notify("h", b"hdel", args[1])
        if server.keys.tidy(args[1], found):
            server.channels.notify("g", b"del", args[1])
    return removed


@command("hincrby", 4, writes=True)
def _hincrby(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    by = integer(args[3])
    found = server.keys.collection(args[1], Hash) or Hash()
    total = integer(found.get(args[2], b"0"), "ERR hash value is not an integer") + by
    if not INTEGER_MIN <= total <= INTEGER_MAX:
        raise RedisError("ERR increment or decrement would overflow")
    server.keys.made(args[1], Hash)[args[2]] = b"%d" % total
    server.keys.touch(args[1])
    server.channels.notify("h", b"hincrby", args[1])
    return total
