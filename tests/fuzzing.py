"""How much is fuzzed: a few examples, the same each time; with ``--hypothesis-profile=long`` many others.

With ``few`` it is a tenth: for `tests.mutation`, which runs tests thousands of times. `make test`
takes ``half``.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

DEFAULT: Final = "same-each-time"
LONG: Final = "long"
FEW: Final = "few"
HALF: Final = "half"
TIMES: Final = 50
"""How many times as many examples a long run tries."""

settings.register_profile(DEFAULT, derandomize=True, deadline=None, database=None)
settings.register_profile(FEW, derandomize=True, deadline=None, database=None)
settings.register_profile(HALF, derandomize=True, deadline=None, database=None)
settings.register_profile(LONG, derandomize=False, deadline=None, print_blob=True)


def examples(number: int) -> int:
    """So many, or the share or the multiple of that which the profile says."""
    share = {LONG: TIMES, HALF: 1 / 2, FEW: 1 / 10}.get(settings.get_current_profile_name() or "", 1)
    return max(1, int(number * share))
