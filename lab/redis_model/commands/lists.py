"""Lists, and waiting for an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.blocking import await_keys, seconds_as_ms
from lab.redis_model.keyspace import List
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import NULL_ARRAY, OK, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NOT_POSITIVE = "ERR value is out of range, must be positive"
TOO_FEW_KEYS = "ERR numkeys should be greater than 0"
NO_COUNT = "ERR count should be greater than 0"
NO_RANK = (
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to "
    "start from the end of the list"
)


def _push(server: RedisModel, args: list[bytes], *, left: bool, only_if_there: bool = False) -> Reply:
    key = args[1]
    if only_if_there and server.keys.collection(key, List) is None:
        return 0
    found = server.keys.made(key, List)
    if left:
        found.extendleft(args[2:])
    else:
        found.extend(args[2:])
    server.keys.touch(key, len(args) - 2)
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
    return _push(server, args, left=True, only_if_there=True)


@command("rpushx", -3, writes=True)
def _rpushx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _push(server, args, left=False, only_if_there=True)


def _taken(server: RedisModel, key: bytes, count: int = 1, *, left: bool = True) -> list[bytes] | None:
    """Take elements from one end of a list; None if there is none. Raises ``RedisError``."""
    found = server.keys.collection(key, List)
    if found is None:
        return None
    taken = [found.popleft() if left else found.pop() for _ in range(min(count, len(found)))]
    if taken:
        server.channels.notify("l", b"lpop" if left else b"rpop", key)
        _tidy(server, key, found, len(taken))
    return taken


def _tidy(server: RedisModel, key: bytes, found: List, changes: int) -> None:
    if server.keys.tidy(key, found, changes):
        server.channels.notify("g", b"del", key)


def _pop(server: RedisModel, args: list[bytes], name: str, *, left: bool) -> Reply:
    if len(args) > 3:
        raise RedisError(wrong_count(name))
    if len(args) == 2:
        taken = _taken(server, args[1], left=left)
        return taken[0] if taken else None
    count = integer(args[2], NOT_POSITIVE)
    if count < 0:
        raise RedisError(NOT_POSITIVE)
    many = _taken(server, args[1], count, left=left)
    return NULL_ARRAY if many is None else many


@command("lpop", -2, writes=True)
def _lpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """What BLPOP is for files and replicas."""
    return _pop(server, args, "lpop", left=True)


@command("rpop", -2, writes=True)
def _rpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop(server, args, "rpop", left=False)


def _blocking_pop(server: RedisModel, session: Session, args: list[bytes], *, left: bool) -> Reply:
    timeout_ms, pop = seconds_as_ms(args[-1]), b"LPOP" if left else b"RPOP"

    def attempt(keys: Sequence[bytes]) -> Reply:
        for key in keys:
            taken = _taken(server, key, left=left)
            if taken:
                server.rewritten = [[pop, key]]
                return [key, taken[0]]
        return None

    return await_keys(server, session, args[1:-1], List, timeout_ms, attempt)


@command("blpop", -3, writes=True, in_scripts=False)
def _blpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_pop(server, session, args, left=True)


@command("brpop", -3, writes=True, in_scripts=False)
def _brpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_pop(server, session, args, left=False)


def _move(server: RedisModel, source: bytes, target: bytes, *, from_left: bool, to_left: bool) -> Reply:
    found = server.keys.collection(source, List)
    if found is None:
        return None
    server.keys.collection(target, List)  # of another kind: nothing is taken
    moved = found.popleft() if from_left else found.pop()
    _push(server, [b"", target, moved], left=to_left)
    server.channels.notify("l", b"lpop" if from_left else b"rpop", source)
    _tidy(server, source, found, 1)
    return moved


def ends(words: list[bytes]) -> list[bool]:
    """Read LEFT and RIGHT: whether each is the left one. Raises ``RedisError``."""
    names = [word.upper() for word in words]
    if not set(names) <= {b"LEFT", b"RIGHT"}:
        raise RedisError(SYNTAX)
    return [name == b"LEFT" for name in names]


@command("lmove", 5, "LEFT RIGHT", writes=True)
def _lmove(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    from_left, to_left = ends(args[3:])
    return _move(server, args[1], args[2], from_left=from_left, to_left=to_left)


@command("rpoplpush", 3, writes=True)
def _rpoplpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _move(server, args[1], args[2], from_left=False, to_left=True)


def _blocking_move(server: RedisModel, session: Session, args: list[bytes], as_sent: list[bytes]) -> Reply:
    """BLMOVE or BRPOPLPUSH, which is ``as_sent`` for files and replicas."""
    from_left, to_left = ends(as_sent[3:]) if len(as_sent) > 3 else (False, True)
    timeout_ms = seconds_as_ms(args[-1])

    def attempt(keys: Sequence[bytes]) -> Reply:
        moved = _move(server, args[1], args[2], from_left=from_left, to_left=to_left)
        server.rewritten = [as_sent]
        return moved

    return await_keys(server, session, args[1:2], List, timeout_ms, attempt, without_waiting=None)


@command("blmove", 6, "LEFT RIGHT", writes=True, in_scripts=False)
def _blmove(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_move(server, session, args, [b"LMOVE", *args[1:5]])


@command("brpoplpush", 4, writes=True, in_scripts=False)
def _brpoplpush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _blocking_move(server, session, args, [b"RPOPLPUSH", *args[1:3]])


def of_several(args: list[bytes], words: tuple[bytes, bytes]) -> tuple[list[bytes], bytes, int]:
    """Read ``count key … WORD [COUNT n]``: keys, the word, and n. Raises ``RedisError``."""
    count = integer(args[0], TOO_FEW_KEYS)
    if count < 1:
        raise RedisError(TOO_FEW_KEYS)
    keys, rest = args[1 : 1 + count], args[1 + count :]
    if not rest or rest[0].upper() not in words:
        raise RedisError(SYNTAX)
    if len(rest) == 1:
        return keys, rest[0].upper(), 1
    if len(rest) != 3 or rest[1].upper() != b"COUNT":
        raise RedisError(SYNTAX)
    limit = integer(rest[2], NO_COUNT)
    if limit < 1:
        raise RedisError(NO_COUNT)
    return keys, rest[0].upper(), limit


def _pop_of_several(
    server: RedisModel, session: Session, args: list[bytes], timeout_ms: int | None = None
) -> Reply:
    """Take from the first list that is there; wait for one if there is a time-out."""
    keys, end, limit = of_several(args, (b"LEFT", b"RIGHT"))

    def attempt(among: Sequence[bytes]) -> Reply:
        for key in among:
            taken = _taken(server, key, limit, left=end == b"LEFT")
            if taken:
                server.rewritten = [[b"LPOP" if end == b"LEFT" else b"RPOP", key, b"%d" % len(taken)]]
                return [key, taken]
        return None

    if timeout_ms is None:
        reply = attempt(keys)
        return NULL_ARRAY if reply is None else reply
    return await_keys(server, session, keys, List, timeout_ms, attempt)


@command("lmpop", -4, "LEFT RIGHT COUNT", writes=True)
def _lmpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop_of_several(server, session, args[1:])


@command("blmpop", -5, "LEFT RIGHT COUNT", writes=True, in_scripts=False)
def _blmpop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _pop_of_several(server, session, args[2:], seconds_as_ms(args[1]))


@command("lpos", -3, "RANK COUNT MAXLEN")
def _lpos(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Where an element lies: the index of the first, or of so many; from the end with a negative rank."""
    rank, count, longest = 1, None, 0
    for at in range(3, len(args), 2):
        word = args[at].upper()
        if word not in (b"RANK", b"COUNT", b"MAXLEN") or at + 1 == len(args):
            raise RedisError(SYNTAX)
        value = integer(args[at + 1])
        if word == b"RANK":
            rank = value
            if not rank:
                raise RedisError(NO_RANK)
        elif value < 0:
            raise RedisError(f"ERR {word.decode()} can't be negative")
        elif word == b"COUNT":
            count = value
        else:
            longest = value
    found = server.keys.collection(args[1], List) or List()
    order = range(len(found)) if rank > 0 else range(len(found) - 1, -1, -1)
    equal = [at for at in (order[:longest] if longest else order) if found[at] == args[2]][abs(rank) - 1 :]
    if count is None:
        return equal[0] if equal else None
    return list(equal[:count] if count else equal)


