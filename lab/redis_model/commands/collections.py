"""Hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lab.redis_model.arguments import (
    INTEGER_MAX,
    INTEGER_MIN,
    NOT_A_FLOAT,
    NOT_AN_INTEGER,
    SYNTAX,
    expiry_ms,
    integer,
    number,
)
from lab.redis_model.commands.expiry import CONDITIONS, is_allowed
from lab.redis_model.commands.keys import scanned
from lab.redis_model.commands.sets import drawn
from lab.redis_model.keyspace import Hash
from lab.redis_model.known import since
from lab.redis_model.numbers import sum_text
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import OK, Map, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


FIELD_END_MAX_MS: Final = 2**46 - 1
"""A field of a hash cannot end later."""
_CONDITIONS: Final = frozenset(CONDITIONS.encode().split())
_UNITS_MS: Final = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
_NO_FIELDS: Final = "ERR invalid number of fields"
_EXPIRING: Final = f"{CONDITIONS} FIELDS"


def _hset(server: RedisModel, args: list[bytes], name: str) -> int:
    if len(args) % 2:
        raise RedisError(wrong_count(name))
    found = server.keys.made(args[1], Hash)
    before = len(found)
    found.update(zip(args[2::2], args[3::2], strict=True))
    if found.ends:
        for field in args[2::2]:
            found.ends.pop(field, None)
    server.keys.touch(args[1], len(args) // 2 - 1)
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


@command("hstrlen", 3)
def _hstrlen(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len((server.keys.collection(args[1], Hash) or Hash()).get(args[2], b""))


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
    removed = sum(_taken(found, field) is not None for field in args[2:])
    if removed:
        server.channels.notify("h", b"hdel", args[1])
        if server.keys.tidy(args[1], found, removed):
            server.channels.notify("g", b"del", args[1])
    return removed


def _taken(found: Hash, field: bytes) -> bytes | None:
    """Remove a field, and when it expires."""
    found.ends.pop(field, None)
    return found.pop(field, None)


def _fields(args: list[bytes], at: int) -> list[bytes]:
    """Read ``FIELDS count field …``, which ends a command. Raises ``RedisError``."""
    if args[at].upper() != b"FIELDS":
        raise RedisError(f"ERR unknown argument: {args[at].decode(errors='replace')}")
    try:
        count = integer(args[at + 1])
    except RedisError:
        count = 0
    if count < 1:
        raise RedisError("ERR Parameter `numFields` should be greater than 0")
    fields = args[at + 2 :]
    if count > len(fields):
        raise RedisError("ERR wrong number of arguments")
    if count < len(fields):
        raise RedisError(f"ERR unknown argument: {fields[count].decode(errors='replace')}")
    return fields


def _expire_fields(server: RedisModel, args: list[bytes], unit_ms: int, base_ms: int, name: str) -> Reply:
    keys, key, amount = server.keys, args[1], integer(args[2])
    if amount < 0:
        raise RedisError("ERR invalid expire time, must be >= 0")
    when_ms = expiry_ms(amount, unit_ms, base_ms, server.named(name), at_least_one=False)
    if when_ms > FIELD_END_MAX_MS:
        raise RedisError(f"ERR invalid expire time in '{name}' command")
    condition = args[3].upper()
    has_condition = condition in _CONDITIONS
    if has_condition and args[4].upper() in _CONDITIONS:
        raise RedisError("ERR Multiple condition flags specified")
    fields = _fields(args, 4 if has_condition else 3)
    found = keys.collection(key, Hash)
    if found is None:
        return [-2] * len(fields)
    ended, answers = [], []
    over = when_ms <= keys.now_ms and not keys.obeys
    for field in fields:
        if field not in found:
            answers.append(-2)
        elif has_condition and not is_allowed({condition}, found.ends.get(field), when_ms):
            answers.append(0)
        else:
            answers.append(2 if over else 1)
            ended.append(field)
            if over:
                _taken(found, field)
            else:
                keys.field_ends(key, field, found, when_ms)
    if ended and over:
        server.rewritten = [[b"HDEL", key, *ended]]
        server.channels.notify("h", b"hdel", key)
        if keys.tidy(key, found):
            server.channels.notify("g", b"del", key)
    elif ended:
        server.rewritten = [_as_end(key, ended, when_ms)]
        server.channels.notify("h", b"hexpire", key)
        keys.touch(key)
    return answers


class _Given(NamedTuple):
    """What HSETEX is given: when fields may be set, when they end, which and what."""

    condition: bytes = b""
    unit: bytes = b""
    amount: bytes = b""
    pairs: tuple[bytes, ...] = ()


def _given(args: list[bytes]) -> _Given:
    """Read the words after the key. Raises ``RedisError``."""
    given, at = _Given(), 2
    while at < len(args):
        word, has_more = args[at].upper(), at + 1 < len(args)
        if word in (b"FNX", b"FXX") and not given.condition:
            given = given._replace(condition=word)
        elif word == b"KEEPTTL" and not given.unit:
            given = given._replace(unit=word)
        elif word in _UNITS_MS and not given.unit and has_more:
            given = given._replace(unit=word, amount=args[at + 1])
            at += 1
        elif word == b"FIELDS" and not given.pairs and has_more:
            count = integer(args[at + 1], _NO_FIELDS)
            if count < 1 or len(args) < at + 2 + 2 * count:
                raise RedisError(_NO_FIELDS)
            given = given._replace(pairs=tuple(args[at + 2 : at + 2 + 2 * count]))
            at += 1 + 2 * count
        else:
            raise RedisError(f"ERR unknown argument: {args[at].decode(errors='replace')}")
        at += 1
    return given


def _ends_at(server: RedisModel, unit: bytes, amount: bytes, name: str) -> int:
    """When fields end that are given EX, PX, EXAT or PXAT, in ms of Unix time. Raises ``RedisError``."""
    value, base_ms = integer(amount), 0 if unit.endswith(b"AT") else server.keys.now_ms
    if value < 0 and server.server.product == "redis":
        raise RedisError("ERR invalid expire time, must be >= 0")
    if value < 0:
        raise RedisError(f"ERR invalid expire time in '{name}' command")
    return expiry_ms(value, _UNITS_MS[unit], base_ms, server.named(name), at_least_one=False)


def _as_end(key: bytes, fields: list[bytes], when_ms: int) -> list[bytes]:
    """When fields end, for files and replicas."""
    return [b"HPEXPIREAT", key, b"%d" % when_ms, b"FIELDS", b"%d" % len(fields), *fields]


@command("hsetex", -6, "FNX FXX EX PX EXAT PXAT KEEPTTL FIELDS", writes=True)
def _hsetex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Set fields that then expire, if all or none of them are there; 1 if that was done."""
    keys, key, (condition, unit, amount, pairs) = server.keys, args[1], _given(args)
    fields, when_ms = pairs[::2], None
    if amount:
        when_ms = _ends_at(server, unit, amount, "hsetex")
    found = keys.collection(key, Hash) or Hash()
    there = [field in found for field in fields]
    if (condition == b"FNX" and any(there)) or (condition == b"FXX" and not all(there)):
        return 0
    ends = dict(found.ends)
    _hset(server, [b"HSET", key, *pairs], "hsetex")
    found = keys.made(key, Hash)
    server.rewritten = [[b"HSET", key, *pairs]]
    if when_ms is not None and when_ms <= keys.now_ms and not keys.obeys:
        for field in fields:
            _taken(found, field)
        server.rewritten.append([b"HDEL", key, *fields])
        server.channels.notify("h", b"hdel", key)
        if keys.tidy(key, found):
            server.channels.notify("g", b"del", key)
        return 1
    for field in fields:
        until_ms = ends.get(field) if unit == b"KEEPTTL" else when_ms
        if until_ms is not None:
            keys.field_ends(key, field, found, until_ms)
            server.rewritten.append(_as_end(key, [field], until_ms))
    if when_ms is not None:
        server.channels.notify("h", b"hexpire", key)
    return 1


