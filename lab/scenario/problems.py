"""Errors of the models: pydantic errors with what was seen, what was expected and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from lab.addresses import masked
from lab.errors import did_you_mean

PROBLEM: Final = "lab_problem"
"""The pydantic error type of every problem made here; its context holds seen, expected and hint."""

Loc = tuple[str | int, ...]
"""A path into a scenario, as pydantic keeps it: ("steps", 2, "cut", "nodes")."""

_SHOWN_MAX: Final = 60


def shown(value: object) -> str:
    """`value` in quotes for a message: one line, no control characters, at most about 60 characters."""
    text = masked(value if isinstance(value, str) else str(value))
    short = text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
    return f'"{printable(short)}"'


def printable(text: str) -> str:
    """`text` on one line, with what a terminal would act upon written as an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def key_path(parts: Loc) -> str:
    """A path as people write it: "steps[2].cut.nodes"."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            word = part if re.fullmatch(r"[\w-]{1,60}", part) else shown(part)
            text += f".{word}" if text else word
    return text


def kind(value: object) -> str:
    """What `value` is in YAML: "a list", "nothing", "the number 5", or a text in quotes."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {shown(value)[1:-1]}"
    if isinstance(value, str):
        return shown(value)
    return (
        "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list | tuple) else "a value"
    )


def choice(words: Iterable[str]) -> str:
    """`words` as a choice: "a, b or c"."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def nearest(word: object, words: Iterable[str]) -> str | None:
    """The hint "did you mean …?" for the word nearest to `word`, or None if none comes near."""
    near = did_you_mean(str(word), words)
    return f'did you mean "{near}"?' if near is not None else None


def problem(seen: str, expected: str, hint: str | None = None) -> PydanticCustomError:
    """An error to raise in a validator: what was seen, what was expected, what to do (plain sentences)."""
    context: dict[str, Any] = {"seen": seen, "expected": expected, "hint": hint}
    return PydanticCustomError(PROBLEM, "{seen}; expected {expected}", context)


def unknown_word(what: str, word: str, words: Iterable[str]) -> PydanticCustomError:
    """The problem of a `word` that is no `what` ("client", "verb"), with the nearest of the `words`."""
    known = list(words)
    return problem(f"unknown {what} {shown(word)}", choice(known), nearest(word, known))


def problems(title: str, found: Iterable[tuple[Loc, PydanticCustomError, object]]) -> ValidationError:
    """Several problems as one error; pydantic puts the raising validator's own location before each `Loc`."""
    details = [InitErrorDetails(type=error, loc=loc, input=value) for loc, error, value in found]
    return ValidationError.from_exception_data(title, details)
