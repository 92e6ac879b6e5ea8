"""Whether a record holds everything that was recorded: what its file says of that, by count and digest."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

from checker.errors import HistoryError


class Completeness(StrEnum):
    """What is known about the record as a whole.

    `WHOLE`: count and digest are there and agree with what was read (or the history was never in a file).
    `COUNTED`: only the number of events is there, as in files of earlier versions; it agrees.
    `NOT_KNOWN`: neither is there, as in files of other tools: then every `ok` holds if the record is
    complete.
    A record that is known not to be whole has `problems` instead, or is refused.
    """

    WHOLE = "whole"
    COUNTED = "counted"
    NOT_KNOWN = "not-known"


_RANK: Final = {one: rank for rank, one in enumerate(Completeness)}
ALGORITHM: Final = "sha256"


def least(one: Completeness, other: Completeness) -> Completeness:
    """The one of two that promises less."""
    return max(one, other, key=_RANK.__getitem__)


def stated(digest: hashlib._Hash) -> str:
    """A SHA-256 digest as files hold it: `sha256:` and 64 hexadecimal digits."""
    return f"{ALGORITHM}:{digest.hexdigest()}"


def compared(
    where: str, counted: int, total: int, digest: str | None, seen: str
) -> tuple[Completeness, list[str]]:
    """What count and digest of the end of a file (`where`) say of the events before it.

    Returns the completeness and the problems that make every `ok` unknown. A wrong count without a digest
    is such a problem.

    Raises:
        HistoryError: the content is not what the digest was made of, so that no finding can be trusted.
    """
    miscounted = f"the {where} counts {counted} events, the file holds {total}"
    if digest is not None and digest != seen:
        what = f"the record was changed after it was written: saw {seen}, expected {digest}"
        if counted != total:
            what = f"the record was changed after it was written: {miscounted}"
        raise HistoryError(
            what,
            field="digest",
            hint=f"get the file once more; without its {where} what is left can be judged, but never as ok",
        )
    if counted != total:
        return Completeness.NOT_KNOWN, [miscounted]
    return (Completeness.COUNTED if digest is None else Completeness.WHOLE), []
