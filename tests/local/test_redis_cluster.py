"""A Redis Cluster on real processes: links between its nodes, failovers, receipts, nothing that is left."""

from __future__ import annotations

from typing import Any

import pytest

from lab.processes import processes_of
from tests.lab_process import MARK, Ended, Lab

pytestmark = pytest.mark.full

HEAD = """
title: t
source: s
why: w
cluster: {nodes: 6, replicas: {D: A, E: B, F: C}, sharded: true}
lock: {name: cluster, ttl: 60s, options: {node_timeout: 1s, retry_count: 1}}
clients: [alice, bob]
key: stock
"""
LINKS = """
steps:
  - say: A node that is cut off from all others is held to be down, and its replica takes over
  - cut: {node: B, nodes: [A, C, D, E, F]}
  - until: {sdown: B}
  - until: {role_of: E, is: master}
  - heal: {node: B, nodes: [A, C, D, E, F]}
  - until: {role_of: B, is: replica, within: 20s}
  - say: A replica that waits for its master loses nothing
  - do: alice acquires
  - failover: {by: D}
  - until: {master: D}
  - do: [bob acquires, alice extends]
  - say: The old master takes over by force, without what D has and it has not
  - until: {role_of: A, is: replica, within: 20s}
  - do: alice releases
  - cut: {node: A, from: D}
  - do: alice acquires
  - failover: {by: A, force: true}
  - until: {master: A, by: [A, B, C, E, F]}
  - reset: {client: bob, nodes: all}
  - do: bob acquires
expect:
  mutual_exclusion: violated
  operations: {alice acquires: [ok, ok], bob acquires: [refused, ok], alice extends: ok, alice releases: ok}
"""


def faults(run: Ended, f: str) -> list[dict[str, Any]]:
    return [e for e in run.events if e["process"] == "nemesis" and e["f"] == f and e["type"] == "ok"]


def test_a_replica_takes_over_and_its_failover_has_a_receipt(lab: Lab) -> None:
    run = lab("run", "cluster-failover", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert run.findings == ["overlap", "unfenced-write", "lost-update"]
    (failover,) = faults(run, "failover")
    receipt = failover["receipt"]
    assert (receipt["old_master"], receipt["new_master"]) == ("A", "D")
    assert (receipt["role_of_old"], receipt["role_of_new"]) == ("no answer", "master")
    assert receipt["gap_bytes"] > 0, "what was lost"
    (parted,) = faults(run, "cut")
    ways = parted["receipt"]["A"]["ways"]
    assert {way: seen["probe_through_link"] for way, seen in ways.items()} == {
        "D→A": "no answer in 50 ms",
        "A→D": "no answer in 50 ms",
    }
    assert len(parted["receipt"]["A"]["link"]) == 8, "two ports, two directions, two toxics each"
    reported = [e for e in run.events if e["f"] == "cluster" and e["value"]["master"] == "D"]
    assert {e["node"] for e in reported} >= {"B", "C", "D", "E", "F"}
    assert processes_of(lab.mark, MARK) == []


def test_its_links_can_be_cut_and_its_replicas_told_to_take_over(lab: Lab) -> None:
    (lab.directory / "links.yaml").write_text(HEAD + LINKS)
    run = lab("run", "links.yaml", "--on", "local")
    assert run.code == 0, run.out + run.err
    by_type = [e["type"] for e in run.events if e["process"] == "nemesis"]
    assert by_type.count("invoke") == by_type.count("ok") > 0
    orderly, forced = faults(run, "failover")
    assert (orderly.get("breaks"), orderly["receipt"]["gap_bytes"]) == (None, 0)
    assert forced["breaks"] == "durable nodes"
    assert forced["receipt"]["gap_bytes"] > 0
    assert [each["receipt"]["new_master"] for each in (orderly, forced)] == ["D", "A"]
    assert processes_of(lab.mark, MARK) == []
