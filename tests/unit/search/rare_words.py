"""A module beside a lock, which imports it."""

from __future__ import annotations


def words_of(times: int) -> str:
    """How often it failed, in words."""
    if times > 1:
        return "not held, again"
    return "not held"
