"""This machine's clock is set while a run goes on, or was wrong all along: no verdict depends on it."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest

from lab.shims import CLOCK_VARIABLE, ClockFile, preload
from lab.tools import require
from tests.lab_process import Lab

pytestmark = pytest.mark.full

HOUR_NS = 3600 * 10**9
WAITS = "steps=[{do: alice acquires}, {wait: 300s}]"
PATIENT = "lock={name: redlock, ttl: 120s, options: {node_timeout: 30s}}"
ON_DEMAND = "LOCK_LAB_SET_THE_CLOCK"
"""Set to 1 to let a test set the real clock of this machine; needs root, and a machine of one's own."""


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClockFile:
    """The clock of all processes that the lab is made of, the lab's own included."""
    file = ClockFile(tmp_path / "machine.clock")
    file.create()
    monkeypatch.setenv("LD_PRELOAD", preload(require("clock-shim")))
    monkeypatch.setenv(CLOCK_VARIABLE, str(file.path))
    return file


@pytest.mark.parametrize("by_ns", [HOUR_NS, pytest.param(-HOUR_NS, marks=pytest.mark.slow)])
def test_a_clock_that_is_set_makes_the_run_unknown(lab: Lab, clock: ClockFile, by_ns: int) -> None:
    process = lab.start("run", "healthy", "--set", PATIENT, "--set", WAITS, "--picture", "unexpected")
    directory = lab.wait_for_event("acquire", "alice")
    clock.set(by_ns)
    run = lab.ended(process)
    assert run.code == 3, run.out + run.err
    way = "forward" if by_ns > 0 else "back"
    assert f"the clock of this machine was set {way} by 3600.000 s" in run.out
    assert set(run.outcomes.values()) == {"unknown"}
    assert lab("check", str(directory)).code == 3


@pytest.mark.slow
@pytest.mark.parametrize("by_ns", [-HOUR_NS, HOUR_NS])
def test_a_clock_that_is_wrong_all_along_changes_names_and_nothing_else(
    lab: Lab, clock: ClockFile, by_ns: int
) -> None:
    before = datetime.fromtimestamp(time.time() + by_ns / 1e9)
    clock.set(by_ns)
    run = lab("run", "late-release", "--picture", "unexpected")
    after = datetime.fromtimestamp(time.time() + by_ns / 1e9)
    assert run.code == 0, run.out + run.err
    assert run.outcomes["mutual_exclusion"] == "violated"
    stamp = run.directory.name.split("-")[2]
    assert f"{before:%Y%m%dT%H%M%S}" <= stamp <= f"{after:%Y%m%dT%H%M%S}"


@pytest.mark.slow
@pytest.mark.parametrize("by_s", [5, -5])  # enough to be seen, and little for everybody else here
def test_the_real_clock_is_set(lab: Lab, by_s: int) -> None:
    if os.environ.get(ON_DEMAND) != "1":
        pytest.skip(f"it would set the clock of this machine: {ON_DEMAND}=1 allows that")
    if os.geteuid() != 0:
        pytest.skip("only root may set the clock of this machine")
    process = lab.start("run", "healthy", "--set", PATIENT, "--set", WAITS, "--picture", "unexpected")
    lab.wait_for_event("acquire", "alice")
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + by_s)
    try:
        run = lab.ended(process)
    finally:
        process.send_signal(signal.SIGKILL)
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) - by_s)
    assert run.code == 3, run.out + run.err
    assert "the clock of this machine was set" in run.out
