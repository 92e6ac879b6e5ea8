"""Reads a lock's options from the form of a scenario file into typed values."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Final, TypeVar, cast, get_type_hints

from lab.durations import DurationError, parse_duration_ns
from lab.locks.base import OptionError, Options, OptionValue

T = TypeVar("T")


_ACCEPTED: Final[dict[Any, tuple[type, ...]]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
}
_WORDS: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


@functools.cache
def _fields_of(kind: Any) -> dict[str, tuple[str, Any]]:
    """The fields of a dataclass and their types, by the names of the options."""
    hints = get_type_hints(kind)
    return {each.name.removesuffix("_ns"): (each.name, hints[each.name]) for each in dataclasses.fields(kind)}


def read_options(kind: type[T], options: Options) -> T:
    """Build the dataclass ``kind`` from ``options``.

    A field ``node_timeout_ns`` is written ``node_timeout: 50ms`` in a scenario; others keep their names.

    Raises:
        OptionError: an unknown option, or a value of the wrong kind.
    """
    by_option = _fields_of(cast("Any", kind))
    values: dict[str, Any] = {}
    for option, value in options.items():
        if option not in by_option:
            raise OptionError(
                option, "an unknown option", "one of " + ", ".join(sorted(by_option)), sorted(by_option)
            )
        name, hint = by_option[option]
        values[name] = _duration(option, value) if name.endswith("_ns") else _plain(option, value, hint)
    try:
        return kind(**values)
    except ValueError as error:
        raise OptionError(", ".join(options), "values that do not fit together", str(error)) from error


def _duration(option: str, value: OptionValue) -> int:
    if not isinstance(value, str):
        raise OptionError(option, repr(value), "a duration with its unit, such as 50ms")
    try:
        return parse_duration_ns(value)
    except DurationError as error:
        raise OptionError(option, repr(value), "a duration with its unit, such as 50ms") from error


def _plain(option: str, value: OptionValue, hint: Any) -> OptionValue:
    if not isinstance(value, _ACCEPTED[hint]) or (isinstance(value, bool) and hint is not bool):
        raise OptionError(option, repr(value), _WORDS[hint])
    return value
