"""Locks with a line of those who wait: correct ones are not accused, broken ones found with their cause."""

from __future__ import annotations

import pytest

from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.waiting_lines:"


@pytest.mark.parametrize(("lock", "schedules"), one_always(["HandedOver", "FirstInLine", "Dated"], 60, 500))
def test_a_correct_lock_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(LOCKS + lock, schedules, to_the_end=True)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= schedules


@pytest.mark.full
@pytest.mark.timeout(900)  # clients that ask often: minutes where others compute
@pytest.mark.parametrize(
    ("lock", "cause", "seen"),
    [
        ("CountsFromItsLook", "late-deadline", "claimed the lease until"),
        ("StaysInLine", "leaves-keys", "left its key on A"),
    ],
)
def test_a_broken_lock_is_found_with_its_cause(lock: str, cause: str, seen: str) -> None:
    (defect,) = examined(LOCKS + lock, 1_500, first=True).defects
    assert (defect.cause, defect.reference_lost) == (cause, 0)
    assert seen in defect.seen
