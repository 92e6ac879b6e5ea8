"""Glob patterns as KEYS, SCAN and PSUBSCRIBE understand them: ``*``, ``?``, ``[a-c]``, ``[^a]``, ``\\x``."""

from __future__ import annotations

import functools
import re


@functools.lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    out: list[bytes] = []
    at, end = 0, len(pattern)
    while at < end:
        character = pattern[at : at + 1]
        at += 1
        if character == b"*":
            out.append(b".*")
        elif character == b"?":
            out.append(b".")
        elif character == b"[":
            expression, at = _class(pattern, at)
            out.append(expression)
        else:
            if character == b"\\" and at < end:
                character = pattern[at : at + 1]
                at += 1
            out.append(re.escape(character))
    return re.compile(b"".join(out), re.DOTALL)


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Translate what follows an opening bracket; return it and where the pattern goes on."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members: list[bytes] = []
    while at < len(pattern) and pattern[at : at + 1] != b"]":
        if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
            at += 1
            members.append(re.escape(pattern[at : at + 1]))
            at += 1
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at : at + 1], pattern[at + 2 : at + 3]))
            members.append(re.escape(low) + b"-" + re.escape(high))
            at += 3
        else:
            members.append(re.escape(pattern[at : at + 1]))
            at += 1
    at += 1
    if not members:
        return (b"." if negated else b"(?!)"), at
    return b"[" + (b"^" if negated else b"") + b"".join(members) + b"]", at


def matches(pattern: bytes, text: bytes) -> bool:
    """Tell whether the whole text fits the pattern."""
    return _compiled(pattern).fullmatch(text) is not None
