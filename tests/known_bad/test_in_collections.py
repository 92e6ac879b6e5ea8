"""Locks in sorted sets, lists and sets: correct ones are not accused, broken ones found with their cause."""

from __future__ import annotations

import pytest

from lab.examine.command import Asked, situations_of
from lab.examine.ledger.finders import all_violations
from lab.search.runner import run_trial
from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.in_collections:"


@pytest.mark.parametrize(
    ("lock", "schedules"),
    one_always(["OnePermit", "InAList", "InASet", "Queue", "SeenBeforeItStands"], 60, 400),
)
def test_a_correct_lock_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(LOCKS + lock, schedules, to_the_end=True)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= schedules


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "cause"),
    [
        ("OneTooMany", "lets-in-another"),
        ("MakesRoom", "deletes-others-key"),
        ("PopsFirst", "deletes-others-key"),
        ("KeepsPlaces", "no-expiry"),
        ("StandsUnseen", "deletes-others-key"),
    ],
)
def test_a_broken_lock_is_found_with_its_cause(lock: str, cause: str) -> None:
    found = examined(LOCKS + lock, 2_000, first=True)
    assert [defect.cause for defect in found.defects] == [cause]
    assert found.defects[0].reference_lost == 0


@pytest.mark.parametrize(
    ("lock", "found"), [("StandsUnseen", {"unavailable"}), ("SeenBeforeItStands", set())]
)
def test_who_is_taken_out_of_a_queue_while_it_joins_is_seen_at_once(lock: str, found: set[str]) -> None:
    with situations_of(Asked(LOCKS + lock)) as sorts:
        trials = list(sorts["asked in between"])
        assert trials
        assert {name for trial in trials for name in all_violations(run_trial(trial))} == found
