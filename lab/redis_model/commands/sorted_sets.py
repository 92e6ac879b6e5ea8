"""Sorted sets, as far as semaphores and fair queues use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.redis_model.arguments import SYNTAX, integer, number, shown
from lab.redis_model.keyspace import SortedSet
from lab.redis_model.registry import command
from lab.redis_model.reply import Double, Pairs, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NO_RANGE = "ERR min or max is not a float"
_FLAGS = frozenset({b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"})


def _flags(args: list[bytes]) -> tuple[set[bytes], list[bytes]]:
    """Read the flags of ZADD; return them and what follows. Raises ``RedisError``."""
    at, flags = 2, set[bytes]()
    while at < len(args) and args[at].upper() in _FLAGS:
        flags.add(args[at].upper())
        at += 1
    rest = args[at:]
    if not rest or len(rest) % 2:
        raise RedisError(SYNTAX)
    if {b"NX", b"XX"} <= flags:
        raise RedisError("ERR XX and NX options at the same time are not compatible")
    if {b"GT", b"LT"} <= flags or (b"NX" in flags and flags & {b"GT", b"LT"}):
        raise RedisError("ERR GT, LT, and/or NX options at the same time are not compatible")
    if b"INCR" in flags and len(rest) > 2:
        raise RedisError("ERR INCR option supports a single increment-element pair")
    return flags, rest


@command("zadd", -4, writes=True)
def _zadd(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    flags, rest = _flags(args)
    scores = [number(score) for score in rest[::2]]
    key = args[1]
    found = server.keys.collection(key, SortedSet)
    if found is None:
        if b"XX" in flags:
            return None if b"INCR" in flags else 0
        found = server.keys.made(key, SortedSet)
    added = changed = 0
    result: float | None = None
    for given, member in zip(scores, rest[1::2], strict=True):
        old = found.get(member)
        if (b"NX" in flags and old is not None) or (b"XX" in flags and old is None):
            continue
        score = given if old is None or b"INCR" not in flags else old + given
        if score != score:
            raise RedisError("ERR resulting score is not a number (NaN)")
        if old is not None and ((b"GT" in flags and score <= old) or (b"LT" in flags and score >= old)):
            continue
        added += old is None
        changed += old is not None and old != score
        found[member] = result = score
    if added or changed:
        server.keys.touch(key)
        server.channels.notify("z", b"zincr" if b"INCR" in flags else b"zadd", key)
    elif not found:
        del server.keys.data[key]
    if b"INCR" in flags:
        return None if result is None else Double(shown(result))
    return added + changed if b"CH" in flags else added


@command("zincrby", 4, writes=True)
def _zincrby(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _zadd(server, session, [b"ZADD", args[1], b"INCR", args[2], args[3]])


def _tidy(server: RedisModel, key: bytes, found: SortedSet, event: bytes) -> None:
    server.channels.notify("z", event, key)
    if server.keys.tidy(key, found):
        server.channels.notify("g", b"del", key)


@command("zrem", -3, writes=True)
def _zrem(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], SortedSet)
    if found is None:
        return 0
    removed = sum(found.pop(member, None) is not None for member in args[2:])
    if removed:
        _tidy(server, args[1], found, b"zrem")
    return removed


@command("zcard", 2)
def _zcard(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(server.keys.collection(args[1], SortedSet) or ())


@command("zscore", 3)
def _zscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    score = (server.keys.collection(args[1], SortedSet) or SortedSet()).get(args[2])
    return None if score is None else Double(shown(score))


def _rank(server: RedisModel, args: list[bytes], *, reverse: bool) -> Reply:
    found = server.keys.collection(args[1], SortedSet)
    if found is None or args[2] not in found:
        return None
    rank = [member for _, member in found.ranked()].index(args[2])
    return len(found) - 1 - rank if reverse else rank


@command("zrank", 3)
def _zrank(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _rank(server, args, reverse=False)


@command("zrevrank", 3)
def _zrevrank(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _rank(server, args, reverse=True)


def _bound(argument: bytes) -> tuple[float, bool]:
    """Read a bound of scores; return it and whether it is itself outside. Raises ``RedisError``."""
    outside = argument.startswith(b"(")
    return number(argument[1:] if outside else argument, NO_RANGE), outside


def _between(low: bytes, high: bytes) -> Callable[[float], bool]:
    """Return a test for scores between two bounds. Raises ``RedisError``."""
    (least, above), (most, below) = _bound(low), _bound(high)
    return lambda score: (
        (score > least if above else score >= least) and (score < most if below else score <= most)
    )


@command("zcount", 4)
def _zcount(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    fits = _between(args[2], args[3])
    return sum(map(fits, (server.keys.collection(args[1], SortedSet) or SortedSet()).values()))


@command("zremrangebyscore", 4, writes=True)
def _zremrangebyscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    fits = _between(args[2], args[3])
    found = server.keys.collection(args[1], SortedSet)
    return _removed(server, args[1], found, [m for m, s in (found or {}).items() if fits(s)], b"zrembyscore")


@command("zremrangebyrank", 4, writes=True)
def _zremrangebyrank(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    start, stop = integer(args[2]), integer(args[3])
    found = server.keys.collection(args[1], SortedSet)
    ranked = _window((found or SortedSet()).ranked(), start, stop)
    return _removed(server, args[1], found, [member for _, member in ranked], b"zrembyrank")


def _removed(
    server: RedisModel, key: bytes, found: SortedSet | None, members: list[bytes], event: bytes
) -> int:
    if found is None or not members:
        return 0
    for member in members:
        del found[member]
    _tidy(server, key, found, event)
    return len(members)


def _window(ranked: list[tuple[float, bytes]], start: int, stop: int) -> list[tuple[float, bytes]]:
    size = len(ranked)
    first = max(start + size, 0) if start < 0 else start
    last = stop + size if stop < 0 else stop
    return ranked[first : last + 1] if last >= first else []


def _listed(ranked: list[tuple[float, bytes]], with_scores: bool) -> Reply:
    if not with_scores:
        return [member for _, member in ranked]
    return Pairs(part for score, member in ranked for part in (member, Double(shown(score))))


@command("zrange", -4)
def _zrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """By rank, with REV and WITHSCORES; BYSCORE and BYLEX are not simulated."""
    options = {word.upper() for word in args[4:]}
    if not options <= {b"WITHSCORES", b"REV"}:
        raise RedisError(SYNTAX)
    return _ranks(server, args, reverse=b"REV" in options, with_scores=b"WITHSCORES" in options)


@command("zrevrange", -4)
def _zrevrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    options = {word.upper() for word in args[4:]}
    if not options <= {b"WITHSCORES"}:
        raise RedisError(SYNTAX)
    return _ranks(server, args, reverse=True, with_scores=bool(options))


def _ranks(server: RedisModel, args: list[bytes], *, reverse: bool, with_scores: bool) -> Reply:
    start, stop = integer(args[2]), integer(args[3])
    ranked = (server.keys.collection(args[1], SortedSet) or SortedSet()).ranked()
    return _listed(_window(ranked[::-1] if reverse else ranked, start, stop), with_scores)


@command("zrangebyscore", -4)
def _zrangebyscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    fits = _between(args[2], args[3])
    at, with_scores, skip, most = 4, False, 0, -1
    while at < len(args):
        word = args[at].upper()
        if word == b"WITHSCORES":
            with_scores = True
            at += 1
        elif word == b"LIMIT" and at + 2 < len(args):
            skip, most = integer(args[at + 1]), integer(args[at + 2])
            at += 3
        else:
            raise RedisError(SYNTAX)
    found = server.keys.collection(args[1], SortedSet) or SortedSet()
    ranked = [pair for pair in found.ranked() if fits(pair[0])][skip:] if skip >= 0 else []
    return _listed(ranked if most < 0 else ranked[:most], with_scores)


@command("zpopmin", -2, writes=True)
def _zpopmin(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _zpop(server, args, reverse=False)


@command("zpopmax", -2, writes=True)
def _zpopmax(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _zpop(server, args, reverse=True)


def _zpop(server: RedisModel, args: list[bytes], *, reverse: bool) -> Reply:
    if len(args) > 3:
        raise RedisError(SYNTAX)
    count = integer(args[2], "ERR value is out of range, must be positive") if len(args) == 3 else 1
    if count < 0:
        raise RedisError("ERR value is out of range, must be positive")
    found = server.keys.collection(args[1], SortedSet)
    ranked = (found or SortedSet()).ranked()
    taken = (ranked[::-1] if reverse else ranked)[:count]
    _removed(server, args[1], found, [member for _, member in taken], b"zpopmax" if reverse else b"zpopmin")
    answer = _listed(taken, with_scores=True)
    return list(answer) if len(args) == 2 and isinstance(answer, list) else answer
