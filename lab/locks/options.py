"""Reads a lock's options from the form of a scenario file into typed values."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar, cast, get_type_hints

from lab.durations import DurationError, parse_duration_ns
from lab.locks.base import OptionError, Options, OptionValue

T = TypeVar("T")


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def read_options(kind: type[T], options: Options) -> T:
    """Build the dataclass ``kind`` from ``options``.

    A field ``node_timeout_ns`` is written ``node_timeout: 50ms`` in a scenario; others keep their names.

    Raises:
        OptionError: an unknown option, or a value of the wrong kind.
    """
    hints = _hints_of(cast("Any", kind))
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    by_option = {name.removesuffix("_ns"): name for name in fields}
    values: dict[str, Any] = {}
    for option, value in options.items():
        if option not in by_option:
            raise OptionError(
                option, "an unknown option", "one of " + ", ".join(sorted(by_option)), sorted(by_option)
            )
        name = by_option[option]
        values[name] = (
            _duration(option, value) if name.endswith("_ns") else _plain(option, value, hints[name])
        )
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
    accepted: dict[Any, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    if not isinstance(value, accepted[hint]) or (isinstance(value, bool) and hint is not bool):
        raise OptionError(option, repr(value), words[hint])
    return value
