"""Redis Cluster: slots of keys, what nodes say of each other, and where none can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.app import call
from lab.errors import LabError, UnknownOutcome
from lab.locks import lacks_around, refuse_alone
from lab.locks.cluster import slot_of
from lab.run.request import RunRequest
from lab.scenario.load import load_text
from lab.servers import no_host_names
from lab.substrates import choose, substrate
from lab.substrates.base import Capability
from lab.substrates.real.sharded import Row
from lab.substrates.refusals import lacking
from lab.tools import Missing, find

SCENARIO = """
title: t
source: s
why: w
cluster: {nodes: 3, sharded: true}
lock: {name: cluster}
clients: [alice]
steps: [%s]
expect: {mutual_exclusion: ok}
"""


@pytest.mark.parametrize(
    ("key", "slot"),
    # The first is from the specification, the others are what Redis 8.2 answers to CLUSTER KEYSLOT.
    [("123456789", 12739), ("stock", 3902), ("a{stock}b{x}", 3902), ("a{}stock", 452), ("{stock", 2304)],
)
def test_the_slot_of_a_key(key: str, slot: int) -> None:
    assert slot_of(key) == slot


def test_what_a_node_says_of_another_one() -> None:
    place = "127.77.0.1:17200@17300,node-a,,tls-port=0,shard-id=12"
    row = Row.parse(f"f00 {place} myself,master,fail? - 0 1795 7 connected 0-99 3902 [7->-d00]")
    assert (row.name, row.master_id, row.epoch, row.linked, row.held_down) == ("A", "", 7, True, True)
    assert [slot for slot in (0, 99, 100, 3902, 7000) if row.serves(slot)] == [0, 99, 3902]
    assert row.moves == ((7, "to", "d00"),)
    replica = Row.parse("d00 127.77.0.4:17203@17303,node-d slave f00 0 1795 7 disconnected")
    assert (replica.name, replica.master_id, replica.linked, replica.slots) == ("D", "f00", False, ())
    with pytest.raises(UnknownOutcome, match="none of this cluster"):  # it has not told its name yet
        Row.parse("d00 127.77.0.4:17203@17303, handshake - 0 0 0 disconnected")


@pytest.mark.parametrize("name", ["sim", "virtual", "endpoints"])
def test_a_substrate_without_redis_cluster_says_why(name: str) -> None:
    said = lacking(name, {Capability.REDIS_CLUSTER})
    assert said.startswith(f"{name} cannot run a Redis Cluster (")
    if name in ("sim", "virtual"):
        with pytest.raises(LabError) as caught:
            choose(name, frozenset({Capability.REDIS_CLUSTER}))
        assert caught.value.seen == said


def test_a_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"sim cannot .*run a Redis Cluster"):
        RunRequest("cluster-failover", substrate="sim").plan()
    file = tmp_path / "evict.yaml"
    file.write_text(SCENARIO % "evict: {nodes: [A]}")
    with pytest.raises(LabError, match="nodes of a Redis Cluster cannot remove keys from nodes: "):
        call(["run", str(file), "--on", "local", "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_which_servers_announce_no_names() -> None:
    assert (no_host_names("Redis 6.2.14") or "").startswith("Redis 6.2.14 announces no host names")
    assert [no_host_names(words) for words in ("Redis 7.0.15", "Valkey 8.1.8", "")] == [None, None, None]


def test_a_server_that_announces_no_names_is_refused() -> None:
    old = find("redis@6.2")
    if isinstance(old, Missing):
        pytest.skip(f"{old.reason}: run `{old.hint}`")
    said = substrate("local").lacks("redis", frozenset({Capability.REDIS_CLUSTER}), "redis@6.2")
    assert said is not None
    assert said.startswith("Redis 6.2")
    assert said.endswith("announces no host names in a Redis Cluster: Redis 7.0 or later does")


def test_a_lock_that_follows_redirections_needs_a_redis_cluster() -> None:
    assert lacks_around("cluster", "cluster") is None
    assert lacks_around("redlock", "cluster") is None, "which people do by mistake"
    with pytest.raises(LabError, match="the lock cluster follows the redirections of a Redis Cluster, and"):
        refuse_alone("cluster", "here", "sentinels")


@pytest.mark.parametrize(
    ("cluster", "steps", "seen"),
    [
        ("{nodes: 2, sharded: true}", "[]", "a Redis Cluster of 2 masters cannot agree that one has failed"),
        ("{nodes: 3, node_timeout: 1s}", "[]", "node_timeout is there without a Redis Cluster"),
        ("{nodes: 3, sharded: true, node_timeout: 1500us}", "[]", "node_timeout is 1.5ms"),
        (
            "{nodes: 4, sharded: true, replicas: {D: A}, sentinels: 3}",
            "[]",
            "Sentinels watch a Redis Cluster",
        ),
        ("{nodes: 3, sharded: true}", "[promote: {node: B}]", "B is in a Redis Cluster"),
        ("{nodes: 3, sharded: true}", "[crash: {nodes: [B]}, failover: {by: B}]", "B is down or paused"),
        ("{nodes: 3}", "[reshard: {to: B}]", "the nodes are no Redis Cluster, so there are no slots"),
        ("{nodes: 3, sharded: true}", "[assign_slot: {to: B}]", "no slot is being moved to B"),
        (
            "{nodes: 3, sharded: true}",
            "[reshard: {to: B}, reshard: {to: C}]",
            "the slot is being moved to B already",
        ),
        ("{nodes: 3, sharded: true}", "[pause: {node: B}, reshard: {to: B}]", "B is down or paused"),
        (
            "{nodes: 3, sharded: true}",
            "[hold: {node: A, from: B}]",
            "the links between nodes of a Redis Cluster can be cut only, and in both directions",
        ),
        (
            "{nodes: 2, replicas: {B: A}, sentinels: 3}",
            "[failover: {by: S1, force: true}]",
            "a Sentinel is not told to force a failover: it always does",
        ),
    ],
)
def test_what_a_redis_cluster_does_not_allow_is_refused(cluster: str, steps: str, seen: str) -> None:
    text = f"{{title: t, source: s, why: w, clients: [alice], expect: {{resource: ok}}, cluster: {cluster}"
    with pytest.raises(LabError) as caught:
        load_text(f"{text}, steps: {steps}}}", "s.yaml")
    assert caught.value.seen == seen
