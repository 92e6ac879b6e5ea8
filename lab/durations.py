"""Durations as text ("250ms", "+11s", "1.5s") and as the lab keeps them: integer nanoseconds."""

from __future__ import annotations

import functools
import re
from decimal import Context, Decimal, Inexact, Rounded
from typing import Final

UNITS_NS: Final[dict[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Nanoseconds in one of each unit."""

EXPECTED: Final = "a number with one of the units ns, us, ms, s, m, h, like 250ms, 1.5s or 2m"
"""The `expected` of every error about a duration."""

MAX_NS: Final = 100 * 365 * 24 * UNITS_NS["h"]
"""A hundred years: far beyond any run, and the sum of two of them still fits in 64 bits."""

PATTERN: Final = r"[0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h)"
"""The grammar of a duration without its sign, as the JSON schema shows it."""

_DURATION: Final = re.compile(rf"(?P<number>[+-]?[0-9]+(\.[0-9]+)?)(?P<unit>{'|'.join(UNITS_NS)})")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_LENGTH_MAX: Final = 40
_EXACT: Final = Context(prec=80, traps=[Inexact, Rounded])


class DurationError(ValueError):
    """A text that is no duration; the message is one sentence that says what is wrong with it."""


@functools.lru_cache(maxsize=256)
def parse_duration_ns(text: str) -> int:
    """The duration written in `text`, in nanoseconds, exact.

    `text` is an optional sign, a decimal number and a unit ("250ms", "+11s", "-60s", "100us"), with no space
    between them. Raises `DurationError` (a `ValueError`) for anything else, for a fraction of a nanosecond,
    and beyond a hundred years.
    """
    # The micro sign and the Greek letter mu look the same: both mean us.
    plain = text.strip().replace("µ", "u").replace("μ", "u")
    match = _DURATION.fullmatch(plain) if len(plain) <= _LENGTH_MAX else None
    if match is None:
        raise DurationError(_complaint(plain))
    exact_ns = _EXACT.multiply(Decimal(match["number"]), Decimal(UNITS_NS[match["unit"]]))
    duration_ns = int(exact_ns)
    if exact_ns != duration_ns:
        raise DurationError("has a fraction of a nanosecond")
    if abs(duration_ns) > MAX_NS:
        raise DurationError("is longer than a hundred years")
    return duration_ns


def format_duration(duration_ns: int, *, signed: bool = False) -> str:
    """The shortest exact text that `parse_duration_ns` reads back as `duration_ns` ("1.5s", "250ms", "2m").

    With `signed`, a positive duration gets its "+". Among equally short texts a whole number wins, then the
    larger unit. Any integer has a text; those beyond a hundred years can't be read back.
    """
    size_ns = abs(duration_ns)
    texts = [text for unit in reversed(UNITS_NS) if (text := _in_unit(size_ns, unit))]
    shortest = min(texts, key=lambda text: (len(text), "." in text)) if size_ns else "0s"
    sign = "-" if duration_ns < 0 else "+" if signed and duration_ns > 0 else ""
    return sign + shortest


def _in_unit(size_ns: int, unit: str) -> str | None:
    """`size_ns` written exactly in `unit`, or None where that is an endless fraction (a second in hours)."""
    whole, rest_ns = divmod(size_ns, UNITS_NS[unit])
    if not rest_ns:
        return f"{whole}{unit}"
    digits = 14  # an hour is 2^13 * 3^2 * 5^11 * 10 ns: a fraction that ends does so within 14 digits
    scaled, lost = divmod(rest_ns * 10**digits, UNITS_NS[unit])
    fraction = f"{scaled:0{digits}d}".rstrip("0")
    return None if lost else f"{whole}.{fraction}{unit}"


def _complaint(text: str) -> str:
    """Why `text` isn't a duration, as the end of a sentence that begins with it."""
    if len(text) > _LENGTH_MAX:
        return "is too long for a duration"
    if not text:
        return "is empty"
    if _NUMBER.fullmatch(text):
        return "has no unit"
    number = _NUMBER.match(text)
    if number is None:
        return "is not a duration"
    unit = text[number.end() :]
    if unit.strip() in UNITS_NS:
        return "has a space before its unit"
    return (
        f"has an unknown unit {unit!r}" if len(unit) <= 12 and unit.isprintable() else "has an unknown unit"
    )


def short_duration(span_ns: int) -> str:
    """A duration for people: in whole milliseconds where it is longer than a few."""
    ms_ns = UNITS_NS["ms"]
    return format_duration(round(span_ns / ms_ns) * ms_ns if span_ns >= 10 * ms_ns else span_ns)
