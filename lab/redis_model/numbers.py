"""How servers write numbers that are no whole ones: to scripts' commands, and as scores."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite, isinf
from typing import Final

from lab.redis_model.known import since
from lab.redis_model.reply import RedisError
from lab.servers import Server

SINCE_SHORT_FLOATS: Final = (7, 2)
"""Numbers get the fewest digits that tell them apart, in Redis 7.2 and every Valkey; before always 17."""
SINCE_PLAIN_INTEGERS: Final = (7, 4)
"""Redis 7.2 writes 100000000 as 1e+8, which no command takes for a number of milliseconds."""

WHOLE_MAX: Final = 2**52
"""Smaller scores without a fraction are written as whole numbers."""


def writes_short_floats(server: Server) -> bool:
    """Whether a server writes as few digits as possible."""
    return since(server, redis=SINCE_SHORT_FLOATS)


def argument_text(server: Server, value: float) -> bytes:
    """Write a number as a server hands it from a script to a command; whole numbers are integers here."""
    if not writes_short_floats(server):
        return b"%.17g" % value
    is_plain = since(server, redis=SINCE_PLAIN_INTEGERS)
    return b"%d" % value if isinstance(value, int) and is_plain else _shortest(float(value))


def score_text(server: Server, value: float) -> bytes:
    """Write the score of a member as the server answers it."""
    if isinf(value):
        return b"inf" if value > 0 else b"-inf"
    if not writes_short_floats(server):
        return b"%.17g" % value
    is_plain = value.is_integer() and abs(value) < WHOLE_MAX
    return b"%d" % value if is_plain else _shortest(value)


def sum_text(one: bytes, other: bytes, complaint: str) -> bytes:
    """Add two numbers and write the sum with at most 17 digits of a fraction. Raises ``RedisError``."""
    total = Decimal(one.decode()) + Decimal(other.decode())
    if not total.is_finite():
        raise RedisError(complaint)
    text = f"{total:.17f}".rstrip("0").rstrip(".")
    return (text if text != "-0" else "0").encode()


def _shortest(value: float) -> bytes:
    """Write a number as the library fpconv does, with the fewest digits that tell it apart."""
    if not isfinite(value) or not value:
        return b"%g" % value
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, whole = "".join(map(str, digits)), len(digits) + exponent
    if exponent >= 0 and whole - 1 < len(digits) + 7:
        text += "0" * exponent
    elif exponent < 0 and (exponent > -7 or abs(whole - 1) < 4):
        text = f"{text[:whole]}.{text[whole:]}" if whole > 0 else f"0.{'0' * -whole}{text}"
    else:
        text = f"{text[0]}{'.' if text[1:] else ''}{text[1:]}e{whole - 1:+d}"
    return f"{'-' * sign}{text}".encode()
