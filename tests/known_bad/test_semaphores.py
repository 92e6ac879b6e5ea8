"""Semaphores: correct ones are not accused, broken ones are found with their cause."""

from __future__ import annotations

import pytest

from lab.errors import LabError
from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.semaphores:"


@pytest.mark.parametrize(("lock", "schedules"), one_always(["Three", "InSlots", "Counted"], 60, 400))
def test_a_correct_semaphore_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(LOCKS + lock, schedules, to_the_end=True)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    seen = {one.finding for one in found.undecided} | {one.finding for one in found.limits}
    assert "overlap" not in seen
    assert found.schedules >= schedules
    assert found.kind == "a semaphore of 3 permits on one node"


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "finding", "cause"),
    [
        ("LetsInFour", "over-capacity", "lets-in-another"),
        ("FourSlots", "over-capacity", "lets-in-another"),
        ("PopsOldest", "over-capacity", "deletes-others-key"),
        ("GoesByItsOwn", "over-capacity", "deletes-others-key"),
        ("GivesBackTwice", "over-capacity", "gives-back-twice"),
        ("LosesPermits", "unavailable", "leaves-keys"),
        ("KeepsTheDead", "unavailable", "no-expiry"),
    ],
)
def test_a_broken_semaphore_is_found_with_its_cause(lock: str, finding: str, cause: str) -> None:
    found = examined(LOCKS + lock, 2_000, first=True)
    assert [(defect.findings[0], defect.cause) for defect in found.defects] == [(finding, cause)]
    assert found.defects[0].reference_lost == 0


@pytest.mark.full
def test_permits_that_end_with_the_last_one_are_found() -> None:
    """A lease is also told a wrong end by that, which may be seen first."""
    found = examined(LOCKS + "LastPermitsEnd", 2_000, first=True, causes=("wrong-expiry",))
    assert [defect.cause for defect in found.defects] == ["wrong-expiry"]
    assert "the key has what both leases left there" in found.defects[0].seen


@pytest.mark.full
def test_a_lock_of_one_holder_is_none_of_two() -> None:
    found = examined("tests.locks_to_test.in_collections:OneTooMany", 400, first=True)
    assert [defect.findings[0] for defect in found.defects] == ["overlap"]


def test_an_option_that_may_say_how_many_is_named_in_the_answer() -> None:
    found = examined(LOCKS + "SaysNothing", 1)
    assert [line.split(";")[0] for line in found.not_tried if "holder" in line] == [
        "more than one holder: it has an option limit"
    ]
    assert not [line for line in examined(LOCKS + "Three", 1).not_tried if "holder" in line]


def test_a_semaphore_on_several_nodes_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        examined(LOCKS + "OnSeveralNodes", 1)
    assert caught.value.seen == "a semaphore of 2 permits that asks 5 nodes"
