"""Strings as rows of bits, the first one the highest of the first byte."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.commands.strings import BYTES_MAX, too_long
from lab.redis_model.known import since
from lab.redis_model.registry import command
from lab.redis_model.reply import RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

NO_OFFSET: Final = "ERR bit offset is not an integer or out of range"
NO_BIT: Final = "ERR bit is not an integer or out of range"
NO_TYPE: Final = (
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
)
_OFFSET_MAX: Final = 2**32 - 1
_TYPE: Final = re.compile(rb"([iu])([1-9][0-9]?)")


def _offset(argument: bytes, bits: int = 0) -> int:
    """Read the place of a bit; ``#n`` is the n-th field of so many bits. Raises ``RedisError``."""
    is_nth = bits > 0 and argument.startswith(b"#")
    times = bits if is_nth else 1
    offset = integer(argument[1:] if is_nth else argument, NO_OFFSET)
    if not 0 <= offset * times <= _OFFSET_MAX:
        raise RedisError(NO_OFFSET)
    return offset * times


def _read(value: bytes, at: int, bits: int) -> int:
    """The number that some bits make; what lies beyond the end is 0."""
    first, last = at // 8, (at + bits - 1) // 8
    part = int.from_bytes(value[first : last + 1].ljust(last + 1 - first, b"\0"), "big")
    return (part >> (8 * (last + 1) - at - bits)) & ((1 << bits) - 1)


def _written(server: RedisModel, value: bytes, at: int, bits: int, number: int) -> bytes:
    """A string with a number in some bits, longer if it has to be. Raises ``RedisError``."""
    first, last = at // 8, (at + bits - 1) // 8
    if last >= BYTES_MAX:
        raise too_long(server, last + 1, "bits")
    value = value.ljust(last + 1, b"\0")
    shift, mask = 8 * (last + 1) - at - bits, (1 << bits) - 1
    part = int.from_bytes(value[first : last + 1], "big") & ~(mask << shift) | (number & mask) << shift
    return value[:first] + part.to_bytes(last + 1 - first, "big") + value[last + 1 :]


