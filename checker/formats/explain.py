"""What is said about a line of JSON that is no event: which field, what was seen, what was expected."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from checker.errors import UNREADABLE, HistoryError
from checker.history.events import Event, ForeignEvent


def located(blocks: Iterable[bytes], first: int, foreign: bool, error: Exception) -> HistoryError:
    """The same error with the line on which it is: blocks of whole lines are decoded again, line by line.

    `first` is the number of the first line.
    """
    decoder = msgspec.json.Decoder(ForeignEvent if foreign else Event)
    number = first
    for block in blocks:
        for line in block.removesuffix(b"\n").split(b"\n"):
            try:
                if line.strip():
                    decoder.decode(line)
            except UNREADABLE as found:
                return explained(found, line, Event).at(line=number)
            number += 1
    if isinstance(error, HistoryError):
        position = re.search(r"\(event (\d+)\)", error.problem)
        return error.at(line=first + int(position[1])) if position else error
    return HistoryError(str(error))


def explained(error: Exception, line: bytes, struct: type[msgspec.Struct]) -> HistoryError:
    """A decoder's message as: which field, what was seen, what was expected, what to do."""
    text = str(error)
    names = [f.name for f in msgspec.structs.fields(struct)]
    if unknown := re.search(r"unknown field `(\w+)`", text):
        from difflib import get_close_matches

        near = get_close_matches(unknown[1], names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known fields: {', '.join(names)}"
        return HistoryError("no such field", field=unknown[1], hint=hint)
    if missing := re.search(r"missing required field `(\w+)`", text):
        return HistoryError("missing", field=missing[1], hint=f"saw {shortened(line)}")
    if not isinstance(error, msgspec.ValidationError):
        return HistoryError(
            f"saw {shortened(line)}, expected one JSON object per line ({text})",
            hint="only the last line of a history may be incomplete",
        )
    path = re.search(r" - at `\$\.?([^`]*)`", text)
    field = path[1] if path else None
    seen = _seen(line, field)
    what = text.split(" - at ")[0]
    return HistoryError(f"saw {seen}: {what[:1].lower() + what[1:]}", field=field, hint=_expected(field))


def _expected(field: str | None) -> str | None:
    if field == "type":
        return "type is one of invoke, ok, fail, info"
    if field == "params.model":
        from typing import get_args

        from checker.history.events import Model

        return f"model is one of {', '.join(get_args(Model))}"
    return None


def _seen(line: bytes, field: str | None) -> str:
    try:
        value = msgspec.json.decode(line)
        for part in (field or "").split("."):
            value = value[part] if part else value
    except (*UNREADABLE, KeyError, TypeError, IndexError):
        return shortened(line)
    return shortened(msgspec.json.encode(value))


def shortened(line: bytes) -> str:
    """The beginning of a line, as a message quotes it."""
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= 60 else text[:57] + "..."
