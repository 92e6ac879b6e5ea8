"""Scenarios that can't be told are refused where they go wrong, not by a time-out."""

from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.scenario.load import load_text

HEAD = "{title: t, source: s, why: w, clients: [alice, bob], expect: {resource: ok}, steps: "

BUSY = "alice is still busy with what it was started on"
PAUSED = "bob is paused, so this never ends"
DEAD = "bob was killed and does not come back"


@pytest.mark.parametrize(
    "steps",
    [
        "[start: alice acquires, until: {nodes: all, executed: SET}, finish: alice]",
        "[start: alice works, do: bob works]",
        "[pause: {client: alice}, start: alice acquires, resume: {client: alice}, finish: alice]",
        "[do: alice works until read, pause: {client: alice}, resume: {client: alice}, do: alice continues]",
        "[do: alice works until read, do: alice continues until written, do: alice continues]",
        "[start: alice works until read, finish: alice, start: alice continues, finish: [alice]]",
        "[do: bob reads]",
        "[start: alice works until read, until: {client: alice, at: read}, do: alice continues]",
        "[start: alice works, client_crash: {client: alice}, do: bob works]",
        "[crash: {nodes: [A, B]}, restart: {nodes: all, after: 10s}, until: {nodes: [A], up: true}]",
        "[crash: {nodes: [A]}, jump: {node: A, by: +1s}, restart: {nodes: [A]}, crash: {nodes: [A]}]",
        "[pause: {node: A}, crash: {nodes: [A]}, correct: all, heal: all]",
        "[power_cut: {nodes: [A]}, until: {nodes: [B], synced: true}]",
    ],
)
def test_what_can_be_told_is_accepted(steps: str) -> None:
    load_text(f"{HEAD}{steps}}}", "s.yaml")


@pytest.mark.parametrize(
    ("steps", "seen", "key"),
    [
        ("[start: alice works, do: [bob works, alice reads]]", BUSY, "steps[1].do[1]"),
        ("[start: alice works, start: alice reads]", BUSY, "steps[1].start"),
        ("[finish: alice]", "alice has nothing to finish", "steps[0].finish"),
        ("[start: alice works, finish: [alice, bob]]", "bob has nothing to finish", "steps[1].finish[1]"),
        (
            "[start: alice works, finish: alice, finish: alice]",
            "alice has nothing to finish",
            "steps[2].finish",
        ),
        ("[start: bob works, pause: {client: bob}, finish: bob]", PAUSED, "steps[2].finish"),
        ("[pause: {client: bob}, do: bob works]", PAUSED, "steps[1].do"),
        ("[pause: {client: bob}, pause: {client: bob}]", "bob is paused already", "steps[1].pause.client"),
        ("[resume: {client: bob}]", "bob is not paused", "steps[0].resume.client"),
        ("[do: [alice works, alice continues]]", "alice waits at no pause point", "steps[0].do[1]"),
        ("[do: alice works until read, do: bob continues]", "bob waits at no pause point", "steps[1].do"),
        (
            "[do: alice acquires, until: {nodes: [A], executed: SET}]",
            "nothing was started yet",
            "steps[1].until.executed",
        ),
        ("[client_crash: {client: bob}, do: bob works]", DEAD, "steps[1].do"),
        ("[client_crash: {client: bob}, pause: {client: bob}]", DEAD, "steps[1].pause.client"),
        ("[client_crash: {client: bob}, cut: {client: bob, nodes: all}]", DEAD, "steps[1].cut.client"),
        ("[start: bob works, client_crash: {client: bob}, finish: bob]", DEAD, "steps[2].finish"),
        ("[restart: {nodes: [A, B]}]", "A, B are not down", "steps[0].restart.nodes"),
        ("[crash: {nodes: all}, shutdown: {nodes: [B]}]", "B is down already", "steps[1].shutdown.nodes"),
        (
            "[crash: {nodes: [A]}, pause: {node: A}]",
            "node A is down, so it can't be paused",
            "steps[1].pause.node",
        ),
        ("[pause: {node: A}, pause: {node: A}]", "A is paused already", "steps[1].pause.node"),
        ("[resume: {node: A}]", "A is not paused", "steps[0].resume.node"),
        (
            "[crash: {nodes: [A]}, until: {nodes: [A], up: true}]",
            "A is down for good",
            "steps[1].until.up",
        ),
        (
            "[do: alice works, until: {client: alice, at: read}]",
            "alice was not started on work that stops",
            "steps[1].until.at",
        ),
        ("[promote: {node: B}]", "B is no replica", "steps[0].promote.node"),
        (
            "[cut: {node: B, from: A}]",
            "B is no replica of A, so there is no link between them",
            "steps[0].cut.node",
        ),
        ("[until: {nodes: [B], replicated: false}]", "B is no replica", "steps[0].until.replicated"),
        (
            "[prime: {nodes: [B]}]",
            "with persistence aof-always no write waits for the next sync",
            "steps[0].prime.nodes",
        ),
    ],
)
def test_what_can_not_be_told_is_refused(steps: str, seen: str, key: str) -> None:
    with pytest.raises(LabError) as caught:
        load_text(f"{HEAD}{steps}}}", "s.yaml")
    assert caught.value.seen == seen
    assert caught.value.where is not None
    assert caught.value.where.endswith(f", key `{key}`")


