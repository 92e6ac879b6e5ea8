"""Schedules with Redis Sentinels for every substrate that runs some, and what a history says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
WAITS_FOR_REPLICAS = HEAD.replace("1s}", "1s, wait_replicas: 1, retry_count: 8}") + LOCK
Events = Iterable[Mapping[str, Any]]


def faults(events: Events, f: str, kind: str = "ok") -> list[Mapping[str, Any]]:
    """What the nemesis noted of these faults."""
    return [e for e in events if e["process"] == "nemesis" and e["f"] == f and e["type"] == kind]


def assert_forced(events: Events) -> None:
    """What a run of ``FORCED`` has: a receipt of each fault, and one failover."""
    events = list(events)
    by_type = [e["type"] for e in events if e["process"] == "nemesis"]
    assert by_type.count("invoke") == by_type.count("ok") > 0
    (failover,) = faults(events, "failover")
    assert failover["target"] == "Sentinel S1"
    assert failover["receipt"]["new_master"] == "B"
    assert failover["receipt"]["gap_bytes"] > 0
    parted = next(e for e in faults(events, "cut") if e["targets"] == ["B", "A"])
    ways = parted["receipt"]["A"]["ways"]
    assert {way: seen["probe_through_link"] for way, seen in ways.items()} == {
        "B→A": "no answer in 50 ms",
        "A→B": "no answer in 50 ms",
    }


def published(events: Events) -> dict[str, list[tuple[str, str]]]:
    """What each Sentinel published, in its order: events and texts."""
    found: dict[str, list[tuple[str, str]]] = {}
    for e in events:
        if e["process"] == "lab" and e["f"] == "sentinel":
            found.setdefault(e["node"], []).append((e["value"]["event"], e["value"]["text"]))
    return found


def until_switch(events: Events) -> tuple[list[str], list[list[str]]]:
    """What the leader of a failover published up to the switch, and what the others did.

    Of the others what is left has one order: whether they also found the master down, and whether they saw
    the promoted replica before they heard of it, depends on their rounds. On a busy machine one is also
    silent for so long that others find it down and up again.
    """
    down = {"+sdown", "-sdown"}
    by_chance = {*down, "+odown", "-odown", "+try-failover", "-role-change"}
    leader: list[str] = []
    others = []
    for seen in published(events).values():
        names = [name for name, text in seen if name not in down or text.startswith("master")]
        names = names[: names.index("+switch-master") + 1]
        if "+elected-leader" in names:
            leader = [name for name in names if name != "-odown"]
        else:
            others.append([name for name in names if name not in by_chance])
    return leader, others
