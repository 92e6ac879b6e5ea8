"""The lab as a library: each run is a process of its own, and comes back as a typed result."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.api.child import Child, environment_for
from lab.errors import ExitCode, LabError, UnknownOutcome


async def test_a_run_leaves_its_caller_alone_even_one_with_an_event_loop(tmp_path: Path) -> None:
    before = time.monotonic, signal.getsignal(signal.SIGINT)
    result = Lab(tmp_path, on="sim").run("partition-clockjump", seed=7)
    assert (time.monotonic, signal.getsignal(signal.SIGINT)) == before
    assert result.as_expected, result.explain()
    assert result.findings == ("overlap", "unfenced-write", "lost-update")
    assert result.repeat == "lab run partition-clockjump --seed 7 --on sim"
    assert result.directory.parent == tmp_path
    assert result.history.faults
    assert result.loaded.scenario.clients.keys() == {"alice", "bob"}


def test_what_a_child_raises_is_raised_here(tmp_path: Path) -> None:
    labs = Lab(tmp_path, on="sim")
    with pytest.raises(LabError) as caught:
        labs.run("healthy", set={"lock.ttl": "2 parsecs"})
    assert "lock.ttl" in str(caught.value.where)
    assert caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(UnknownOutcome, match="the lab itself failed: ZeroDivisionError"):
        labs.call(divmod, 1, 0)
    with pytest.raises(UnknownOutcome, match="ended without a result: exit code 9"):
        labs.call(os._exit, 9)


def test_what_is_printed_in_a_child_is_not_taken_for_its_answer(tmp_path: Path) -> None:
    assert Lab(tmp_path).call(os.system, "echo one line") == 0


@pytest.mark.parametrize("how", [signal.default_int_handler, signal.SIG_IGN])
def test_an_interrupted_call_ends_its_child(
    how: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where SIGINT is ignored, as in what a shell has put into the background."""
    begun = tmp_path / "begun"

    def interrupted() -> None:
        give_up_s = time.monotonic() + 120  # it starts for seconds where others compute
        while not begun.exists() and time.monotonic() < give_up_s:
            time.sleep(0.05)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, how)
    child = Child(tmp_path, environment_for())
    signal.signal(signal.SIGINT, before)
    monkeypatch.setattr(child, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt), closing(child):
        child.call(subprocess.run, ["sh", "-c", f"touch {begun}; exec sleep 600"])
    assert child.process.returncode in (ExitCode.INTERRUPTED, -signal.SIGINT)


@pytest.mark.full  # forty seconds of CPU
def test_a_suite_a_campaign_and_a_search_from_python(tmp_path: Path) -> None:
    labs = Lab(tmp_path, on="sim")
    result = labs.suite("healthy", "partition-minority", on="sim", repeat=2)
    names = ["healthy", "partition-minority", "partition-minority-control"]
    assert [(cell.item.name, len(cell.rows)) for cell in result.cells] == [(name, 2) for name in names]
    assert result.exit_code == ExitCode.EXPECTED
    tally = labs.campaign("healthy", seeds="0:3", jobs=1)
    assert (tally.exit_code, tally.judged) == (ExitCode.EXPECTED, 3)
    found = labs.search("fixed-value", budget="60s", seed=1, faults="cut,hold")
    assert found.found
    assert found.scenario is not None
    assert labs.run(found.scenario, seed=0).outcomes["mutual_exclusion"] == "violated"
    with pytest.raises(LabError, match="overlapp"):
        labs.search("redlock", "overlapp")


@pytest.mark.full
def test_a_suite_for_a_lock_and_drawn_schedules_from_python(tmp_path: Path) -> None:
    labs = Lab(tmp_path, on="sim")
    result = labs.suite(for_lock="single", only=["late-release", "late-release-compared"])
    assert [cell.item.id for cell in result.cells] == [
        "late-release/single/sim",
        "late-release-compared/single/sim",
    ]
    assert result.exit_code == ExitCode.EXPECTED
    assert any("hands out fences" in one.reason for one in result.plan.skipped)
    with pytest.raises(LabError, match="--like single without a lock"):
        labs.suite("healthy", like="single")
    small = {"lock.ttl": "2s", "cluster.nodes": 3}
    tally = labs.campaign(seeds="0:2", lock="redlock", faults="safe", clients=3, set=small, jobs=1)
    assert tally.judged == 2
    with pytest.raises(LabError, match="--nodes together with --set cluster"):
        labs.campaign(seeds="0:2", lock="redlock", nodes=3, set=small)
    searched = labs.search("single", set=small, schedules=5, faults="cut", strategy="random")
    assert not searched.found
    assert searched.ended.progress.schedules == 5
