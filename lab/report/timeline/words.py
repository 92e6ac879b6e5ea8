"""Formatting of numbers, names and texts for pictures."""

from __future__ import annotations

import re
import unicodedata

MS_NS = 1_000_000
S_NS = 1_000_000_000
_SPACE_NOT_IN_NUMBER = re.compile(r"(?<!\d) | (?!\d|ms\b|s\b)")


def clean(text: object, longest: int = 400) -> str:
    """Any text as printable text on one line: no control, surrogate or direction-changing characters.

    Args:
        text: from a user, a driver or a library.
        longest: number of characters kept; a longer text ends in an ellipsis.
    """
    out = []
    for char in str(text)[: 4 * longest]:
        kind = unicodedata.category(char)
        if kind in ("Zl", "Zp", "Zs") or char in "\n\r\t":
            out.append(" " if char != "\u00a0" else char)
        elif kind in ("Cc", "Cs", "Cn", "Co") or char in "\ufffe\uffff":
            out.append("\N{REPLACEMENT CHARACTER}")
        elif kind != "Cf":
            out.append(char)
    short = re.sub(" {2,}", " ", "".join(out)).strip()
    return short if len(short) <= longest else short[: longest - 1].rstrip() + "…"


def grouped(number: int) -> str:
    """9876 → "9 876" (a plain space, so that the text can be searched for)."""
    return f"{number:,}".replace(",", " ")


def duration(span_ns: int) -> str:
    """A length of time, in ms up to 100 s and in s from there on, with at least two digits."""
    size = abs(span_ns)
    sign = "−" if span_ns < 0 else ""
    if size >= 100 * S_NS:
        return f"{sign}{grouped(round(size / S_NS))} s"
    if size >= 10 * MS_NS or size % MS_NS == 0:
        return f"{sign}{grouped(round(size / MS_NS))} ms"
    if size >= MS_NS // 10:
        return f"{sign}{size / MS_NS:.1f} ms"
    return f"{sign}{size / 1000:.0f} µs"


def short_duration(span_ns: int) -> str:
    """A length of time in few characters: "11 s", "1.5 s", "250 ms"."""
    size = abs(span_ns)
    sign = "−" if span_ns < 0 else ""
    if size >= S_NS:
        seconds = f"{size / S_NS:.3f}".rstrip("0").rstrip(".")
        if len(seconds) > 5:
            seconds = f"{size / S_NS:.1f}".rstrip("0").rstrip(".")
        return f"{sign}{seconds} s"
    return duration(span_ns)


def signed(span_ns: int) -> str:
    """A step of a clock: "+11 s", "−60 s"."""
    return ("+" if span_ns >= 0 else "") + short_duration(span_ns)


def pieces(text: str) -> list[str]:
    """Words at which a line may be broken; "9 876 ms" keeps its number in one piece."""
    return [piece for piece in _SPACE_NOT_IN_NUMBER.split(text) if piece]


def circled(number: int) -> str:
    """The mark of a fault inside running text: ① … ⑩, then (11)."""
    return chr(0x2460 + number - 1) if 1 <= number <= 10 else f"({number})"


def listed(names: list[str] | tuple[str, ...], most: int = 4) -> str:
    """Join names ("alice, bob and carol"); longer lists are cut ("a, b, c, d and 5 more")."""
    if len(names) > most:
        return ", ".join(names[:most]) + f" and {len(names) - most} more"
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]
