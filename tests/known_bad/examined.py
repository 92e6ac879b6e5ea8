"""Examining a lock for so many schedules, whatever the machine is doing meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from lab.examine.command import Asked, examine
from lab.examine.examination import Progress
from lab.examine.result import Examined
from lab.search.loop import OutOfTime


def one_always(locks: Iterable[str], some: int, most: int) -> list[Any]:
    """Locks with numbers of schedules: the first with ``some`` always, each with ``most`` in the full run."""
    first, *others = locks
    full = (pytest.param(lock, most, marks=pytest.mark.full) for lock in (first, *others))
    return [(first, some), *full]


def examined(
    lock: str,
    schedules: int,
    *,
    seed: int = 0,
    first: bool = False,
    to_the_end: bool = False,
    causes: Collection[str] = (),
    **asked: Any,
) -> Examined:
    """The result after so many schedules, or with ``first`` once a defect is made smaller: that one alone.

    With ``causes`` that is the first one with one of these: a lock may have other defects besides. Schedules
    count what it takes to look into what is seen, too; with ``to_the_end`` that comes after so many.
    """
    cause = ""

    def enough(progress: Progress) -> None:
        nonlocal cause
        noted = [each.cause for each in progress.found if not causes or each.cause in causes]
        if first and noted and progress.settled:
            cause = noted[0]
            raise OutOfTime
        if progress.schedules >= schedules and not to_the_end:
            raise OutOfTime

    tried = schedules if to_the_end else None
    result = examine(Asked(lock, "3600s", seed, jobs=1, schedules=tried, **asked), enough)
    return replace(result, defects=tuple(each for each in result.defects if cause in ("", each.cause)))
