"""Strings: what locks are made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from lab.redis_model.arguments import (
    INTEGER_MAX,
    INTEGER_MIN,
    NOT_A_FLOAT,
    SYNTAX,
    expiry_ms,
    integer,
    number,
)
from lab.redis_model.numbers import sum_text
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import OK, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

OVERFLOW = "ERR increment or decrement would overflow"
_SET: Final = "NX XX IFEQ IFNE IFDEQ IFDNE GET EX PX EXAT PXAT KEEPTTL"
_GETEX: Final = "EX PX EXAT PXAT PERSIST"
_MSETEX: Final = "NX XX EX PX EXAT PXAT KEEPTTL"
_TIMELESS: Final = frozenset({b"KEEPTTL", b"PERSIST"})
_TIMES: Final = {b"EX": 1000, b"PX": 1, b"EXAT": 1000, b"PXAT": 1}
_COMPARED: Final = frozenset({b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"})
_EXISTENCE: Final = frozenset({b"NX", b"XX"})
_DIGEST_LENGTH: Final = 16
BYTES_MAX: Final = 1 << 20
"""A longer string is not written in part: each change makes a whole one here."""
REAL_BYTES_MAX: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class _Options:
    """What may follow in SET, MSETEX and GETEX.

    ``unit_ms`` is 0 without a time, ``compare`` is empty without a comparison.
    """

    flags: frozenset[bytes]
    amount: int
    unit_ms: int
    absolute: bool
    compare: bytes
    with_value: bytes

    def when_ms(self, server: RedisModel, name: str) -> int | None:
        """Return the time of expiry, if there is to be one. Raises ``RedisError``."""
        if not self.unit_ms:
            return None
        base_ms = 0 if self.absolute else server.keys.now_ms
        return expiry_ms(self.amount, self.unit_ms, base_ms, server.named(name))

    def before_7(self, server: RedisModel, when_ms: int) -> list[bytes]:
        """The time of expiry as replicas got it before 7.0."""
        if self.absolute:
            return [b"PXAT", b"%d" % when_ms]
        return [b"PX", b"%d" % (when_ms - server.keys.now_ms)]

    def allow(self, server: RedisModel, key: bytes) -> bool:
        """Tell whether a key may be set as it is now. Raises ``RedisError``: it cannot be compared."""
        if self.compare and not _compares(self.compare, self.with_value, server.keys.string(key)):
            return False
        if b"NX" in self.flags or b"XX" in self.flags:
            return (server.keys.get(key) is not None) is (b"XX" in self.flags)
        return True


@functools.lru_cache(maxsize=1024)
def _options(allowed: frozenset[bytes], words: tuple[bytes, ...], *, one_condition: bool = False) -> _Options:
    """Read options: a time, a comparison, and other ``allowed`` words. Raises ``RedisError``.

    With ``one_condition`` a comparison stands alone: Redis takes some conditions together, Valkey does not.
    """
    flags: set[bytes] = set()
    unit_ms, amount, absolute = 0, b"", False
    compare = with_value = b""
    compared = at = 0
    while at < len(words):
        word = words[at].upper()
        if word not in allowed:
            raise RedisError(SYNTAX)
        timed = unit_ms or flags & _TIMELESS
        if word in _TIMES and at + 1 < len(words) and not timed:
            unit_ms, amount, absolute = _TIMES[word], words[at + 1], word.endswith(b"AT")
            at += 1
        elif word in _COMPARED and at + 1 < len(words) and compare in (b"", word) and not flags & _EXISTENCE:
            compare, with_value = word, words[at + 1]
            compared += 1
            at += 1
        elif word not in _TIMES and word not in _COMPARED and not (word in _TIMELESS and unit_ms):
            flags.add(word)
        else:
            raise RedisError(SYNTAX)
        at += 1
    if flags >= _EXISTENCE or (one_condition and compared and compared + len(flags & _EXISTENCE) > 1):
        raise RedisError(SYNTAX)
    return _Options(
        frozenset(flags), integer(amount) if unit_ms else 0, unit_ms, absolute, compare, with_value
    )


def _compares(compare: bytes, with_value: bytes, value: bytes | None) -> bool:
    """Tell whether a value, None without one, meets IFEQ, IFNE, IFDEQ or IFDNE. Raises ``RedisError``."""
    if value is None:
        return compare in (b"IFNE", b"IFDNE")
    if compare in (b"IFDEQ", b"IFDNE"):
        if len(with_value) != _DIGEST_LENGTH:
            raise RedisError("ERR must be exactly 16 hexadecimal characters")
        return (_digest_of(value) == with_value.lower()) is (compare == b"IFDEQ")
    return (value == with_value) is (compare == b"IFEQ")


def _digest_of(value: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(value).encode()


@command("set", -3, _SET, writes=True)
def _set(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    keys, key, value = server.keys, args[1], args[2]
    if len(args) == 3:
        keys.put(key, value)
        server.channels.notify("$", b"set", key)
        return OK
    one_condition = server.server.product == "valkey"
    options = _options(server.commands.options["set"], tuple(args[3:]), one_condition=one_condition)
    flags = options.flags
    when_ms = options.when_ms(server, "set")
    if server.is_before_7 and {b"NX", b"GET"} <= flags:
        raise RedisError(SYNTAX)
    old: Reply = keys.string(key) if b"GET" in flags else None
    if not options.allow(server, key):
        return old
    _put(server, key, value, options, when_ms)
    server.rewritten = [_as_set(key, value, options, when_ms)]
    if when_ms is not None and server.is_before_7:
        server.for_replicas = [b"SET", key, value, *options.before_7(server, when_ms)]
    return old if b"GET" in flags else OK


def _put(server: RedisModel, key: bytes, value: bytes, options: _Options, when_ms: int | None) -> None:
    if b"KEEPTTL" in options.flags:
        server.keys.get(key)  # what has expired takes its time with it
        server.keys.replace(key, value)
    else:
        server.keys.put(key, value)
    server.channels.notify("$", b"set", key)
    if when_ms is not None:
        server.keys.set_expiry(key, when_ms)
        server.channels.notify("g", b"expire", key)


def _as_set(key: bytes, value: bytes, options: _Options, when_ms: int | None) -> list[bytes]:
    """What a key was set to, for files and replicas: without conditions, and with a point in time."""
    if when_ms is not None:
        return [b"SET", key, value, b"PXAT", b"%d" % when_ms]
    return [b"SET", key, value, *([b"KEEPTTL"] if b"KEEPTTL" in options.flags else [])]


@command("delex", -2, "IFEQ IFNE IFDEQ IFDNE", writes=True)
def _delex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    key = args[1]
    if len(args) not in (2, 4):
        raise RedisError(wrong_count("delex"))
    if len(args) == 4:
        compare = args[2].upper()
        if compare not in _COMPARED:
            raise RedisError("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
        value = server.keys.get(key)
        if value is None:
            return 0
        if type(value) is not bytes:
            raise RedisError("ERR Key should be of string type if conditions are specified")
        if not _compares(compare, args[3], value):
            return 0
    return _deleted(server, key)


@command("delifeq", 3, writes=True)
def _delifeq(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _deleted(server, args[1]) if server.keys.string(args[1]) == args[2] else 0


def _deleted(server: RedisModel, key: bytes) -> int:
    if not server.keys.delete(key):
        return 0
    server.channels.notify("g", b"del", key)
    server.rewritten = [[b"DEL", key]]
    return 1


@command("digest", 2)
def _digest(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    value = server.keys.string(args[1])
    return None if value is None else _digest_of(value)


@command("msetnx", -3, writes=True)
def _msetnx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) % 2 == 0:
        raise RedisError(_odd(server, "msetnx"))
    if any(server.keys.get(key) is not None for key in args[1::2]):
        return 0
    for key, value in zip(args[1::2], args[2::2], strict=True):
        server.keys.put(key, value)
        server.channels.notify("$", b"set", key)
    return 1


@command("msetex", -4, _MSETEX, writes=True)
def _msetex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    is_redis = server.server.product == "redis"
    invalid = "ERR invalid numkeys value" + ("" if is_redis else " or out of range")
    count = integer(args[1], invalid)
    if count < 1:
        raise RedisError(invalid)
    if len(args) < 2 + 2 * count:
        raise RedisError("ERR wrong number of key-value pairs" if is_redis else SYNTAX)
    pairs = list(zip(args[2 : 2 + 2 * count : 2], args[3 : 2 + 2 * count : 2], strict=True))
    options = _options(server.commands.options["msetex"], tuple(args[2 + 2 * count :]))
    when_ms = options.when_ms(server, "msetex")
    if not all(options.allow(server, key) for key, _ in pairs):
        return 0
    for key, value in pairs:
        _put(server, key, value, options, when_ms)
    server.rewritten = [_as_set(key, value, options, when_ms) for key, value in pairs]
    return 1


def _odd(server: RedisModel, name: str) -> str:
    """What is said where a key has no value."""
    return "ERR wrong number of arguments for MSET" if server.is_before_7 else wrong_count(name)


@command("setnx", 3, writes=True)
def _setnx(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if server.keys.get(args[1]) is not None:
        return 0
    server.keys.put(args[1], args[2])
    server.channels.notify("$", b"set", args[1])
    return 1


def _set_for(server: RedisModel, key: bytes, duration: bytes, value: bytes, unit_ms: int, name: str) -> Reply:
    when_ms = expiry_ms(integer(duration), unit_ms, server.keys.now_ms, server.named(name))
    server.keys.put(key, value)
    server.keys.set_expiry(key, when_ms)
    server.channels.notify("$", b"set", key)
    server.channels.notify("g", b"expire", key)
    point, left = b"%d" % when_ms, b"%d" % (when_ms - server.keys.now_ms)
    server.rewrite([b"SET", key, value, b"PXAT", point], [b"SET", key, value, b"PX", left])
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


@command("getex", -2, _GETEX, writes=True)
def _getex(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    keys, key = server.keys, args[1]
    options = _options(server.commands.options["getex"], tuple(args[2:]))
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
        form, amount = options.before_7(server, when_ms)
        before_7 = b"PEXPIREAT" if form == b"PXAT" else b"PEXPIRE"
        server.rewrite([b"PEXPIREAT", key, b"%d" % when_ms], [before_7, key, amount])
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
        raise RedisError(_odd(server, "mset"))
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


@command("getrange", 4)
@command("substr", 4)
def _getrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """What lies between two places, both included, counted from the end if negative."""
    start, stop = integer(args[2]), integer(args[3])
    value = server.keys.string(args[1]) or b""
    if start < 0 and stop < 0 and start > stop:
        return b""
    first = max(start + len(value), 0) if start < 0 else start
    last = max(stop + len(value), 0) if stop < 0 else stop
    return value[first : last + 1]


@command("setrange", 4, writes=True)
def _setrange(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    key, at, part = args[1], integer(args[2]), args[3]
    if at < 0:
        raise RedisError("ERR offset is out of range")
    old = server.keys.string(key) or b""
    if not part:
        return len(old)
    if at + len(part) > BYTES_MAX:
        raise too_long(server, at + len(part), "SETRANGE")
    value = old.ljust(at, b"\0")[:at] + part + old[at + len(part) :]
    server.keys.replace(key, value)
    server.channels.notify("$", b"setrange", key)
    return len(value)


def too_long(server: RedisModel, size: int, what: str) -> RedisError:
    """What is said about a string of so many bytes: no server keeps it, or it is not simulated."""
    if size > REAL_BYTES_MAX:
        return RedisError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    what = f"{what} in a string of more than {BYTES_MAX} bytes"
    server.miss(what)
    return RedisError(f"ERR {what} is not simulated; real servers have it")


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
    value = sum_text(old or b"0", args[2], "ERR increment would produce NaN or Infinity")
    keys.replace(key, value)
    server.channels.notify("$", b"incrbyfloat", key)
    server.rewritten = [[b"SET", key, value, b"KEEPTTL"]]
    return value
