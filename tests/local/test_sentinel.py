"""Redis Sentinel on real processes: failovers, receipts, and nothing that is left behind."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from lab.processes import processes_of
from tests.lab_process import MARK, Ended, Lab

pytestmark = pytest.mark.full

HEAD = """
title: t
source: s
why: w
cluster: {nodes: 2, replicas: {B: A}, sentinels: 3}
lock: {name: sentinel, ttl: 30s, options: {node_timeout: 1s}}
clients: [alice, bob]
"""
FORCED = """
steps:
  - do: alice works
  - crash: {nodes: [S3]}
  - until: {sdown: S3}
  - cut: {client: bob, nodes: [S1, S2], mode: refused}
  - reset: {client: bob, nodes: [A]}
  - cut: {node: B, from: A}
  - do: alice acquires
  - until: {nodes: [B], replicated: false}
  - failover: {by: S1}
  - until: {master: B, by: [S1, S2]}
  - restart: {nodes: [S3]}
  - until: {master: B, by: [S3]}
  - pause: {node: S2}
  - do: bob acquires
  - resume: {node: S2}
expect: {mutual_exclusion: violated, findings: [overlap]}
"""
LOCK = """
steps:
  - say: Alice reaches one Sentinel, and the master has no replica
  - cut: {client: alice, nodes: [S1, S2], mode: refused}
  - reset: {client: alice, nodes: [A]}
  - cut: {node: B, from: A}
  - do: alice acquires
  - heal: {node: B, from: A}
  - do: alice acquires
  - until: {nodes: [B], replicated: true}
  - say: Bob reaches no Sentinel
  - cut: {client: bob, nodes: [S1, S2, S3], mode: refused}
  - reset: {client: bob, nodes: [A]}
  - do: bob acquires
  - heal: {client: bob, nodes: [S1, S2, S3]}
  - do: [alice extends, alice releases, bob works]
expect:
  mutual_exclusion: ok
  operations:
    alice acquires: [refused, ok]
    bob acquires: refused
    alice extends: ok
    alice releases: ok
    bob works: ok
"""
WAITS = """
steps: [{do: alice acquires}, {wait: 600s}]
expect: {mutual_exclusion: ok}
"""


def faults(run: Ended, f: str, kind: str = "ok") -> list[dict[str, Any]]:
    return [e for e in run.events if e["process"] == "nemesis" and e["f"] == f and e["type"] == kind]


def published(run: Ended, event: str) -> list[tuple[str, str]]:
    """What Sentinels published of this event: which of them, and its text."""
    seen = (e for e in run.events if e["process"] == "lab" and e["f"] == "sentinel")
    return [(e["node"], e["value"]["text"]) for e in seen if e["value"]["event"] == event]


def test_a_master_dies_and_sentinels_promote_its_replica(lab: Lab) -> None:
    run = lab("run", "sentinel-failover", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert run.findings == ["overlap", "unfenced-write", "lost-update"]
    (failover,) = faults(run, "failover")
    receipt = failover["receipt"]
    assert (receipt["old_master"], receipt["new_master"], receipt["epoch"]) == ("A", "B", 1)
    assert (receipt["role_of_old"], receipt["role_of_new"]) == ("no answer", "master")
    assert receipt["gap_bytes"] > 0, "what was lost"
    assert {name for name, _ in published(run, "+switch-master")} == {"S1", "S2", "S3"}
    (grant,) = [e for e in run.events if e["process"] == "bob" and e["f"] == "acquire" and e["type"] == "ok"]
    assert grant["time_ns"] > failover["time_ns"] - 1_000_000_000
    up = next(e for e in run.events if e["process"] == "node" and e["f"] == "node-up" and e["node"] == "B")
    assert up["value"] == {"ran_on": True}, "Sentinel ends connections; the node was never down"


def test_faults_on_sentinels_have_receipts_and_a_forced_failover_is_one(lab: Lab) -> None:
    (lab.directory / "forced.yaml").write_text(HEAD + FORCED)
    run = lab("run", "forced.yaml", "--on", "local")
    assert run.code == 0, run.out + run.err
    by_type = [e["type"] for e in run.events if e["process"] == "nemesis"]
    assert by_type.count("invoke") == by_type.count("ok") > 0
    (failover,) = faults(run, "failover")
    assert failover["target"] == "Sentinel S1"
    assert failover["receipt"]["new_master"] == "B"
    assert failover["receipt"]["gap_bytes"] > 0
    parted = next(e for e in faults(run, "cut") if e["targets"] == ["B", "A"])
    ways = parted["receipt"]["A"]["ways"]
    assert {way: seen["probe_through_link"] for way, seen in ways.items()} == {
        "B→A": "no answer in 50 ms",
        "A→B": "no answer in 50 ms",
    }
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
    (lab.directory / "waits.yaml").write_text(
        HEAD.replace("1s}", "1s, wait_replicas: 1, retry_count: 8}") + LOCK
    )
    run = lab("run", "waits.yaml", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert "0 of 1 replicas acknowledged it" in run.out + run.err
    assert "no Sentinel that can be reached names a master" in run.out + run.err
