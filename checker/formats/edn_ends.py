"""The two comments around a history in EDN: parameters on the first line, count and digest on the last.

    ; history 1 {"rho" 0.001, "nodes" 5}
    {:type :invoke, :f :acquire, ...}
    ; end {"events" 1, "digest" "sha256:..."}

The digest is that of all bytes before the last line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from checker.errors import HistoryError
from checker.history import completeness
from checker.history.completeness import Completeness, least, stated
from checker.history.events import FORMAT_VERSION, Params
from checker.history.history import History

HEADER: Final = f"; history {FORMAT_VERSION} "
TRAILER: Final = "; end "
FormOf = Callable[[str], Any]
"""Reads the only form of a text, in builtin types; raises `ValueError` if there is none, or more."""


class Trailer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line: how many events, the digest of what stands before it, and the one that was seen."""

    events: int
    digest: str
    seen: str = ""


def header_of(history: History) -> dict[str, Any]:
    """What the first line of a history says, after `HEADER`."""
    params = history.params.given()
    if history.complete is not Completeness.WHOLE:
        params["complete"] = str(history.complete)
    return params


def trailer_of(events: int, digest: hashlib._Hash) -> dict[str, Any]:
    """What the last line of a history that is whole says, after `TRAILER`."""
    return {"events": events, "digest": stated(digest)}


def header(text: str, form_of: FormOf) -> tuple[Params, Completeness] | None:
    """The parameters in the comment on the first line, and what they say of completeness, if it is ours.

    Raises:
        HistoryError: our comment, but not what it should hold.
    """
    first = text.partition("\n")[0]
    if not first.startswith(HEADER):
        return None
    try:
        form = {k.replace("-", "_"): v for k, v in form_of(first.removeprefix(HEADER)).items()}
        complete = Completeness(form.pop("complete", Completeness.WHOLE))
        return msgspec.convert(form, Params), complete
    except (AttributeError, ValueError) as error:
        raise HistoryError(
            f"no parameters: {error}", line=1, hint="delete the line to use defaults"
        ) from None


def trailer(text: str, has_header: bool, form_of: FormOf) -> Trailer | None:
    """What the comment on the last line says, if it is ours.

    Raises:
        HistoryError: our comment, but not what it should hold, or without a header.
    """
    kept = text.rstrip()
    start = kept.rfind("\n") + 1
    if not kept.startswith(TRAILER, start):
        return None
    line = text.count("\n", 0, start) + 1
    if not has_header:
        raise HistoryError(
            "saw the comment that ends a history, and none that begins it: the beginning is missing",
            line=line,
            hint="get the file once more; without its last line it is judged as one of another tool",
        )
    try:
        found = msgspec.convert(form_of(kept[start + len(TRAILER) :]), Trailer)
    except ValueError as error:
        raise HistoryError(
            f"no count and digest: {error}", line=line, hint="get the file once more"
        ) from None
    before = text[:start].encode("utf-8", "surrogatepass")
    return msgspec.structs.replace(found, seen=stated(hashlib.sha256(before)))


def compared(
    header: tuple[Params, Completeness] | None, trailer: Trailer | None, total: int, problems: list[str]
) -> Completeness:
    """What is known of the completeness of `total` events; what is missing is added to the problems.

    Raises:
        HistoryError: the content is not what was written.
    """
    if header is None:
        return Completeness.NOT_KNOWN
    if trailer is None:
        if not problems:
            problems.append("the history is truncated: its last line, with count and digest, is missing")
        return Completeness.NOT_KNOWN
    found, more = completeness.compared("last line", trailer.events, total, trailer.digest, trailer.seen)
    problems += more
    return least(found, header[1])
