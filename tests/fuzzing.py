"""How much is fuzzed: a few examples, the same each time; with ``--hypothesis-profile=long`` many others.

With ``few`` it is a tenth of the first: for `tests.mutation`, which runs tests thousands of times.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

DEFAULT: Final = "same-each-time"
LONG: Final = "long"
FEW: Final = "few"
TIMES: Final = 50
"""How many times as many examples a long run tries."""

settings.register_profile(DEFAULT, derandomize=True, deadline=None, database=None)
settings.register_profile(FEW, derandomize=True, deadline=None, database=None)
settings.register_profile(LONG, derandomize=False, deadline=None, print_blob=True)


def examples(number: int) -> int:
    """So many, or many times as many, or a tenth, where that was asked for."""
    profile = settings.get_current_profile_name()
    return number * TIMES if profile == LONG else max(1, number // 10) if profile == FEW else number
