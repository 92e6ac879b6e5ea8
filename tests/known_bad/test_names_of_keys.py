"""Two locks that share a key on the node, although their names differ, are found."""

from __future__ import annotations

import pytest

from lab.examine.answer.narrative import narrate
from lab.examine.ledger.finders import all_violations
from lab.examine.programs import TTL_NS, Setting
from lab.examine.schedules.names_of_keys import other_names
from lab.search.runner import run_trial
from tests.known_bad.examined import examined

PLACE = "tests.locks_to_test.by_name:"


def in_the_way(lock: str) -> set[str]:
    """The names that cannot be locked while another one is."""
    trials = other_names(Setting(lock, {}, 1, TTL_NS))
    return {trial.other_key for trial in trials if "unavailable" in all_violations(run_trial(trial))}


@pytest.mark.usefixtures("_patched")
def test_names_that_share_a_key_are_in_each_others_way() -> None:
    assert in_the_way("single") == set()
    assert in_the_way(f"{PLACE}CaseFolded") == {"RESOURCE"}
    assert {"resource:1", "resources"} < in_the_way(f"{PLACE}CutOff")
    assert in_the_way(f"{PLACE}DropsPrefix") == {"tenant:resource", "tenant/resource"}
    assert len(in_the_way(f"{PLACE}InBuckets")) >= 2


@pytest.mark.usefixtures("_patched")
def test_what_happens_to_the_other_lock_is_told_by_its_name() -> None:
    """And the key of the first one is found by its token, under whatever name it lies."""
    trials = other_names(Setting(f"{PLACE}InBuckets", {}, 1, TTL_NS))
    shown = next(trial for trial in trials if "unavailable" in all_violations(run_trial(trial)))
    told = narrate(shown, "unavailable")
    assert told[0] == "0 ms: Alice acquires: granted (its key is on A)"
    assert told[1].endswith(f"Alice acquires '{shown.other_key}': refused")


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_a_lock_with_few_keys_is_found_for_that() -> None:
    found = examined(f"{PLACE}InBuckets", 600, first=True)
    assert [defect.cause for defect in found.defects] == ["mixes-keys"]


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_a_release_that_takes_longer_names_with_it_is_found() -> None:
    found = examined(f"{PLACE}SweepsItsPrefix", 600, first=True)
    assert [defect.cause for defect in found.defects] == ["mixes-keys"]
    assert "when asked for" in found.defects[0].seen
