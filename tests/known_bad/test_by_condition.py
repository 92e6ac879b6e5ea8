"""Locks by commands with a condition, such as SET … IFEQ: broken ones are found, their twins are not."""

from __future__ import annotations

import pytest

from lab.examine.command import Asked, examine
from lab.examine.examination import Progress
from lab.examine.result import Examined
from lab.search.loop import OutOfTime

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.by_condition:"
QUICK, SCHEDULES = 60, 800
"""After so many schedules a correct lock has passed, in every run of the tests and in the full one."""
SCHEDULES_MAX = 3_000
"""After so many a broken one counts as not found."""


def after(schedules: int, lock: str, *, first: bool = False, server: str = "") -> Examined:
    """The result after so many schedules, or with ``first`` after the first defect."""

    def enough(progress: Progress) -> None:
        if progress.schedules >= schedules or (first and progress.defects):
            raise OutOfTime

    return examine(Asked(LOCKS + lock, "3600s", jobs=1, server=server), enough)


@pytest.mark.parametrize("schedules", [QUICK, pytest.param(SCHEDULES, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("lock", "server"),
    [
        ("ByCondition", "redis@8.4"),
        ("ByDigest", "redis@8.4"),
        ("ByOneSet", "redis@8.4"),
        ("OnValkey", "valkey@9.0"),
        ("ByField", ""),
    ],
)
def test_a_correct_lock_is_not_accused(lock: str, server: str, schedules: int) -> None:
    found = after(schedules, lock, server=server)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= schedules


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "causes"),
    [
        ("ExtendsWithoutEnd", {"no-expiry"}),
        ("ExtendsUnlessForbidden", {"extends-others-key", "recreates-key", "overwrites-key"}),
        ("DeletesWhatIsThere", {"deletes-others-key"}),
        ("DeletesByDigestOfWhatIsThere", {"deletes-others-key"}),
    ],
)
def test_a_broken_lock_is_found_with_its_cause(lock: str, causes: set[str]) -> None:
    found = after(SCHEDULES_MAX, lock, first=True, server="redis@8.4")
    assert found.defects, f"nothing was found in {found.schedules} schedules"
    assert found.exit_code == 1
    assert found.defects[0].cause in causes, found.defects[0].seen
    assert found.defects[0].reference_lost == 0
