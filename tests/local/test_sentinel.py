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


IN_ONE_TRY = {
    "redis-py-sentinel": "lock.options.blocking=false",
    "redis-semaphore-sentinel": "lock.options.acquire_timeout_ms=3000",
    "redisson-sentinel": "lock.options.check_synced=false",
}


@pytest.mark.parametrize("driver", IN_ONE_TRY)
def test_drivers_find_servers_by_their_names_in_virtual_time(lab: Lab, driver: str) -> None:
    if (why := why_not(driver)) is not None:
        pytest.skip(why)
    setting = ("--set", IN_ONE_TRY[driver])
    run = lab("run", "sentinel-failover", "--lock", f"driver:{driver}", *setting, "--on", "virtual")
    assert run.code == 0, run.out + run.err
    assert "overlap" in run.findings
    (failover,) = faults(run.events, "failover")
    assert failover["receipt"]["new_master"] == "B"


def test_a_driver_that_asks_sentinels_is_checked_with_some(lab: Lab) -> None:
    if (why := why_not("redis-py-sentinel")) is not None:
        pytest.skip(why)
    checked = lab("drivers", "check", "driver:redis-py-sentinel")
    assert checked.code == 0, checked.out + checked.err


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
