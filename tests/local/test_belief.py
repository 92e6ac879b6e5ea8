"""Belief against truth on real nodes: they part where a clock jumped, and nowhere in the control."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab_process import Ended, Lab

pytestmark = pytest.mark.full


def compared(run: Ended) -> dict[str, Any]:
    """What verdict.json says about belief and truth."""
    found: dict[str, Any] = run.verdict["belief_and_truth"]
    return found


def test_a_clock_that_jumps_parts_them_and_a_stored_run_says_the_same(lab: Lab) -> None:
    run = lab("run", "partition-clockjump", "--seed", "7")
    assert run.code == 0, run.err
    found = compared(run)
    assert (found["nodes"], found["needed"], found["grants"]) == (5, 3, 2)
    parting = [one for one in found["grants_that_do_not_agree"] if one["without_enough_nodes_ms"][0] > 0]
    (alice,) = parting
    assert alice["client"] == "alice"
    assert alice["most_nodes"] == 3
    assert {(loss["node"], loss["why"]) for loss in alice["losses"]} == {
        ("C", "its clock was moved by a jump")
    }
    sure_ms, possible_ms = alice["without_enough_nodes_ms"]
    ((start_ms, end_ms),) = alice["believed_ms"]
    assert sure_ms <= possible_ms < end_ms - start_ms
    jump = next(event for event in run.events if event["f"] == "jump")
    up = next(event for event in run.events if (event["f"], event.get("value")) == ("phase", "steps"))
    jumped_ms = (jump["time_ns"] - up["time_ns"]) / 1e6
    assert start_ms < jumped_ms <= alice["since_ms"][0] <= alice["since_ms"][1]
    assert "DIFFER    alice believed in alice-1" in run.out
    again = lab("check", str(run.directory))
    assert again.code == 0, again.err
    assert compared(again) == found
    assert "DIFFER    alice believed in alice-1" in again.out


def test_the_control_does_not_part(lab: Lab) -> None:
    run = lab("run", "partition-clockjump-control", "--seed", "7")
    assert run.code == 0, run.err
    found = compared(run)
    assert found["part"] == 0
    assert found["grants"] == found["agree"] + found["not_known"] >= 1
    assert "DIFFER" not in run.out


def test_contention_does_not_make_the_watch_fall_behind_into_accusing_anybody(lab: Lab) -> None:
    run = lab("run", "chaos-control", "--seed", "7", "--set", "workload.duration=3s")
    assert run.code == 0, run.err
    assert compared(run)["part"] == 0
    assert compared(run)["agree"] > 0
