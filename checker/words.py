"""Durations, stamps and lists as a reader wants them: rounded, with one unit."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

_NS_PER_MS = 1e6
_MS_PER_S = 1_000.0
_COARSE_NS = 50_000_000


def in_words(duration_ns: int, *, at_least: bool = False) -> str:
    """A duration rounded to what a reader uses: `9.7 s`, `370 ms`, `0.4 ms`; `at_least` rounds it down."""
    size = abs(duration_ns) / _NS_PER_MS
    sign = "−" if duration_ns < 0 else ""
    if size >= _MS_PER_S:
        seconds = size / _MS_PER_S
        return f"{sign}{_rounded(seconds, 1 if seconds < 60 else 0, at_least)} s"
    return f"{sign}{_rounded(size, 0 if size >= 10 else 1 if size >= 0.05 else 3, at_least)} ms"


def instant(since_start_ns: int) -> str:
    """A stamp since time zero, in seconds: `10.19 s`; in milliseconds if it is small."""
    if 0 < abs(since_start_ns) < _COARSE_NS:
        return in_words(since_start_ns)
    return f"{since_start_ns / _NS_PER_MS / _MS_PER_S:.2f} s"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Names as a sentence lists them: `A`, `A and B`, `A, B and C`; nothing of none."""
    *before, end = tuple(names) or ("",)
    return f"{', '.join(before)} {last} {end}" if before else end


def _rounded(value: float, digits: int, down: bool) -> str:
    text = f"{floor(value * 10**digits) / 10**digits if down else value:.{digits}f}"
    return text.removesuffix(".0") if "." in text else text
