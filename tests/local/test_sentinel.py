"""Redis Sentinel on real processes: failovers, receipts, and nothing that is left behind."""

from __future__ import annotations

import os
import signal

import pytest

from lab.drivers.environment import why_not
from lab.processes import processes_of
from tests.lab_process import MARK, Lab
from tests.sentinels import FORCED, HEAD, WAITS_FOR_REPLICAS, assert_forced, faults, published

pytestmark = pytest.mark.full

WAITS = """
steps: [{do: alice acquires}, {wait: 600s}]
expect: {mutual_exclusion: ok}
"""


def test_a_master_dies_and_sentinels_promote_its_replica(lab: Lab) -> None:
    run = lab("run", "sentinel-failover", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert run.findings == ["overlap", "unfenced-write", "lost-update"]
    (failover,) = faults(run.events, "failover")
    receipt = failover["receipt"]
    assert (receipt["old_master"], receipt["new_master"]) == ("A", "B")
    assert receipt["epoch"] >= 1, "on a busy machine a first election may find no leader"
    assert (receipt["role_of_old"], receipt["role_of_new"]) == ("no answer", "master")
    assert receipt["gap_bytes"] > 0, "what was lost"
    switched = [name for name, seen in published(run.events).items() if "+switch-master" in dict(seen)]
    assert sorted(switched) == ["S1", "S2", "S3"]
    (grant,) = [e for e in run.events if e["process"] == "bob" and e["f"] == "acquire" and e["type"] == "ok"]
    assert grant["time_ns"] > failover["time_ns"] - 1_000_000_000
    up = next(e for e in run.events if e["process"] == "node" and e["f"] == "node-up" and e["node"] == "B")
    assert up["value"] == {"ran_on": True}, "Sentinel ends connections; the node was never down"


OF_REDIS_PY = ("--lock", "driver:redis-py-sentinel", "--set", "lock.options.blocking=false", "--on", "local")


@pytest.mark.parametrize("name", ["sentinel-failover", "sentinel-failover-control"])
def test_a_library_asks_the_sentinels_that_its_client_reaches(lab: Lab, name: str) -> None:
    if (why := why_not("redis-py-sentinel")) is not None:
        pytest.skip(why)
    run = lab("run", name, *OF_REDIS_PY)
    assert run.code == 0, run.out + run.err
    assert ("overlap" in run.findings) == (name == "sentinel-failover")
    (failover,) = faults(run.events, "failover")
    assert failover["receipt"]["new_master"] == "B"


def test_where_its_names_are_not_resolved_it_is_refused(lab: Lab) -> None:
    run = lab("run", "sentinel-failover", *OF_REDIS_PY[:-1], "virtual")
    assert run.code == 2
    assert "by the names that Redis Sentinels give it" in run.err
    checked = lab("drivers", "check", "driver:redis-py-sentinel")
    assert checked.code == 2
    assert "asks Sentinels for the master" in checked.err


def test_faults_on_sentinels_have_receipts_and_a_forced_failover_is_one(lab: Lab) -> None:
    (lab.directory / "forced.yaml").write_text(HEAD + FORCED)
    run = lab("run", "forced.yaml", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert_forced(run.events)
    assert processes_of(lab.mark, MARK) == []


def test_sentinels_do_not_outlive_a_killed_lab(lab: Lab) -> None:
    (lab.directory / "waits.yaml").write_text(HEAD + WAITS)
    process = lab.start("run", "waits.yaml", "--on", "local")
    lab.wait_for_event("acquire")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert processes_of(lab.mark, MARK) != []
    assert lab("down").code == 0
    assert processes_of(lab.mark, MARK) == []


def test_the_lock_waits_for_replicas_and_asks_the_sentinels_that_it_can_reach(lab: Lab) -> None:
    (lab.directory / "waits.yaml").write_text(WAITS_FOR_REPLICAS)
    run = lab("run", "waits.yaml", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert "0 of 1 replicas acknowledged it" in run.out + run.err
    assert "no Sentinel that can be reached names a master" in run.out + run.err
