"""Strings: what locks are made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from lab.redis_model.arguments import (
    INTEGER_MAX,
    INTEGER_MIN,
    NOT_A_FLOAT,
    SYNTAX,
    expiry_ms,
    integer,
    number,
)
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import OK, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

OVERFLOW = "ERR increment or decrement would overflow"
_SET_WORDS = frozenset({b"NX", b"XX", b"GET", b"KEEPTTL"})
_GETEX_WORDS = frozenset({b"PERSIST"})
_TIMELESS = frozenset({b"KEEPTTL", b"PERSIST"})
_TIMES = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}


@dataclass(frozen=True, slots=True)
class _Options:
    """What may follow in SET and GETEX; ``unit_ms`` is 0 without a time."""

    flags: frozenset[bytes]
    amount: int
    unit_ms: int
    absolute: bool

    def when_ms(self, server: RedisModel, name: str) -> int | None:
        """Return the time of expiry, if there is to be one. Raises ``RedisError``."""
        if not self.unit_ms:
            return None
        return expiry_ms(self.amount, self.unit_ms, 0 if self.absolute else server.keys.now_ms, name)


@functools.lru_cache(maxsize=1024)
def _options(allowed: frozenset[bytes], words: tuple[bytes, ...]) -> _Options:
    """Read options: a time, and ``allowed`` words. Raises ``RedisError``."""
    flags: set[bytes] = set()
    unit_ms, amount, absolute = 0, b"", False
    at = 0
    while at < len(words):
        word = words[at].upper()
        timed = unit_ms or flags & _TIMELESS
        if word in _TIMES and at + 1 < len(words) and not timed:
            unit_ms, amount, absolute = _TIMES[word], words[at + 1], word.endswith(b"AT")
            at += 1
        elif word in allowed and not (word in _TIMELESS and unit_ms):
            flags.add(word)
        else:
            raise RedisError(SYNTAX)
        at += 1
    if {b"NX", b"XX"} <= flags:
        raise RedisError(SYNTAX)
    return _Options(frozenset(flags), integer(amount) if unit_ms else 0, unit_ms, absolute)


@command("set", -3, writes=True)
def _set(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    keys, key, value = server.keys, args[1], args[2]
    if len(args) == 3:
        keys.put(key, value)
        server.channels.notify("$", b"set", key)
        return OK
    options = _options(_SET_WORDS, tuple(args[3:]))
    flags = options.flags
    when_ms = options.when_ms(server, "set")
    old: Reply = keys.string(key) if b"GET" in flags else None
    if b"NX" in flags or b"XX" in flags:
        there = keys.get(key) is not None
        if there is (b"NX" in flags):
            return old
    if b"KEEPTTL" in flags:
        keys.get(key)  # what has expired takes its time with it
        keys.replace(key, value)
    else:
        keys.put(key, value)
    server.channels.notify("$", b"set", key)
    if when_ms is not None:
        keys.set_expiry(key, when_ms)
        server.channels.notify("g", b"expire", key)
        server.rewritten = [[b"SET", key, value, b"PXAT", b"%d" % when_ms]]
    elif b"GET" in flags:
        server.rewritten = [[word for at, word in enumerate(args) if at < 3 or word.upper() != b"GET"]]
    return old if b"GET" in flags else OK


@command("setnx", 3, writes=True)
def _setnx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if server.keys.get(args[1]) is not None:
        return 0
    server.keys.put(args[1], args[2])
    server.channels.notify("$", b"set", args[1])
    return 1


def _set_for(server: RedisModel, key: bytes, duration: bytes, value: bytes, unit_ms: int, name: str) -> Reply:
    when_ms = expiry_ms(integer(duration), unit_ms, server.keys.now_ms, name)
    server.keys.put(key, value)
    server.keys.set_expiry(key, when_ms)
    server.channels.notify("$", b"set", key)
    server.channels.notify("g", b"expire", key)
    server.rewritten = [[b"SET", key, value, b"PXAT", b"%d" % when_ms]]
    return OK


@command("setex", 4, writes=True)
def _setex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _set_for(server, args[1], args[2], args[3], 1000, "setex")


@command("psetex", 4, writes=True)
def _psetex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _set_for(server, args[1], args[2], args[3], 1, "psetex")


@command("get", 2)
def _get(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return server.keys.string(args[1])


@command("getset", 3, writes=True)
def _getset(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    old = server.keys.string(args[1])
    server.keys.put(args[1], args[2])
    server.channels.notify("$", b"set", args[1])
    server.rewritten = [[b"SET", args[1], args[2]]]
    return old


@command("getdel", 2, writes=True)
def _getdel(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    old = server.keys.string(args[1])
    if old is not None:
        server.keys.delete(args[1])
        server.channels.notify("g", b"del", args[1])
        server.rewritten = [[b"DEL", args[1]]]
    return old


@command("getex", -2, writes=True)
def _getex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    keys, key = server.keys, args[1]
    options = _options(_GETEX_WORDS, tuple(args[2:]))
    value = keys.string(key)
    if value is None:
        return None
    when_ms = options.when_ms(server, "getex")
    if when_ms is not None and when_ms <= keys.now_ms and not keys.obeys:
        keys.delete(key)
        server.channels.notify("g", b"del", key)
        server.rewritten = [[b"DEL", key]]
    elif when_ms is not None:
        keys.set_expiry(key, when_ms)
        keys.touch(key)
        server.channels.notify("g", b"expire", key)
        server.rewritten = [[b"PEXPIREAT", key, b"%d" % when_ms]]
    elif options.flags and keys.expires.pop(key, None) is not None:
        keys.touch(key)
        server.channels.notify("g", b"persist", key)
        server.rewritten = [[b"PERSIST", key]]
    return value


@command("mget", -2)
def _mget(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    values = [server.keys.get(key) for key in args[1:]]
    return [value if type(value) is bytes else None for value in values]


@command("mset", -3, writes=True)
def _mset(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) % 2 == 0:
        raise RedisError(wrong_count("mset"))
    for key, value in zip(args[1::2], args[2::2], strict=True):
        server.keys.put(key, value)
        server.channels.notify("$", b"set", key)
    return OK


@command("append", 3, writes=True)
def _append(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    value = (server.keys.string(args[1]) or b"") + args[2]
    server.keys.replace(args[1], value)
    server.channels.notify("$", b"append", args[1])
    return len(value)


@command("strlen", 2)
def _strlen(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return len(server.keys.string(args[1]) or b"")


def _add(server: RedisModel, key: bytes, by: int, complaint: str = OVERFLOW) -> int:
    """Count up, in 64 bits. Raises ``RedisError``."""
    old = server.keys.string(key)
    total = (integer(old) if old is not None else 0) + by
    if not INTEGER_MIN <= total <= INTEGER_MAX:
        raise RedisError(complaint)
    server.keys.replace(key, b"%d" % total)
    server.channels.notify("$", b"incrby", key)
    return total


@command("incr", 2, writes=True)
def _incr(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _add(server, args[1], 1)


@command("decr", 2, writes=True)
def _decr(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _add(server, args[1], -1)


@command("incrby", 3, writes=True)
def _incrby(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _add(server, args[1], integer(args[2]))


@command("decrby", 3, writes=True)
def _decrby(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    by = integer(args[2])
    if by == INTEGER_MIN:
        raise RedisError("ERR decrement would overflow")
    return _add(server, args[1], -by)


@command("incrbyfloat", 3, writes=True)
def _incrbyfloat(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    keys, key = server.keys, args[1]
    old = keys.string(key)
    for given in (b"0" if old is None else old, args[2]):
        number(given, NOT_A_FLOAT)
    total = Decimal((old or b"0").decode()) + Decimal(args[2].decode())
    if not total.is_finite():
        raise RedisError("ERR increment would produce NaN or Infinity")
    text = f"{total:.17f}".rstrip("0").rstrip(".")
    value = (text if text != "-0" else "0").encode()
    keys.replace(key, value)
    server.channels.notify("$", b"incrbyfloat", key)
    server.rewritten = [[b"SET", key, value, b"KEEPTTL"]]
    return value
