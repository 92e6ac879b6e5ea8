"""Locks on a master with replicas: what a failover shows, and what it shows of no correct lock."""

from __future__ import annotations

import pytest

from lab.examine.kinds import PROMOTED
from lab.search.as_scenario import scenarios_of
from lab.search.runner import trials
from tests.known_bad.examined import examined

LOCKS = "tests.locks_to_test.after_failover"


@pytest.mark.full
@pytest.mark.parametrize("lock", ["single", f"{LOCKS}:KeepsMaster"])
def test_a_lock_that_stays_with_the_old_master_is_found_for_that(lock: str) -> None:
    (defect,) = examined(lock, 2500, first=True, replicas=2).defects
    assert (defect.cause, defect.rule) == ("stays-with-old-master", "progress")
    assert (defect.reproduced, defect.reference_lost) == (20, 0)


@pytest.mark.full
def test_a_lock_that_asks_sentinels_once_is_found_for_that_and_its_scenario_is_one_with_sentinels() -> None:
    (defect,) = examined(f"{LOCKS}:AsksOnce", 2500, first=True, replicas=2, sentinels=1).defects
    assert (defect.cause, defect.rule) == ("stays-with-old-master", "progress")
    assert (defect.reproduced, defect.reference_lost) == (20, 0)
    with trials():
        scenario = scenarios_of(defect.trial, "unavailable", command="lab test")[0]
    assert len(scenario.cluster.sentinel_names) == 1
    assert scenario.unavailable_after_ns == defect.trial.unavailable_ns


@pytest.mark.full
def test_what_is_lost_when_sentinels_promote_a_replica_is_a_limit_and_no_defect() -> None:
    found = examined("tests.locks_to_test.with_sentinel:OnMaster", 600, replicas=2, sentinels=1)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.reference == "sentinel"
    lost = {limit.finding for limit in found.limits if limit.assumption == PROMOTED}
    assert "overlap" in lost


@pytest.mark.full
@pytest.mark.parametrize("lock", ["failover", f"{LOCKS}:LastMaster"])
def test_what_asynchronous_replication_loses_is_a_limit_and_no_defect(lock: str) -> None:
    found = examined(lock, 600, replicas=2)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.reference == "failover"
    lost = {limit.finding for limit in found.limits if limit.assumption == PROMOTED}
    assert "overlap" in lost


@pytest.mark.full
def test_a_lock_that_waits_for_a_replica_does_not_show_that_limit() -> None:
    found = examined("failover", 600, replicas=2, options=(("wait_replicas", 1),))
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert not [limit for limit in found.limits if limit.assumption == PROMOTED]
