"""Numbers and options out of arguments, with the complaints of a real server."""

from __future__ import annotations

import re
from typing import Final

from lab.redis_model.reply import RedisError

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
NOT_AN_INTEGER: Final = "ERR value is not an integer or out of range"
NOT_A_FLOAT: Final = "ERR value is not a valid float"
SYNTAX: Final = "ERR syntax error"
_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_FLOAT = re.compile(rb"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?)", re.IGNORECASE)


def integer(argument: bytes, complaint: str = NOT_AN_INTEGER) -> int:
    """Return a signed 64-bit number, written as Redis writes it. Raises ``RedisError``."""
    if _INTEGER.fullmatch(argument) is not None:
        value = int(argument)
        if INTEGER_MIN <= value <= INTEGER_MAX:
            return value
    raise RedisError(complaint)


def number(argument: bytes, complaint: str = NOT_A_FLOAT) -> float:
    """Return a floating point number. Raises ``RedisError``."""
    if _FLOAT.fullmatch(argument) is None:
        raise RedisError(complaint)
    return float(argument)


def expiry_ms(value: int, unit_ms: int, base_ms: int, name: str, *, at_least_one: bool = True) -> int:
    """Return the time, in milliseconds of Unix time, that ``value`` units mean to a command.

    ``name`` is what the server calls that command where it complains, ``RedisModel.named``.
    ``base_ms`` is now for a duration and 0 for a point in time. Raises ``RedisError``.
    """
    when_ms = value * unit_ms + base_ms
    too_far = min(value * unit_ms, when_ms) < INTEGER_MIN or when_ms > INTEGER_MAX
    if too_far or (at_least_one and value <= 0):
        raise RedisError(f"ERR invalid expire time in {name}")
    return when_ms
