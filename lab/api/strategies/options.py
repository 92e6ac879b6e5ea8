"""A Hypothesis strategy for the options of a lock: values near the defaults, written as in a scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from lab.durations import format_duration
from lab.locks import lock_class, name_of
from lab.locks.base import OptionError, OptionValue
from lab.locks.options import read_options

MS_NS: Final = 1_000_000
TIMES: Final = (1.0, 2.0, 5.0)
"""How much larger than by default: a margin for clocks may be larger than it must be, never smaller."""
SHARES: Final = (1.0, 0.5, 0.2)
"""How much smaller a duration may be as well, unless it is part of that margin."""


def lock_options(lock: str | Callable[..., Any] = "redlock") -> SearchStrategy[dict[str, OptionValue]]:
    """Options of a lock, those that differ from the defaults; the simplest: none.

    The options are the fields of the class's ``OPTIONS``, a dataclass as the lab's own locks have it; without
    one there are none. Durations (fields that end in ``_ns``) are drawn from a fifth of the default to five
    times as much, numbers from 1 to twice the default, truth values from both; what is 0 by default stays so,
    since there 0 means that the lock decides. Options that the dataclass refuses together are left out.

    Args:
        lock: a name, ``package.module:Class``, or the class itself.

    Raises:
        LabError: an unknown lock.
    """
    kind: Any = getattr(lock_class(name_of(lock)), "OPTIONS", None)
    if not dataclasses.is_dataclass(kind) or not isinstance(kind, type):
        return st.just({})
    hints = get_type_hints(kind)
    values: dict[str, SearchStrategy[OptionValue]] = {}
    for field in dataclasses.fields(kind):
        found = _values(field.name, field.default, hints[field.name])
        if found is not None:
            values[field.name.removesuffix("_ns")] = found
    return st.fixed_dictionaries({}, optional=values).filter(lambda options: _fits(kind, options))


def _values(name: str, default: Any, hint: Any) -> SearchStrategy[OptionValue] | None:
    """What one option may be; None: nothing but its default."""
    if hint is bool and isinstance(default, bool):
        return st.sampled_from((default, not default))
    if not isinstance(default, int | float) or default <= 0:
        return None
    if name.endswith("_ns"):
        shares = TIMES if name.startswith("drift") else (*TIMES, *SHARES[1:])
        sizes_ns = (max(round(default * share / MS_NS), 1) * MS_NS for share in shares)
        return st.sampled_from([format_duration(size_ns) for size_ns in sizes_ns])
    if hint is float:
        return st.sampled_from([round(default * times, 6) for times in TIMES])
    return st.integers(1, 2 * int(default)) if hint is int else None


def _fits(kind: type[Any], options: dict[str, OptionValue]) -> bool:
    try:
        read_options(kind, options)
    except OptionError:
        return False
    return True
