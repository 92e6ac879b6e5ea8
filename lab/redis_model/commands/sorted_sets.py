"""Sorted sets: members in the order of their scores, and of their bytes where scores are equal."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lab.redis_model.arguments import NOT_AN_INTEGER, SYNTAX, integer, number
from lab.redis_model.blocking import await_keys, seconds_as_ms
from lab.redis_model.commands.keys import scanned
from lab.redis_model.commands.lists import of_several
from lab.redis_model.commands.sets import drawn, limit_in
from lab.redis_model.keyspace import WRONG_TYPE, Set, SortedSet
from lab.redis_model.numbers import score_text, writes_short_floats
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import NULL_ARRAY, RedisError, Reply, Score

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NOT_A_RANGE: Final = "ERR min or max is not a float"
NOT_A_LEXICAL_RANGE: Final = "ERR min or max not valid string range item"
NOT_POSITIVE: Final = "ERR value is out of range, must be positive"
_ADDING: Final = frozenset((b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"))
Pairs = list[tuple[bytes, float]]


def _found(server: RedisModel, key: bytes) -> SortedSet:
    """Return a sorted set, an empty one if there is none. Raises ``RedisError``."""
    return server.keys.collection(key, SortedSet) or SortedSet()


def _ordered(found: SortedSet) -> Pairs:
    return sorted(found.items(), key=lambda pair: (pair[1], pair[0]))


def _score(server: RedisModel, value: float) -> Score:
    return Score(score_text(server.server, value))


def _shown(server: RedisModel, session: Session, pairs: Pairs, *, with_scores: bool) -> Reply:
    """Members, with their scores if that is wanted: in pairs in RESP3."""
    if not with_scores:
        return [member for member, _ in pairs]
    if session.resp3:
        return [[member, _score(server, score)] for member, score in pairs]
    return [part for member, score in pairs for part in (member, _score(server, score))]


def _remove(server: RedisModel, key: bytes, found: SortedSet, members: Iterable[bytes], event: bytes) -> int:
    """Remove members that are there, and the set if nothing is left; return how many."""
    gone = [member for member in members if found.pop(member, None) is not None]
    if gone:
        server.channels.notify("z", event, key)
        if server.keys.tidy(key, found, len(gone)):
            server.channels.notify("g", b"del", key)
    return len(gone)


def _added(found: SortedSet, member: bytes, score: float, wanted: set[bytes]) -> tuple[str, float]:
    """Add one member or change its score: what came of it, and its score. Raises ``RedisError``."""
    if member not in found:
        if b"XX" in wanted:
            return "", score
        found[member] = score
        return "added", score
    before = found[member]
    if b"NX" in wanted:
        return "", before
    if b"INCR" in wanted:
        score += before
        if math.isnan(score):
            raise RedisError("ERR resulting score is not a number (NaN)")
    if (b"LT" in wanted and score >= before) or (b"GT" in wanted and score <= before):
        return "", before
    found[member] = score
    return ("changed" if score != before else "same"), score


def _add(server: RedisModel, key: bytes, pairs: list[bytes], wanted: set[bytes]) -> Reply:
    scores = [number(each) for each in pairs[::2]]
    found = server.keys.collection(key, SortedSet)
    if found is None:
        if b"XX" in wanted:
            return None if b"INCR" in wanted else 0
        found = server.keys.made(key, SortedSet)
    came = [_added(found, member, score, wanted) for member, score in zip(pairs[1::2], scores, strict=True)]
    added = sum(what == "added" for what, _ in came)
    changed = sum(what == "changed" for what, _ in came)
    if added or changed:
        server.keys.touch(key, added + changed)
        server.channels.notify("z", b"zincr" if b"INCR" in wanted else b"zadd", key)
    if b"INCR" in wanted:
        return _score(server, came[0][1]) if came[0][0] else None
    return added + changed if b"CH" in wanted else added


@command("zadd", -4, "NX XX GT LT CH INCR", writes=True)
def _zadd(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    at, wanted = 2, set[bytes]()
    while at < len(args) and args[at].upper() in _ADDING:
        wanted.add(args[at].upper())
        at += 1
    pairs = args[at:]
    if len(pairs) % 2 or not pairs:
        raise RedisError(SYNTAX)
    if {b"NX", b"XX"} <= wanted:
        raise RedisError("ERR XX and NX options at the same time are not compatible")
    if len(wanted & {b"NX", b"GT", b"LT"}) > 1:
        raise RedisError("ERR GT, LT, and/or NX options at the same time are not compatible")
    if b"INCR" in wanted and len(pairs) > 2:
        raise RedisError("ERR INCR option supports a single increment-element pair")
    return _add(server, args[1], pairs, wanted)


@command("zincrby", 4, writes=True)
def _zincrby(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _add(server, args[1], args[2:], {b"INCR"})


@command("zscore", 3)
def _zscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    score = _found(server, args[1]).get(args[2])
    return None if score is None else _score(server, score)


@command("zmscore", -3)
def _zmscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = _found(server, args[1])
    return [None if member not in found else _score(server, found[member]) for member in args[2:]]


@command("zcard", 2)
def _zcard(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(_found(server, args[1]))


@command("zrem", -3, writes=True)
def _zrem(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = _found(server, args[1])
    return _remove(server, args[1], found, args[2:], b"zrem")


def _bounds(least: bytes, most: bytes) -> Callable[[float], bool]:
    """Read ``min max``, each a score or one that is excluded: ``(5``. Raises ``RedisError``."""

    def read(bound: bytes) -> tuple[float, bool]:
        excluded = bound.startswith(b"(")
        return number(bound[1:] if excluded else bound, NOT_A_RANGE), excluded

    (low, above), (high, below) = read(least), read(most)
    return lambda score: (
        (low < score or (low == score and not above)) and (score < high or (score == high and not below))
    )


def _lexical_bounds(least: bytes, most: bytes) -> Callable[[bytes], bool]:
    """Read ``min max``, each ``[name``, ``(name``, ``-`` or ``+``. Raises ``RedisError``."""
    if not all(bound in (b"-", b"+") or bound[:1] in (b"[", b"(") for bound in (least, most)):
        raise RedisError(NOT_A_LEXICAL_RANGE)

    def lies(member: bytes) -> bool:
        if least == b"+" or most == b"-":
            return False
        above = least == b"-" or member > least[1:] or (member == least[1:] and least[:1] == b"[")
        return above and (most == b"+" or member < most[1:] or (member == most[1:] and most[:1] == b"["))

    return lies


def _between(pairs: Pairs, start: int, stop: int) -> Pairs:
    """What lies between two ranks, both included, counted from the end if negative."""
    first = max(start + len(pairs), 0) if start < 0 else start
    last = stop + len(pairs) if stop < 0 else stop
    return pairs[first : last + 1] if last >= first else []


def _selected(
    server: RedisModel,
    args: list[bytes],
    *,
    by: bytes | None = None,
    reverse: bool | None = None,
    stores: bool = False,
) -> tuple[Pairs, bool]:
    """Read ``key first last`` and options: what they select, and whether scores are wanted.

    ``by`` (RANK, BYSCORE, BYLEX) and ``reverse`` are said by the command; None: by options.
    Raises ``RedisError``.
    """
    with_scores, limit, at = False, None, 4
    said_by, said_reverse = by or b"RANK", bool(reverse)
    while at < len(args):
        word = args[at].upper()
        if word == b"WITHSCORES" and not stores:
            with_scores = True
        elif word == b"LIMIT" and at + 2 < len(args):
            limit = integer(args[at + 1]), integer(args[at + 2])
            at += 2
        elif word == b"REV" and reverse is None:
            said_reverse = True
        elif word in (b"BYSCORE", b"BYLEX") and by is None:
            said_by = word
        else:
            raise RedisError(SYNTAX)
        at += 1
    if limit is not None and limit[1] != -1 and said_by == b"RANK":
        raise RedisError(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
        )
    if with_scores and said_by == b"BYLEX":
        raise RedisError("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
    if said_by == b"RANK":
        start, stop = integer(args[2]), integer(args[3])
        pairs = _ordered(_found(server, args[1]))
        return _between(pairs[::-1] if said_reverse else pairs, start, stop), with_scores
    bounds = args[3:1:-1] if said_reverse else args[2:4]
    if said_by == b"BYSCORE":
        in_scores = _bounds(*bounds)
        chosen = [pair for pair in _ordered(_found(server, args[1])) if in_scores(pair[1])]
    else:
        in_names = _lexical_bounds(*bounds)
        chosen = [pair for pair in _ordered(_found(server, args[1])) if in_names(pair[0])]
    if said_reverse:
        chosen.reverse()
    if limit is not None:
        skipped, count = limit
        chosen = [] if skipped < 0 else chosen[skipped:] if count < 0 else chosen[skipped : skipped + count]
    return chosen, with_scores


def _range(server: RedisModel, session: Session, args: list[bytes], **said: Any) -> Reply:
    chosen, with_scores = _selected(server, args, **said)
    return _shown(server, session, chosen, with_scores=with_scores)


@command("zrange", -4, "BYSCORE BYLEX REV LIMIT WITHSCORES")
def _zrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _range(server, session, args)


@command("zrevrange", -4, "WITHSCORES")
def _zrevrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _range(server, session, args, by=b"RANK", reverse=True)


@command("zrangebyscore", -4, "LIMIT WITHSCORES")
def _zrangebyscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _range(server, session, args, by=b"BYSCORE", reverse=False)


@command("zrevrangebyscore", -4, "LIMIT WITHSCORES")
def _zrevrangebyscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _range(server, session, args, by=b"BYSCORE", reverse=True)


@command("zrangebylex", -4, "LIMIT")
def _zrangebylex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _range(server, session, args, by=b"BYLEX", reverse=False)


@command("zrevrangebylex", -4, "LIMIT")
def _zrevrangebylex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _range(server, session, args, by=b"BYLEX", reverse=True)


@command("zrangestore", -5, "BYSCORE BYLEX REV LIMIT", writes=True)
def _zrangestore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    chosen, _ = _selected(server, args[1:], stores=True)
    return _store(server, args[1], SortedSet(chosen), b"zrangestore")


def _store(server: RedisModel, key: bytes, made: SortedSet, event: bytes) -> int:
    """Put a sorted set under a key, or nothing if it is empty; return how many members it has."""
    if made:
        server.keys.put(key, made)
        server.channels.notify("z", event, key)
    elif server.keys.delete(key):
        server.channels.notify("g", b"del", key)
    return len(made)


@command("zlexcount", 4)
def _zlexcount(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    lies = _lexical_bounds(args[2], args[3])
    return sum(map(lies, _found(server, args[1])))


@command("zremrangebylex", 4, writes=True)
def _zremrangebylex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    lies = _lexical_bounds(args[2], args[3])
    found = _found(server, args[1])
    return _remove(server, args[1], found, [member for member in found if lies(member)], b"zremrangebylex")


@command("zscan", -3, "MATCH COUNT")
def _zscan(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    chosen, _ = scanned(server, args, lambda: _ordered(_found(server, args[1])))
    return [b"0", [bytes(part) for member, score in chosen for part in (member, _score(server, score))]]


@command("zcount", 4)
def _zcount(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    lies = _bounds(args[2], args[3])
    return sum(map(lies, _found(server, args[1]).values()))


@command("zremrangebyscore", 4, writes=True)
def _zremrangebyscore(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    lies = _bounds(args[2], args[3])
    found = _found(server, args[1])
    gone = [member for member, score in found.items() if lies(score)]
    return _remove(server, args[1], found, gone, b"zremrangebyscore")


@command("zremrangebyrank", 4, writes=True)
def _zremrangebyrank(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    start, stop = integer(args[2]), integer(args[3])
    found = _found(server, args[1])
    gone = [member for member, _ in _between(_ordered(found), start, stop)]
    return _remove(server, args[1], found, gone, b"zremrangebyrank")


def _rank(server: RedisModel, args: list[bytes], name: str, *, reverse: bool) -> Reply:
    if len(args) > 4 or (len(args) == 4 and not writes_short_floats(server.server)):  # both since 7.2
        raise RedisError(wrong_count(name))
    with_score = len(args) == 4
    if with_score and args[3].upper() != b"WITHSCORE":
        raise RedisError(SYNTAX)
    found = _found(server, args[1])
    if args[2] not in found:
        return NULL_ARRAY if with_score else None
    members = [member for member, _ in _ordered(found)]
    rank = members[::-1].index(args[2]) if reverse else members.index(args[2])
    return [rank, _score(server, found[args[2]])] if with_score else rank


@command("zrank", -3, "WITHSCORE")
def _zrank(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _rank(server, args, "zrank", reverse=False)


@command("zrevrank", -3, "WITHSCORE")
def _zrevrank(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _rank(server, args, "zrevrank", reverse=True)


def _taken(server: RedisModel, key: bytes, count: int, *, least: bool) -> Pairs:
    """Take members from one end. Raises ``RedisError``."""
    found = _found(server, key)
    chosen = _ordered(found)[:: 1 if least else -1][:count]
    _remove(server, key, found, [member for member, _ in chosen], b"zpopmin" if least else b"zpopmax")
    return chosen


def _pop(server: RedisModel, session: Session, args: list[bytes], *, least: bool) -> Reply:
    if len(args) > 3:
        raise RedisError(SYNTAX)
    complaint = NOT_AN_INTEGER if server.is_before_7 else NOT_POSITIVE
    count = integer(args[2], complaint) if len(args) == 3 else 1
    if count < 0 and not server.is_before_7:
        raise RedisError(NOT_POSITIVE)
    chosen = _taken(server, args[1], max(count, 0), least=least)
    reply = _shown(server, session, chosen, with_scores=True)
    if session.resp3 and len(args) == 2 and chosen:
        return reply[0]  # type: ignore[index]
    return reply


@command("zpopmin", -2, writes=True)
def _zpopmin(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop(server, session, args, least=True)


@command("zpopmax", -2, writes=True)
def _zpopmax(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop(server, session, args, least=False)


def _blocking_pop(server: RedisModel, session: Session, args: list[bytes], *, least: bool) -> Reply:
    def attempt(keys: Sequence[bytes]) -> Reply:
        for key in keys:
            for member, score in _taken(server, key, 1, least=least):
                server.rewritten = [[b"ZPOPMIN" if least else b"ZPOPMAX", key]]
                return [key, member, _score(server, score)]
        return None

    return await_keys(server, session, args[1:-1], SortedSet, seconds_as_ms(args[-1]), attempt)


@command("bzpopmin", -3, writes=True, in_scripts=False)
def _bzpopmin(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_pop(server, session, args, least=True)


@command("bzpopmax", -3, writes=True, in_scripts=False)
def _bzpopmax(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_pop(server, session, args, least=False)


def _pop_of_several(
    server: RedisModel, session: Session, args: list[bytes], timeout_ms: int | None = None
) -> Reply:
    """Take from the first sorted set that is there; wait for one if there is a time-out."""
    keys, end, limit = of_several(args, (b"MIN", b"MAX"))

    def attempt(among: Sequence[bytes]) -> Reply:
        for key in among:
            taken = _taken(server, key, limit, least=end == b"MIN")
            if taken:
                server.rewritten = [[b"ZPOP" + end, key, b"%d" % len(taken)]]
                return [key, [[member, _score(server, score)] for member, score in taken]]
        return None

    if timeout_ms is None:
        reply = attempt(keys)
        return NULL_ARRAY if reply is None else reply
    return await_keys(server, session, keys, SortedSet, timeout_ms, attempt)


@command("zmpop", -4, "MIN MAX COUNT", writes=True)
def _zmpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop_of_several(server, session, args[1:])


@command("bzmpop", -5, "MIN MAX COUNT", writes=True, in_scripts=False)
def _bzmpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop_of_several(server, session, args[2:], seconds_as_ms(args[1]))


_TOGETHER: Final[dict[bytes, Callable[[float, float], float]]] = {
    b"SUM": lambda one, other: 0.0 if math.isnan(one + other) else one + other,
    b"MIN": min,
    b"MAX": max,
}


def _sources(server: RedisModel, count: bytes, keys: list[bytes], name: str) -> list[dict[bytes, float]]:
    """The sorted sets that are combined, sets as well: their members count 1. Raises ``RedisError``."""
    wanted = integer(count)
    if wanted < 1:
        raise RedisError(f"ERR at least 1 input key is needed for {server.named(name)}")
    if wanted > len(keys):
        raise RedisError(SYNTAX)
    sources: list[dict[bytes, float]] = []
    for key in keys[:wanted]:
        value = server.keys.get(key)
        if value is not None and not isinstance(value, Set | SortedSet):
            raise RedisError(WRONG_TYPE)
        sources.append(dict(value) if isinstance(value, SortedSet) else dict.fromkeys(value or (), 1.0))
    return sources


def _combined(
    server: RedisModel, args: list[bytes], name: str, how: str, *, stores: bool
) -> tuple[SortedSet, bool]:
    """Combine what ``count key … options`` says, and whether scores are wanted. Raises ``RedisError``."""
    sources = _sources(server, args[0], args[1:], name)
    count, with_scores = len(sources), False
    weights, together, at = [1.0] * count, _TOGETHER[b"SUM"], 1 + count
    while at < len(args):
        word, left = args[at].upper(), len(args) - at - 1
        if word == b"WEIGHTS" and left >= count and how != "diff":
            given = args[at + 1 : at + 1 + count]
            weights = [number(each, "ERR weight value is not a float") for each in given]
            at += 1 + count
        elif word == b"AGGREGATE" and left >= 1 and args[at + 1].upper() in _TOGETHER and how != "diff":
            together = _TOGETHER[args[at + 1].upper()]
            at += 2
        elif word == b"WITHSCORES" and not stores:
            with_scores = True
            at += 1
        else:
            raise RedisError(SYNTAX)
    made = SortedSet()
    if how == "diff":
        others = sources[1:]
        kept = (pair for pair in sources[0].items() if not any(pair[0] in other for other in others))
        return SortedSet(kept), with_scores
    for source, weight in zip(sources, weights, strict=True):
        for member, score in source.items():
            if how == "inter" and not all(member in other for other in sources):
                continue
            weighted = 0.0 if math.isnan(weight * score) else weight * score
            made[member] = together(made[member], weighted) if member in made else weighted
    return made, with_scores


def _combine(server: RedisModel, session: Session, args: list[bytes], *, how: str) -> Reply:
    made, with_scores = _combined(server, args[1:], f"z{how}", how, stores=False)
    return _shown(server, session, _ordered(made), with_scores=with_scores)


def _combine_into(server: RedisModel, session: Session, args: list[bytes], *, how: str) -> Reply:
    name = f"z{how}store"
    made, _ = _combined(server, args[2:], name, how, stores=True)
    return _store(server, args[1], made, name.encode())


for _how in ("inter", "union", "diff"):
    _words = "" if _how == "diff" else "WEIGHTS AGGREGATE SUM MIN MAX"
    command(f"z{_how}", -3, f"{_words} WITHSCORES")(functools.partial(_combine, how=_how))
    command(f"z{_how}store", -4, _words, writes=True)(functools.partial(_combine_into, how=_how))


@command("zintercard", -3, "LIMIT")
def _zintercard(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    sources = _sources(server, args[1], args[2:], "zintercard")
    limit = limit_in(args[2 + len(sources) :])
    common = sum(all(member in source for source in sources) for member in sources[0])
    return min(common, limit) if limit else common


@command("zrandmember", -2, "WITHSCORES")
def _zrandmember(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    chosen, with_scores = drawn(server, args, lambda: _ordered(_found(server, args[1])), b"WITHSCORES")
    if len(args) == 2:
        return chosen[0][0] if chosen else None
    return _shown(server, session, list(chosen), with_scores=with_scores)
