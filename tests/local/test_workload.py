"""Workloads on real processes: clean without faults, honest with them, and ended cleanly at any time."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab_process import Ended, Lab, children_of

pytestmark = pytest.mark.full

HEAD: dict[str, Any] = {
    "title": "A workload",
    "source": "ours",
    "why": "to be tested",
    "clients": ["alice", "bob", "carol", "dave"],
    "lock": {"name": "redlock", "ttl": "500ms", "options": {"retry_count": 1}},
    "expect": {"mutual_exclusion": "ok", "lease_honesty": "ok"},
}
FAULTS = [
    {"fault": "cut", "every": "700ms", "lasts": "400ms", "clients": "one", "nodes": "minority"},
    {"fault": "cut", "every": "1s", "lasts": "600ms", "clients": "holder", "nodes": "all"},
    {"fault": "pause", "every": "1s", "lasts": ["100ms", "300ms"]},
]


def run(lab: Lab, tmp_path: Path, *arguments: str, **parts: Any) -> Ended:
    (tmp_path / "w.yaml").write_text(yaml.safe_dump({**HEAD, "workload": {"duration": "3s"}, **parts}))
    return lab("run", "w.yaml", *arguments)


def test_without_faults_it_comes_out_clean(lab: Lab, tmp_path: Path) -> None:
    ended = run(lab, tmp_path, "--seed", "1")
    assert ended.code == 0, ended.out + ended.err
    assert set(ended.outcomes.values()) == {"ok", "absent"}, ended.outcomes
    measures = ended.verdict["measures"]
    assert measures["grants"] >= 4
    assert measures["attempts"] == measures["grants"] + measures["refused"] + measures["unknown"]
    assert measures["attempts_until_grant"]["mean"] >= 1
    assert 0 < measures["acquire_ms"]["p50"] <= measures["acquire_ms"]["p99"] <= measures["acquire_ms"]["max"]
    assert measures["penalties"] == measures["heals"] == ended.verdict["schedule"] == []
    assert "measured: " in ended.out
    grants = [e for e in ended.events if e["f"] == "acquire" and e["type"] == "ok"]
    assert len(grants) == measures["grants"]
    assert {event["client"] for event in grants} == set(HEAD["clients"])
    header = json.loads((ended.directory / "history.jsonl").read_text().splitlines()[0])
    assert header["params"]["clients"] == HEAD["clients"]


def test_with_cuts_and_pauses_the_lock_holds_and_every_fault_has_a_receipt(lab: Lab, tmp_path: Path) -> None:
    ended = run(lab, tmp_path, "--seed", "5", workload={"duration": "4s", "hold_time": "80ms"}, faults=FAULTS)
    assert ended.outcomes["mutual_exclusion"] == "ok", ended.out + ended.err
    assert ended.code == 0, ended.out + ended.err
    nemesis = [event for event in ended.events if event["process"] == "nemesis"]
    begun = {event["fault_id"] for event in nemesis if event["type"] == "invoke"}
    proved = {event["fault_id"] for event in nemesis if event["type"] == "ok" and event["receipt"]}
    assert begun
    assert begun == proved
    injected = {event["fault_id"] for event in nemesis if event["f"] in ("cut", "pause")}
    assert injected == {event["heals"] for event in nemesis if event.get("heals")}, "each of them ended"
    left_out = [event for event in ended.events if event["f"] == "left-out"]
    assert len(injected) + len(left_out) == len(ended.verdict["schedule"])
    assert ended.err.count("draws: at") == len(ended.verdict["schedule"])
    measures = ended.verdict["measures"]
    assert measures["grants"] > 0
    assert len(measures["heals"]) == len(injected)
    assert all(heal["after_ms"] is None or heal["after_ms"] >= 0 for heal in measures["heals"])
    assert all(penalty["from_grant_ms"] >= penalty["from_fault_ms"] for penalty in measures["penalties"])
    assert 0 < measures["availability"]["share"] <= 1
    assert measures["longest_gap_ms"] > 0


def test_a_fault_during_another_takes_effect_while_that_lasts(lab: Lab, tmp_path: Path) -> None:
    faults = [
        {"fault": "pause", "every": "500ms", "lasts": "1s", "clients": "one"},
        {"fault": "jump", "during": "pause", "nodes": ["B"], "by": "+2s"},
    ]
    ended = run(lab, tmp_path, "--seed", "5", workload={"duration": "4s"}, faults=faults)
    nemesis = [event for event in ended.events if event["process"] == "nemesis"]
    at = {(event["f"], event["type"]): event["index"] for event in reversed(nemesis)}
    assert at["pause", "ok"] < at["jump", "invoke"], ended.err
    assert at["jump", "ok"] < at["resume", "invoke"]


def test_the_same_seed_draws_the_same_and_a_stored_run_is_measured_the_same(lab: Lab, tmp_path: Path) -> None:
    short = {"duration": "1s"}
    first = run(lab, tmp_path, "--seed", "5", workload=short, faults=FAULTS)
    drawn, before = first.verdict["schedule"], (first.directory / "verdict.json").read_text()
    assert drawn == json.loads((first.directory / "schedule.json").read_text())
    lab("check", str(first.directory))
    assert (
        json.loads((first.directory / "verdict.json").read_text())["measures"]
        == json.loads(before)["measures"]
    )
    assert run(lab, tmp_path, "--seed", "5", workload=short, faults=FAULTS).verdict["schedule"] == drawn
    assert run(lab, tmp_path, "--seed", "6", workload=short, faults=FAULTS).verdict["schedule"] != drawn


def test_several_keys_are_locked_apart(lab: Lab, tmp_path: Path) -> None:
    ended = run(lab, tmp_path, workload={"duration": "1s", "keys": 3, "operations": 30})
    assert ended.code == 0, ended.out + ended.err
    keys = {f"resource-{at}" for at in (1, 2, 3)}
    assert {event["key"] for event in ended.events if event["f"] == "acquire"} == keys
    for f in ("read", "log"):
        assert [e["key"] for e in ended.events if e["process"] == "lab" and e["f"] == f] == sorted(keys)
    watched = {e["key"] for e in ended.events if e["process"] == "node" and "key" in e}
    assert watched == {"resource-1"}, "the first is watched"
    rounds = [e for e in ended.events if e["f"] == "acquire" and e["type"] == "invoke"]
    assert 4 <= len(rounds) <= 4 * 30


@pytest.mark.parametrize("moment", ["acquire", "cut", "pause"])
def test_interrupted_in_the_middle(lab: Lab, tmp_path: Path, moment: str) -> None:
    (tmp_path / "w.yaml").write_text(
        yaml.safe_dump({**HEAD, "workload": {"duration": "60s"}, "faults": FAULTS})
    )
    process = lab.start("run", "w.yaml", "--seed", "5")
    lab.wait_for_event(moment)
    process.send_signal(signal.SIGINT)
    ended = lab.ended(process)
    assert ended.code == 130, ended.out + ended.err
    assert "Traceback" not in ended.err
    assert any(event["f"] == "abort" for event in ended.events)
    assert lab("check", str(ended.directory)).code == 3


def test_a_client_that_dies_unasked_ends_the_run_early(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(yaml.safe_dump({**HEAD, "workload": {"duration": "60s"}}))
    process = lab.start("run", "w.yaml")
    lab.wait_for_event("write")
    pid = next(pid for pid, command in children_of(process.pid).items() if "lab.client" in command)
    os.kill(pid, signal.SIGKILL)
    ended = lab.ended(process)
    assert ended.code == 3, ended.out + ended.err
    assert "killed by SIGKILL" in ended.out