@command("setbit", 4, writes=True)
def _setbit(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    key, at = args[1], _offset(args[2])
    bit = integer(args[3], NO_BIT)
    if bit not in (0, 1):
        raise RedisError(NO_BIT)
    old = server.keys.string(key)
    new = _written(server, old or b"", at, 1, bit)
    if new != old or not since(server.server, redis=(7, 2)):
        server.keys.replace(key, new)
        server.channels.notify("$", b"setbit", key)
    return _read(old or b"", at, 1)


@command("getbit", 3)
def _getbit(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    at = _offset(args[2])
    return _read(server.keys.string(args[1]) or b"", at, 1)


@dataclass(frozen=True, slots=True)
class _Span:
    """What ``[start [end [BYTE|BIT]]]`` asks for: from where to where, in bytes or bits."""

    start: int = 0
    stop: int = -1
    width: int = 8

    @classmethod
    def read(cls, server: RedisModel, given: list[bytes]) -> _Span:
        """Raises ``RedisError``."""
        start, stop = (integer(each) for each in (*given[:2], *(b"0", b"-1")[len(given[:2]) :]))
        if len(given) < 3:
            return cls(start, stop)
        if len(given) > 3 or server.is_before_7 or given[2].upper() not in (b"BIT", b"BYTE"):
            raise RedisError(SYNTAX)
        return cls(start, stop, 1 if given[2].upper() == b"BIT" else 8)

    def of(self, value: bytes) -> tuple[str, int]:
        """The bits that lie there, and where they begin."""
        size = len(value) * 8 // self.width
        first = max(self.start + size, 0) if self.start < 0 else self.start
        last = min(max(self.stop + size, 0) if self.stop < 0 else self.stop, size - 1)
        bits = "".join(f"{byte:08b}" for byte in value)
        return bits[first * self.width : (last + 1) * self.width], first * self.width


def _value_and_span(
    server: RedisModel, args: list[bytes], at: int, checked: Callable[[], None]
) -> tuple[bytes | None, _Span]:
    """The string, and which part of it is meant; servers before 7.2 look for the key first.

    Raises ``RedisError``.
    """
    if since(server.server, redis=(7, 2)):
        checked()
        span = _Span.read(server, args[at:])
        return server.keys.string(args[1]), span
    value = server.keys.string(args[1])
    if value is None:
        return None, _Span()
    checked()
    return value, _Span.read(server, args[at:])


@command("bitcount", -2, "BIT BYTE")
def _bitcount(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    def check() -> None:
        if len(args) == 3 and not since(server.server, redis=(99, 0), valkey=(8, 1)):
            raise RedisError(SYNTAX)

    value, span = _value_and_span(server, args, 2, check)
    if span.start < 0 and span.stop < 0 and span.start > span.stop:
        return 0
    return span.of(value or b"")[0].count("1")


@command("bitpos", -3, "BIT BYTE")
def _bitpos(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Where the first such bit is; of a string without an end, 0 follows all its bits."""
    bit = integer(args[2])
    if bit not in (0, 1):
        raise RedisError("ERR The bit argument must be 1 or 0.")
    value, span = _value_and_span(server, args, 3, lambda: None)
    if value is None:
        return -1 if bit else 0
    bits, first = span.of(value)
    at = bits.find(str(bit))
    if at >= 0:
        return first + at
    return -1 if bit or len(args) > 4 or not bits else first + len(bits)


@dataclass(frozen=True, slots=True)
class _Field:
    """One thing that BITFIELD does: read, set or add to a number. ``overflow``: what happens at its ends."""

    what: bytes
    signed: bool
    bits: int
    at: int
    value: int = 0
    overflow: bytes = b"WRAP"

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest number that fits."""
        if self.signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def shown(self, raw: int) -> int:
        """The number that some bits are."""
        return raw - (1 << self.bits) if self.signed and raw >> (self.bits - 1) else raw

    def fitted(self, number: int) -> int | None:
        """What is written for a number; None: nothing, since it does not fit."""
        least, most = self.bounds
        if least <= number <= most:
            return number
        if self.overflow == b"WRAP":
            return self.shown(number & ((1 << self.bits) - 1))
        return None if self.overflow == b"FAIL" else min(max(number, least), most)


def _fields(args: list[bytes], *, only_reads: bool) -> list[_Field]:
    """Read what BITFIELD is to do. Raises ``RedisError``."""
    found, overflow, at = [], b"WRAP", 2
    while at < len(args):
        word, left = args[at].upper(), len(args) - at - 1
        if word == b"OVERFLOW" and left >= 1:
            overflow = args[at + 1].upper()
            if overflow not in (b"WRAP", b"SAT", b"FAIL"):
                raise RedisError("ERR Invalid OVERFLOW type specified")
            at += 2
            continue
        count = {b"GET": 2, b"SET": 3, b"INCRBY": 3}.get(word, 0)
        if not count or left < count:
            raise RedisError(SYNTAX)
        kind = _TYPE.fullmatch(args[at + 1])
        bits = int(kind[2]) if kind is not None else 0
        if kind is None or bits > (64 if kind[1] == b"i" else 63):
            raise RedisError(NO_TYPE)
        offset = _offset(args[at + 2], bits)
        value = integer(args[at + 3]) if count == 3 else 0
        found.append(_Field(word, kind[1] == b"i", bits, offset, value, overflow))
        at += 1 + count
    if only_reads and any(field.what != b"GET" for field in found):
        raise RedisError("ERR BITFIELD_RO only supports the GET subcommand")
    return found


def _bitfield(server: RedisModel, args: list[bytes], *, only_reads: bool) -> Reply:
    fields, key = _fields(args, only_reads=only_reads), args[1]
    old = server.keys.string(key)
    value, answers, writes = old or b"", list[object](), False
    for field in fields:
        before = field.shown(_read(value, field.at, field.bits))
        if field.what == b"GET":
            answers.append(before)
            continue
        number = field.fitted(field.value + (before if field.what == b"INCRBY" else 0))
        if number is None:
            # It was made long enough before that was found.
            value = _written(server, value, field.at, field.bits, before)
            answers.append(None)
            continue
        value, writes = _written(server, value, field.at, field.bits, number), True
        answers.append(number if field.what == b"INCRBY" else before)
    if value != (old or b""):
        server.keys.replace(key, value)
    elif writes and not since(server.server, redis=(7, 2)):
        server.keys.touch(key)
    if writes and (value != (old or b"") or not since(server.server, redis=(7, 2))):
        server.channels.notify("$", b"setbit", key)
    return answers


@command("bitfield", -2, "GET SET INCRBY OVERFLOW WRAP SAT FAIL", writes=True)
def _bitfield_of_any(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _bitfield(server, args, only_reads=False)


@command("bitfield_ro", -2, "GET")
def _bitfield_ro(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _bitfield(server, args, only_reads=True)


@command("bitop", -4, "AND OR XOR NOT", writes=True)
def _bitop(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    how, target = args[1].upper(), args[2]
    if how not in (b"AND", b"OR", b"XOR", b"NOT"):
        raise RedisError(SYNTAX)
    if how == b"NOT" and len(args) != 4:
        raise RedisError("ERR BITOP NOT must be called with a single source key.")
    values = [server.keys.string(key) or b"" for key in args[3:]]
    size = max(map(len, values))
    numbers = [int.from_bytes(value.ljust(size, b"\0"), "big") for value in values]
    made = numbers[0]
    for number in numbers[1:]:
        made = made & number if how == b"AND" else made | number if how == b"OR" else made ^ number
    if how == b"NOT":
        made ^= (1 << (8 * size)) - 1
    if size:
        server.keys.put(target, made.to_bytes(size, "big"))
        server.channels.notify("$", b"set", target)
    elif server.keys.delete(target):
        server.channels.notify("g", b"del", target)
    return size
