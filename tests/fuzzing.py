"""How much is fuzzed: a few examples, the same each time; with ``--hypothesis-profile=long`` many others."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

DEFAULT: Final = "same-each-time"
LONG: Final = "long"
TIMES: Final = 50
"""How many times as many examples a long run tries."""

settings.register_profile(DEFAULT, derandomize=True, deadline=None, database=None)
settings.register_profile(LONG, derandomize=False, deadline=None, print_blob=True)


def examples(number: int) -> int:
    """So many, or many times as many where that was asked for."""
    return number * TIMES if settings.get_current_profile_name() == LONG else number