@command("hgetdel", -5, "FIELDS", writes=True)
def _hgetdel(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    fields, found = _fields(args, 2), server.keys.collection(args[1], Hash) or Hash()
    values = [found.get(field) for field in fields]
    removed = sum(_taken(found, field) is not None for field in fields)
    if removed:
        server.channels.notify("h", b"hdel", args[1])
        server.rewritten = [[b"HDEL", args[1], *fields]]
        if server.keys.tidy(args[1], found, removed):
            server.channels.notify("g", b"del", args[1])
    return values


def _read_of_hgetex_since_8_4(args: list[bytes]) -> tuple[bytes, bytes, list[bytes]]:
    """The same in any order. Raises ``RedisError``."""
    unit, amount, fields, at = b"", b"", list[bytes](), 2
    while at < len(args):
        word, shown = args[at].upper(), args[at].decode(errors="replace")
        if word in _UNITS_MS or word == b"PERSIST":
            if unit:
                words = "EX, PX, EXAT, PXAT or PERSIST"
                raise RedisError(f"ERR Only one of {words} arguments can be specified")
            unit, amount = word, (args[at + 1] if word in _UNITS_MS and at + 1 < len(args) else b"")
            at += 1 + (word in _UNITS_MS)
        elif word == b"FIELDS" and at + 1 < len(args):
            if fields:
                raise RedisError("ERR FIELDS keyword specified multiple times")
            count = integer(args[at + 1], _NO_FIELDS)
            fields = args[at + 2 : at + 2 + max(count, 0)]
            if count < 1:
                raise RedisError(_NO_FIELDS)
            if len(fields) < count:
                raise RedisError("ERR wrong number of arguments")
            at += 2 + count
        else:
            raise RedisError(f"ERR unknown argument: {shown}")
    return unit, amount, fields


def _read_of_hgetex(server: RedisModel, args: list[bytes]) -> tuple[bytes, bytes, list[bytes]]:
    """Read ``[EX n | … | PERSIST] FIELDS count field …``. Raises ``RedisError``."""
    if since(server.server, redis=(8, 4), valkey=(99, 0)):
        return _read_of_hgetex_since_8_4(args)
    if server.server.product == "redis" and args[2].upper() in _UNITS_MS:
        _ends_at(server, args[2].upper(), args[3], "hgetex")
    is_redis, word, amount, at = server.server.product == "redis", args[2].upper(), b"", 2
    if word == b"PERSIST":
        at = 3
    elif word in _UNITS_MS:
        amount, at = args[3], 4
    if at + 2 >= len(args) or args[at].upper() != b"FIELDS":
        raise RedisError(
            "ERR Mandatory argument FIELDS is missing or not at the right position" if is_redis else SYNTAX
        )
    fields = args[at + 2 :]
    mismatch = "ERR numfields should be greater than 0 and match the provided number of fields"
    count = integer(
        args[at + 1], "ERR Number of fields must be a positive integer" if is_redis else NOT_AN_INTEGER
    )
    if count < 1:
        raise RedisError("ERR Number of fields must be a positive integer" if is_redis else mismatch)
    if count != len(fields):
        raise RedisError(
            "ERR The `numfields` parameter must match the number of arguments" if is_redis else mismatch
        )
    return (word if at > 2 else b""), amount, fields


@command("hgetex", -5, "EX PX EXAT PXAT PERSIST FIELDS", writes=True)
def _hgetex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Read fields, and set or remove when they expire."""
    keys, key = server.keys, args[1]
    if server.server.product == "redis":
        keys.collection(key, Hash)
    word, amount, fields = _read_of_hgetex(server, args)
    when_ms = _ends_at(server, word, amount, "hgetex") if amount else None
    found = keys.collection(key, Hash) or Hash()
    values, there = [found.get(field) for field in fields], [field for field in fields if field in found]
    if when_ms is not None and when_ms <= keys.now_ms and not keys.obeys and there:
        for field in there:
            _taken(found, field)
        server.rewritten = [[b"HDEL", key, *there]]
        server.channels.notify("h", b"hexpired" if server.server.product == "valkey" else b"hdel", key)
        if keys.tidy(key, found, len(there)):
            server.channels.notify("g", b"del", key)
    elif when_ms is not None and there:
        for field in there:
            keys.field_ends(key, field, found, when_ms)
        server.rewritten = [_as_end(key, there, when_ms)]
        server.channels.notify("h", b"hexpire", key)
        keys.touch(key)
    elif word == b"PERSIST" and found.ends.keys() & set(there):
        for field in there:
            found.ends.pop(field, None)
        server.rewritten = [[b"HPERSIST", key, b"FIELDS", b"%d" % len(fields), *fields]]
        server.channels.notify("h", b"hpersist", key)
        keys.touch(key)
    return values


@command("hexpire", -6, _EXPIRING, writes=True)
def _hexpire(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire_fields(server, args, 1000, server.keys.now_ms, "hexpire")


@command("hpexpire", -6, _EXPIRING, writes=True)
def _hpexpire(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire_fields(server, args, 1, server.keys.now_ms, "hpexpire")


@command("hexpireat", -6, _EXPIRING, writes=True)
def _hexpireat(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire_fields(server, args, 1000, 0, "hexpireat")


@command("hpexpireat", -6, _EXPIRING, writes=True)
def _hpexpireat(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire_fields(server, args, 1, 0, "hpexpireat")


def _ends(server: RedisModel, args: list[bytes]) -> list[int]:
    """When fields end, in ms of Unix time; -2: no such field, -1: never. Raises ``RedisError``."""
    fields, found = _fields(args, 2), server.keys.collection(args[1], Hash) or Hash()
    return [found.ends.get(field, -1) if field in found else -2 for field in fields]


def _seconds(server: RedisModel, ms: int) -> int:
    """Round to whole seconds: Redis rounds up, Valkey to the nearest."""
    return (ms + (999 if server.server.product == "redis" else 500)) // 1000


@command("hpexpiretime", -5, "FIELDS")
def _hpexpiretime(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _ends(server, args)


@command("hexpiretime", -5, "FIELDS")
def _hexpiretime(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [when_ms if when_ms < 0 else _seconds(server, when_ms) for when_ms in _ends(server, args)]


@command("hpttl", -5, "FIELDS")
def _hpttl(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [
        when_ms if when_ms < 0 else max(0, when_ms - server.keys.now_ms) for when_ms in _ends(server, args)
    ]


@command("httl", -5, "FIELDS")
def _httl(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    now_ms = server.keys.now_ms
    return [
        when_ms if when_ms < 0 else _seconds(server, max(0, when_ms - now_ms))
        for when_ms in _ends(server, args)
    ]


@command("hpersist", -5, "FIELDS", writes=True)
def _hpersist(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    fields, found = _fields(args, 2), server.keys.collection(args[1], Hash)
    if found is None:
        return [-2] * len(fields)
    answers = [
        -2 if field not in found else 1 if found.ends.pop(field, None) is not None else -1 for field in fields
    ]
    if 1 in answers:
        server.keys.touch(args[1])
        server.channels.notify("h", b"hpersist", args[1])
    return answers


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


@command("hincrbyfloat", 4, writes=True)
def _hincrbyfloat(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    key, field = args[1], args[2]
    number(args[3], NOT_A_FLOAT)
    found = server.keys.collection(key, Hash) or Hash()
    old = found.get(field, b"0")
    number(old, "ERR hash value is not a float")
    value = sum_text(old, args[3], "ERR increment would produce NaN or Infinity")
    ends_ms = found.ends.get(field)
    server.keys.made(key, Hash)[field] = value
    server.keys.touch(key)
    server.channels.notify("h", b"hincrbyfloat", key)
    server.rewritten = [[b"HSET", key, field, value]]
    if ends_ms is not None:
        server.rewritten.append(_as_end(key, [field], ends_ms))
    return value


def _pairs(server: RedisModel, key: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a hash and their values. Raises ``RedisError``."""
    return list((server.keys.collection(key, Hash) or Hash()).items())


@command("hscan", -3, "MATCH COUNT NOVALUES")
def _hscan(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    flag = b"NOVALUES" if since(server.server, redis=(7, 4), valkey=(8, 0)) else b""
    chosen, names_only = scanned(server, args, lambda: _pairs(server, args[1]), flag)
    return [b"0", [part for name, value in chosen for part in ((name,) if names_only else (name, value))]]


@command("hrandfield", -2, "WITHVALUES")
def _hrandfield(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    chosen, with_values = drawn(server, args, lambda: _pairs(server, args[1]), b"WITHVALUES")
    if len(args) == 2:
        return chosen[0][0] if chosen else None
    if with_values and session.resp3:
        return [list(pair) for pair in chosen]
    return [part for name, value in chosen for part in ((name, value) if with_values else (name,))]
