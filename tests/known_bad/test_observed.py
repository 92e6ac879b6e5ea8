"""Locks whose node keeps no expiry, but whose clients observe a lease: a kind with a reference of its own."""

from __future__ import annotations

import pytest

from lab.examine.profile.learn import learn
from lab.examine.programs import Setting
from lab.search.command import options_for
from lab.search.runner import trials
from tests.known_bad.examined import examined

LOCKS = "tests.locks_to_test.observed"


@pytest.mark.parametrize(
    ("lock", "observed"),
    [
        ("observed-lease", True),
        (f"{LOCKS}:Watches", True),
        (f"{LOCKS}:WaitsInside", True),
        (f"{LOCKS}:TakesOverEarly", True),
        ("single", False),
        ("tests.locks_to_test.waiting_lines:Dated", False),
        ("mutant:set-without-expiry", False),
        ("tests.locks_to_test.unusual:Hashed", False),
    ],
)
@pytest.mark.usefixtures("_patched")
def test_a_lease_is_observed_if_its_key_never_expires_and_is_replaced_all_the_same(
    lock: str, observed: bool
) -> None:
    with trials():
        kind = learn(Setting(lock, options_for(lock), 5)).kind
    assert kind.observed == observed
    assert (kind.reference == "observed-lease") == observed


@pytest.mark.full
@pytest.mark.parametrize("lock", ["observed-lease", f"{LOCKS}:Watches", f"{LOCKS}:WaitsInside"])
def test_a_correct_one_is_not_accused_of_keeping_its_key(lock: str) -> None:
    found = examined(lock, 800)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.reference == "observed-lease"
    assert found.schedules >= 800


@pytest.mark.full
def test_one_that_replaces_a_lease_too_early_is_found_for_that() -> None:
    (defect,) = examined(f"{LOCKS}:TakesOverEarly", 2000, first=True).defects
    assert (defect.cause, defect.rule, defect.by_intervention) == ("overwrites-key", "own keys", True)
    assert "replaced Alice's key" in defect.seen or "replaced Bob's key" in defect.seen
