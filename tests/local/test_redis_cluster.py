"""A Redis Cluster on real processes: links between its nodes, failovers, receipts, nothing that is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.faults import assign_slot
from lab.processes import processes_of
from tests.lab_process import MARK, Ended, Lab
from tests.local.faulty import KEY, broken, step

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
  - until: {role_of: B, is: replica, within: 120s}
  - say: A replica that waits for its master loses nothing
  - do: alice acquires
  - failover: {by: D}
  - until: {master: D}
  - do: [bob acquires, alice extends]
  - say: The old master takes over by force, without what D has and it has not
  - until: {role_of: A, is: replica, within: 120s}
  - do: alice releases
  - cut: {node: A, from: D}
  - do: alice acquires
  - failover: {by: A, force: true}
  - until: {master: A, by: [A, B, C, E, F]}
  - until: {role_of: D, is: replica, within: 120s}
  - reset: {client: bob, nodes: all}
  - do: bob acquires
expect:
  mutual_exclusion: violated
  operations: {alice acquires: [ok, ok], bob acquires: [refused, ok], alice extends: ok, alice releases: ok}
"""
REDLOCK = """
title: t
source: s
why: w
cluster: {nodes: 3, sharded: true}
lock: {name: redlock}
clients: [alice, bob]
key: stock
steps: [{do: alice acquires}, {do: bob acquires}]
expect: {mutual_exclusion: ok}
"""


async def nothing(*_: Any, **__: Any) -> None:
    """What a fault that does not take effect does."""


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


def test_the_slot_of_a_held_lock_moves_and_that_is_no_failover(lab: Lab) -> None:
    run = lab("run", "cluster-reshard-control", "--on", "local")
    assert run.code == 0, run.out + run.err
    (moved,), (assigned,) = faults(run, "reshard"), faults(run, "assign_slot")
    assert (moved["receipt"]["from"], moved["receipt"]["keys_after"]) == ("A", [0, 1])
    assert assigned["receipt"]["served_by"] == dict.fromkeys("ABC", "B")
    assert faults(run, "failover") == []


async def test_a_slot_that_does_not_move_has_no_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broken(tmp_path, nodes="ABC", sharded=True) as lab:
        await lab.cluster.nodes["A"].ask("SET", KEY, "token", "PX", 60_000)
        monkeypatch.setattr(lab.cluster, "open_slot", nothing)
        assert not (await lab.inject(reshard={"to": "B"})).confirmed
        monkeypatch.undo()
        monkeypatch.setattr(assign_slot, "ASSIGNED_WITHIN_S", 0.1)
        monkeypatch.setattr(lab.cluster, "assign_slot", nothing)
        assert not (await lab.nemesis.end(step(assign_slot={"to": "B"})))[1]
        monkeypatch.undo()
        receipt = await lab.inject(reshard={"to": "B"})
        assert receipt.confirmed, receipt.evidence
        assert (receipt.evidence["keys_before"], receipt.evidence["keys_after"]) == ([1, 0], [0, 1])
        await lab.nemesis.heal_everything()
        (_, assigned) = lab.of("assign_slot")
        assert (assigned["type"], assigned["receipt"]["keys"]) == ("ok", [1, 1])
        assert await lab.cluster.nodes["B"].has(KEY)


def test_redlock_on_the_masters_of_one_redis_cluster_is_never_granted(lab: Lab) -> None:
    """The slot of a key is on one master, and the others answer MOVED: one of three is no majority."""
    (lab.directory / "redlock.yaml").write_text(REDLOCK)
    run = lab("run", "redlock.yaml", "--on", "local")
    assert run.code == 3, "nothing was granted, so nothing was proved"
    ends = [(e["process"], e["type"]) for e in run.events if e["f"] == "acquire" and e["type"] != "invoke"]
    assert ends == [("alice", "fail"), ("bob", "fail")]
    assert {e["node"] for e in run.events if e["f"] == "key-set"} <= {"A"}