@command("llen", 2)
def _llen(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(server.keys.collection(args[1], List) or ())


@command("lindex", 3)
def _lindex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], List)
    if found is None:
        return None
    at = integer(args[2])
    return found[at] if -len(found) <= at < len(found) else None


@command("lset", 4, writes=True)
def _lset(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    found = server.keys.collection(args[1], List)
    if found is None:
        raise RedisError("ERR no such key")
    at = integer(args[2])
    if not -len(found) <= at < len(found):
        raise RedisError("ERR index out of range")
    found[at] = args[3]
    server.keys.touch(args[1])
    server.channels.notify("l", b"lset", args[1])
    return OK


@command("linsert", 5, "BEFORE AFTER", writes=True)
def _linsert(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    where = args[2].upper()
    if where not in (b"BEFORE", b"AFTER"):
        raise RedisError(SYNTAX)
    found = server.keys.collection(args[1], List)
    if found is None:
        return 0
    if args[3] not in found:
        return -1
    found.insert(found.index(args[3]) + (where == b"AFTER"), args[4])
    server.keys.touch(args[1])
    server.channels.notify("l", b"linsert", args[1])
    return len(found)


@command("lrem", 4, writes=True)
def _lrem(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Remove the first so many that are equal; the last ones if negative, all if 0."""
    count = integer(args[2])
    found = server.keys.collection(args[1], List)
    if found is None:
        return 0
    order = range(len(found) - 1, -1, -1) if count < 0 else range(len(found))
    equal = [at for at in order if found[at] == args[3]]
    gone = set(equal[: abs(count)] if count else equal)
    if gone:
        left = [each for at, each in enumerate(found) if at not in gone]
        found.clear()
        found.extend(left)
        server.channels.notify("l", b"lrem", args[1])
        _tidy(server, args[1], found, len(gone))
    return len(gone)


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
    _tidy(server, key, found, before - len(kept))
    return OK


def _between(found: List, start: int, stop: int) -> list[bytes]:
    size = len(found)
    first = max(start + size, 0) if start < 0 else start
    last = stop + size if stop < 0 else stop
    return list(found)[first : last + 1] if last >= first else []
