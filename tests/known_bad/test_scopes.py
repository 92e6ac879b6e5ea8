"""Objects that ``with`` is used on, also inside of itself, and acquires with a time-out."""

from __future__ import annotations

import pytest

from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.ordinary.scopes:"


@pytest.mark.parametrize(("lock", "schedules"), one_always(["Refusing", "Counting", "Waiting"], 60, 400))
def test_a_correct_lock_is_not_accused(lock: str, schedules: int) -> None:
    # Their client repeats what was not answered, so that keys stay; nothing is said of that here.
    found = examined(LOCKS + lock, schedules, to_the_end=True, options=(("retries", 0),))
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= schedules


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "finding", "cause"),
    [
        ("GivesAllBack", "overlap", "inner-exit-releases"),
        ("WaitingOn", "late-return", "ignores-time-out"),
        ("CountsItsTries", "late-return", "ignores-time-out"),
        ("GivesAllBackInThreads", "overlap", "inner-exit-releases"),
    ],
)
def test_a_broken_lock_is_found_without_any_fault(lock: str, finding: str, cause: str) -> None:
    found = examined(LOCKS + lock, 600, first=True)
    assert [(defect.findings[0], defect.cause) for defect in found.defects] == [(finding, cause)]
    assert not found.defects[0].trial.faults
    assert found.defects[0].reference_lost == 0
