"""Locks that their holder takes again: correct ones are not accused, broken ones are found."""

from __future__ import annotations

from contextlib import closing
from itertools import chain, islice
from random import Random

import pytest
from msgspec.structs import replace

from lab.examine.examination import Examination, tried
from lab.examine.kinds import TAKEN_AGAIN, reference_in
from lab.examine.profile.learn import learn
from lab.examine.programs import ALICE, Setting
from lab.examine.result import Part
from lab.examine.schedules.reentrant import ASKS, nested, reentrance, taken_again
from lab.search.command import OPTIONS
from lab.search.loop import Budget
from lab.search.runner import run_trial, trials
from lab.search.workers import Workers
from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.ordinary.nested:"
SOME, MOST = 60, 250
CORRECT: dict[str, dict[str, int]] = {
    **{LOCKS + name: {"retries": 0} for name in ("DepthIsSent", "CountsByItself")},
    **{LOCKS + name: {"retries": 0} for name in ("AnEntryEach", "CountsAndLooks")},
    "tests.locks_to_test.unusual:Reentrant": {},
    "tests.locks_to_test.unusual:AFieldEach": {},
    **{name: {} for name in sorted({*TAKEN_AGAIN.values()})},
}


def of_nested(lock: str, most: int) -> Examination:
    """What is seen of a lock when its holder takes it again, in the first of all such schedules."""
    with closing(Workers(tried, 1)) as workers, trials():
        setting = Setting(lock, {**CORRECT[lock]}, 3 if lock == TAKEN_AGAIN["redlock"] else 1)
        profile, again = learn(setting), reentrance(setting).setting
        assert again is not None
        one = Examination(profile.kind, OPTIONS, Budget(36_000), workers=workers)
        found = chain(taken_again(again, profile), nested(again, profile, Random(0)))
        one.try_all(Part("nested", ""), islice(found, most))
    return one


@pytest.mark.parametrize(("lock", "most"), one_always(CORRECT, SOME, MOST))
def test_a_correct_lock_is_not_accused(lock: str, most: int) -> None:
    one = of_nested(lock, most)
    assert [(defect.cause, defect.seen) for defect in one.defects] == []
    assert not one.failed
    assert not [finding for finding, _ in one.undecided if finding != "unavailable"]


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_reference_is_granted_the_lock_as_often_as_it_is_taken(nodes: int) -> None:
    usual = "single" if nodes == 1 else "redlock"
    with trials():
        setting = Setting(reference_in(usual, reentrant=True), {}, nodes)
        assert reentrance(setting).setting is not None
        first = next(taken_again(setting, learn(setting)))
        plain = replace(first, lock=usual)
        granted = [
            [event["type"] for event in run_trial(trial).events if event.get("client") == ALICE]
            for trial in (first, plain)
        ]
    assert "fail" not in granted[0]
    assert "fail" in granted[1]
    assert reference_in(usual, reentrant=False) == usual


@pytest.mark.full
def test_a_defect_in_a_nested_schedule_is_none_if_that_reference_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = "tests.locks_to_test.unusual:OfTheLastLength"
    monkeypatch.setitem(TAKEN_AGAIN, "single", lock)
    found = examined(lock, 200, to_the_end=True)
    assert [defect.cause for defect in found.defects if defect.trial.reentrant] == []
    assert [each.why for each in found.undecided if each.why.startswith(f"{lock} has it as well")]


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "finding", "causes"),
    [
        ("ReentrantOnce", "overlap", ("inner-exit-releases",)),
        ("CountsOnNode", "unavailable", ("leaves-keys",)),
        ("CountsAnybodyDown", "overlap", ("deletes-others-key",)),
        ("ShortensInside", "overlap", ("wrong-expiry",)),
        ("NeverLooksAtTheEnd", "overlap", ("late-deadline",)),
        ("CountsTooLate", "overlap", ("returns-released",)),
    ],
)
def test_a_broken_lock_is_found(lock: str, finding: str, causes: tuple[str, ...]) -> None:
    found = examined(LOCKS + lock, 300, to_the_end=True, options=(("retries", 0),))
    assert [defect.cause for defect in found.defects if finding in defect.findings] == [*causes]
    defect = next(each for each in found.defects if finding in each.findings)
    assert (defect.reference_lost, defect.reproduced) == (0, 20)
    if lock == "NeverLooksAtTheEnd":  # and not that Bob's claim is rounded
        assert "it is the lease of 0 ms, which was over" in defect.seen


def test_a_lease_within_another_one_does_not_shorten_it() -> None:
    found = examined("tests.locks_to_test.unusual:OfTheLastLength", 400, first=True)
    assert [(defect.findings[0], defect.cause) for defect in found.defects] == [("overlap", "wrong-expiry")]
    assert "now ends before the longer of them" in found.defects[0].seen


def test_of_a_lock_that_does_not_say_whether_it_may_be_taken_again_nothing_is_decided() -> None:
    found = examined(LOCKS + "TakesAgain", 1)
    assert found.defects == ()
    asked = [each for each in found.undecided if each.why == ASKS]
    assert "overlap" in [each.finding for each in asked]
    assert all(each.trial.reentrant for each in asked)


def test_of_a_lock_that_says_that_it_may_not_be_taken_again_that_is_not_tried() -> None:
    found = examined(LOCKS + "NotReentrant", 60, to_the_end=True, options=(("retries", 0),))
    assert found.defects == ()
    assert not [each for each in found.undecided if each.why == ASKS]