WATCHED = "{nodes: 2, replicas: {B: A}, sentinels: 3}"
STAGE = "{title: t, source: s, why: w, clients: [alice], expect: {resource: ok}, cluster: %s, steps: %s}"


@pytest.mark.parametrize(
    ("cluster", "steps", "seen"),
    [
        ("{replicas: {B: A}}", "[promote: {node: B}, promote: {node: B}]", "B is no replica"),
        ("{replicas: {B: A}}", "[crash: {nodes: [B]}, promote: {node: B}]", "B is down"),
        ("{persistence: none}", "[power_cut: {nodes: [B]}]", "these nodes keep nothing on disk"),
        ("{persistence: none}", "[until: {nodes: [B], synced: true}]", "these nodes keep nothing on disk"),
        ("{nodes: 3, service: etcd}", "[cut: {node: A, from: A}]", "there is no link from A to A"),
        (
            "{nodes: 3, service: etcd}",
            "[cut: {node: A, from: B, direction: replies}]",
            "the links between servers of etcd can be cut only, and in both directions",
        ),
        (
            "{nodes: 3, service: zookeeper}",
            "[delay: {node: A, from: B, by: 1s}]",
            "the links between servers of zookeeper can be cut only, and in both directions",
        ),
        ("{nodes: 1, service: postgres}", "[cut: {node: A, from: A}]", "there is no link from A to A"),
        ("{nodes: 3}", "[until: {nodes: [B], leads: true}]", "Redis nodes have no leader"),
        ("{nodes: 3}", "[until: {master: B}]", "there are no Sentinels that could report that"),
        (WATCHED, "[until: {master: B, by: [A]}]", "A is no Sentinel"),
        (WATCHED, "[failover: {by: A}]", "A is no Sentinel"),
        (WATCHED, "[pause: {node: S1}, failover: {by: S1}]", "S1 is down or paused"),
        (WATCHED, "[promote: {node: B}]", "B is watched by Sentinels"),
        (WATCHED, "[jump: {node: S1, by: 1s}]", "S1 is a Sentinel, and jump is for nodes"),
        (WATCHED, "[until: {nodes: [S1], keys: gone}]", "S1 is a Sentinel, and until is for nodes"),
        (WATCHED, "[crash: {nodes: [S4]}]", 'unknown node "S4"'),
        (WATCHED, "[cut: {node: A, nodes: [B, A]}]", "there is no link from A to A"),
        (
            WATCHED,
            "[hold: {node: B, from: A}]",
            "the links between servers under Sentinel can be cut only, and in both directions",
        ),
        (
            "{nodes: 2, replicas: {B: A}, sentinels: 3, quorum: 4}",
            "[]",
            "a quorum of 4 can't be reached by 3 Sentinels",
        ),
        ("{nodes: 2, replicas: {B: A}, quorum: 2}", "[]", "quorum is there without Sentinels"),
        ("{nodes: 2, replicas: {B: A}, down_after: 2s}", "[]", "down_after is there without Sentinels"),
        (
            "{nodes: 2, sentinels: 3}",
            "[]",
            "Sentinels are there, and no node is a replica that they could promote",
        ),
        (
            "{nodes: 3, replicas: {B: A}, sentinels: 3}",
            "[]",
            "Sentinels watch one master, and here A, C are masters",
        ),
        ("{nodes: 2, replicas: {B: A}, sentinels: 3, down_after: 1500us}", "[]", "down_after is 1.5ms"),
    ],
)
def test_what_the_cluster_does_not_allow_is_refused(cluster: str, steps: str, seen: str) -> None:
    with pytest.raises(LabError) as caught:
        load_text(STAGE % (cluster, steps), "s.yaml")
    assert caught.value.seen == seen


def test_what_the_cluster_allows_is_accepted() -> None:
    failover = "[cut: {node: B, from: A}, until: {nodes: [B], replicated: false}, promote: {node: B}]"
    load_text(STAGE % ("{nodes: 2, replicas: {B: A}}", failover), "s.yaml")
    load_text(STAGE % ("{persistence: aof-everysec}", "[prime: {nodes: all}]"), "s.yaml")
    parted = "[cut: {node: A, nodes: [B, S1]}, until: {sdown: A}, until: {role_of: A, is: master}, heal: all]"
    load_text(STAGE % (WATCHED, parted), "s.yaml")
    downs = (
        "[crash: {nodes: [S1]}, restart: {nodes: [S1]}, until: {nodes: [S1], up: true}, pause: {node: S2}]"
    )
    load_text(STAGE % (WATCHED, downs), "s.yaml")
    split = "[cut: {node: A, from: B}, until: {nodes: [A], leads: false}, heal: {node: A, from: B}]"
    load_text(STAGE % ("{nodes: 3, service: etcd}", split), "s.yaml")
