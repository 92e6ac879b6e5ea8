"""Examining a lock for so many schedules, whatever the machine is doing meanwhile."""

from __future__ import annotations

from typing import Any

from lab.examine.command import Asked, examine
from lab.examine.result import Examined
from lab.examine.tried import Progress
from lab.search.loop import OutOfTime


def examined(
    lock: str,
    schedules: int,
    *,
    seed: int = 0,
    first: bool = False,
    to_the_end: bool = False,
    **asked: Any,
) -> Examined:
    """The result after so many schedules, or with ``first`` once a defect is made smaller.

    They count what it takes to look into what is seen; with ``to_the_end`` that comes after so many.
    """

    def enough(progress: Progress) -> None:
        if (progress.schedules >= schedules and not to_the_end) or (
            first and progress.defects and progress.settled
        ):
            raise OutOfTime

    tried = schedules if to_the_end else None
    return examine(Asked(lock, "3600s", seed, jobs=1, schedules=tried, **asked), enough)
