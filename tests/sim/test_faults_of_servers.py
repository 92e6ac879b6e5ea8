"""Error replies, keys that go, disks that stall, in the simulation; faults of some connections of a link."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import LabError, UnknownOutcome
from lab.redis_model.aof import AppendOnlyFile
from lab.run import run
from lab.run.request import RunRequest
from lab.substrates.answering import Answering
from lab.substrates.asked import AskedNode
from lab.substrates.parts import Parts
from lab.substrates.sim.node import PORT, SimNode
from lab.substrates.sim.simulate import simulate
from tests.sim.hosts import linked_node
from tests.sim.simulated import Simulated, run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

HEAD: dict[str, Any] = {"title": "t", "source": "s", "why": "w", "clients": ["alice", "bob"]}
ONE = {
    **HEAD,
    "cluster": {"nodes": 1},
    "lock": {"name": "single", "ttl": "5s", "options": {"retry_count": 1}},
}


def play(tmp_path: Path, scenario: dict[str, Any], seed: int = 1) -> Simulated:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    return run_in_simulation(str(path), seed, tmp_path)


def nemesis(run: Simulated, kind: str) -> list[str]:
    lines = (run.directory / "history.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [e["f"] for e in events if e.get("process") == "nemesis" and e.get("type") == kind]


def test_one_client_gets_errors_and_the_other_one_does_not(tmp_path: Path) -> None:
    steps = [
        {"answers": {"client": "alice", "nodes": ["A"], "error": "BUSY"}},
        {"do": ["alice acquires", "bob acquires", "bob releases"]},
        {"heal": {"client": "alice", "nodes": ["A"]}},
        {"do": "alice acquires"},
    ]
    operations = {"alice acquires": ["refused", "ok"], "bob acquires": "ok", "bob releases": "ok"}
    expect = {"mutual_exclusion": "ok", "operations": operations}
    played = play(tmp_path, {**ONE, "steps": steps, "expect": expect})
    assert (played.mismatches, played.unknown) == ((), ())
    assert any("BUSY Redis is busy" in line for line in played.lines)


PARTS: list[dict[str, Any]] = [
    {"cut": {"client": "alice", "nodes": ["A"]}},
    {"cut": {"client": "alice", "nodes": ["A"], "direction": "replies"}},
    {"hold": {"client": "alice", "nodes": ["A"], "direction": "requests"}},
    {"delay": {"client": "alice", "nodes": ["A"], "by": "300ms"}},
    {"bandwidth": {"client": "alice", "nodes": ["A"], "rate": "10KB/s"}},
    {"reset": {"client": "alice", "nodes": ["A"]}},
]


@pytest.mark.parametrize("kind", ["commands", "subscription"])
@pytest.mark.parametrize("fault", PARTS, ids=str)
def test_a_fault_of_some_connections_has_its_receipt(
    fault: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    ((key, body),) = fault.items()
    steps = [{key: {**body, "connection": kind}}, {"heal": "all"}, {"do": "alice acquires"}]
    expect = {"mutual_exclusion": "ok", "operations": {"alice acquires": "ok"}}
    played = play(tmp_path, {**ONE, "steps": steps, "expect": expect})
    assert (played.mismatches, played.unknown) == ((), ())
    assert nemesis(played, "ok") == [key, "heal"]


def test_subscriptions_that_are_lost_keep_no_command_back(tmp_path: Path) -> None:
    steps = [
        {"cut": {"client": "alice", "nodes": ["A"], "connection": "subscription"}},
        {"do": "alice works"},
        {"heal": "all"},
        {"cut": {"client": "alice", "nodes": ["A"], "connection": "commands"}},
        {"do": "alice acquires"},
    ]
    expect = {"mutual_exclusion": "ok", "operations": {"alice works": "ok", "alice acquires": "unknown"}}
    played = play(tmp_path, {**ONE, "steps": steps, "expect": expect})
    assert (played.mismatches, played.unknown) == ((), ())


def test_a_substrate_that_cannot_tell_connections_apart_refuses(tmp_path: Path) -> None:
    cut = {"client": "alice", "nodes": ["A"], "connection": "subscription"}
    path = tmp_path / "scenario.yaml"
    scenario = {**ONE, "steps": [{"cut": cut}], "expect": {"mutual_exclusion": "ok"}}
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    with pytest.raises(LabError) as refused:
        run(RunRequest(str(path), substrate="local", out=tmp_path))
    assert "act on the subscriptions of a link" in refused.value.seen


SABOTAGED: dict[str, tuple[dict[str, Any], type, str]] = {
    "answers": ({"client": "alice", "nodes": ["A"], "error": "BUSY"}, Answering, "begin"),
    "evict": ({"nodes": ["A"]}, AskedNode, "remove"),
    "stall_disk": ({"nodes": ["A"]}, AppendOnlyFile, "holds"),
}


@pytest.mark.parametrize("fault", SABOTAGED)
def test_a_fault_that_does_not_happen_makes_the_run_unknown(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, place, name = SABOTAGED[fault]
    steps = [{"do": "alice acquires"}, {fault: body}]
    scenario = {**ONE, "steps": steps, "expect": {"mutual_exclusion": "ok"}}
    assert play(tmp_path, scenario).unknown == ()

    async def removes_nothing(*_: Any) -> int:
        return 1

    monkeypatch.setattr(place, name, removes_nothing if name == "remove" else lambda *_: 0)
    monkeypatch.setattr("lab.faults.stall_disk.HELD_S", 0.1)
    played = play(tmp_path, scenario)
    assert played.unknown
    assert nemesis(played, "fail") == [fault]


def test_a_client_that_deletes_its_key_first_leaves_the_next_one_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, tried = AskedNode.remove, []

    async def at_first_too_late(node: AskedNode, key: str | None) -> int:
        tried.append(key)
        if len(tried) > 1:
            return await remove(node, key)
        await node.ask("DEL", str(key))
        await node.ask("SET", str(key), "the next one", "PX", 5_000)
        return 0

    monkeypatch.setattr(AskedNode, "remove", at_first_too_late)
    steps = [{"do": "alice acquires"}, {"evict": {"nodes": ["A"]}}, {"do": "bob acquires"}]
    played = play(tmp_path, {**ONE, "steps": steps, "expect": {"mutual_exclusion": "violated"}})
    assert (played.mismatches, played.unknown) == ((), ())
    assert tried == ["resource", "resource"]


DRAWN: list[dict[str, Any]] = [
    {"fault": "answers", "error": "LOADING", "lasts": "100ms", "clients": "one", "nodes": "minority"},
    {"fault": "evict", "nodes": "one"},
    {"fault": "stall_disk", "lasts": ["50ms", "300ms"], "nodes": "one"},
]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("drawn", DRAWN, ids=lambda drawn: str(drawn["fault"]))
def test_a_workload_draws_it_with_a_receipt_each_time(
    drawn: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    scenario = {
        **HEAD,
        "lock": {"name": "redlock", "ttl": "3s"},
        "workload": {"duration": "4s"},
        "faults": [{**drawn, "every": "300ms"}],
        "expect": {"lease_honesty": "ok"},
    }
    played = play(tmp_path, scenario, seed)
    assert (played.mismatches, played.unknown) == ((), ())
    assert nemesis(played, "ok").count(drawn["fault"]) >= 4
    assert not nemesis(played, "fail")


def test_a_server_that_waits_for_its_disk_has_executed_the_write_and_answers_no_client() -> None:
    async def work() -> None:
        node, link = await linked_node("aof-always")
        await node.stall_disk(True)
        assert (await link.probe(0.5)).reached, "what is not written waits for no disk"
        reader, writer = await asyncio.open_connection("alice-A", PORT)
        writer.write(b"SET k v PX 400\r\n")
        asked = asyncio.ensure_future(reader.readline())
        await asyncio.sleep(0.2)
        assert not asked.done()
        assert not (await link.probe(0.1)).reached
        assert await node.held_syncs() == 1
        disk = await node.disk()
        assert disk.synced < disk.written
        await asyncio.sleep(0.3)
        await node.stall_disk(False)
        assert await asked == b"+OK\r\n"
        assert await node.ask("GET", "k") is None, "its time counts from when it was executed"
        disk = await node.disk()
        assert disk.synced == disk.written

    simulate(work, 1)


def test_who_asks_a_server_whose_disk_stalls_is_not_kept_waiting_for_ever() -> None:
    async def work() -> None:
        node, _ = await linked_node("aof-always")
        await node.stall_disk(True)
        with pytest.raises(UnknownOutcome, match="its disk stalls"):
            await node.ask("SET", "k", "v")
        await node.kill()
        await node.lose_unsynced()
        await node.start()
        assert await node.ask("GET", "k") is None

    simulate(work, 1)


def limited(policy: str) -> dict[str, Any]:
    """One node whose memory has a limit."""
    return {**ONE, "cluster": {"nodes": 1, "config": {"maxmemory": "8mb", "maxmemory-policy": policy}}}


FILLED = [{"do": "alice acquires"}, {"fill_memory": {"nodes": ["A"]}}, {"do": "bob acquires"}]


@pytest.mark.parametrize(
    ("policy", "bob"), [("noeviction", {"refused": "OOM"}), ("volatile-ttl", "ok"), ("allkeys-random", "ok")]
)
def test_a_node_whose_memory_is_full(tmp_path: Path, policy: str, bob: object) -> None:
    steps = [*FILLED, {"free_memory": {"nodes": ["A"]}}]
    violated = "ok" if policy == "noeviction" else "violated"
    expect = {"mutual_exclusion": violated, "operations": {"alice acquires": "ok", "bob acquires": bob}}
    played = play(tmp_path, {**limited(policy), "steps": steps, "expect": expect})
    assert (played.mismatches, played.unknown) == ((), ())
    assert nemesis(played, "ok") == ["fill_memory", "free_memory"]


def test_memory_that_is_not_filled_makes_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def writes_nothing(*_: Any) -> bool:
        return True

    monkeypatch.setattr(SimNode, "ballast", writes_nothing)
    expect = {"mutual_exclusion": "ok"}
    for policy in ("noeviction", "allkeys-lru"):
        played = play(tmp_path, {**limited(policy), "steps": FILLED, "expect": expect})
        assert played.unknown
        assert nemesis(played, "fail") == ["fill_memory"]


THREE = {
    **HEAD,
    "cluster": {"nodes": 3, "replicas": {"B": "A", "C": "A"}},
    "lock": {"name": "failover", "ttl": "5s", "options": {"retry_count": 1}},
    "expect": {"mutual_exclusion": "ok"},
}


def test_the_other_replicas_follow_the_one_that_is_promoted(tmp_path: Path) -> None:
    steps = [
        {"crash": {"nodes": ["A"]}},
        {"promote": {"node": "B"}},
        {"do": "alice acquires"},
        {"until": {"nodes": ["C"], "replicated": True}},
        {"crash": {"nodes": ["B"]}},
        {"promote": {"node": "C"}},  # of which it is a replica now
        {"do": "bob acquires"},
    ]
    operations = {"alice acquires": "ok", "bob acquires": "refused"}
    expect = {"mutual_exclusion": "ok", "operations": operations}
    played = play(tmp_path, {**THREE, "steps": steps, "expect": expect})
    assert (played.mismatches, played.unknown) == ((), ())


def test_a_replica_that_is_down_follows_the_new_master_when_it_is_back(tmp_path: Path) -> None:
    steps = [
        {"crash": {"nodes": ["A", "C"]}},
        {"promote": {"node": "B"}},
        {"do": "alice acquires"},
        {"restart": {"nodes": ["C"]}},
        {"until": {"nodes": ["C"], "replicated": True}},
    ]
    played = play(tmp_path, {**THREE, "steps": steps})
    assert (played.mismatches, played.unknown) == ((), ())


def test_a_replica_that_is_not_attached_makes_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follows_nobody(*_: Any, now: bool) -> None:
        """Told, and it does not listen."""

    steps = [{"do": "alice acquires"}, {"crash": {"nodes": ["A"]}}, {"promote": {"node": "B"}}]
    assert play(tmp_path, {**THREE, "steps": steps}).unknown == ()
    attach = Parts.attach

    async def attach_nobody(self: Any, replica: str, master: str, *, now: bool) -> None:
        monkeypatch.setattr(AskedNode, "follow", follows_nobody)
        await attach(self, replica, master, now=now)

    monkeypatch.setattr(Parts, "attach", attach_nobody)
    played = play(tmp_path, {**THREE, "steps": steps})
    assert played.unknown
    assert nemesis(played, "fail") == ["promote"]


def test_what_is_not_simulated_is_refused_by_name_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    for cluster, said in (
        ({"nodes": 1, "config": {"lua-time-limit": 5000}}, "lua-time-limit 5000 is not simulated"),
        ({"nodes": 2, "replicas": {"B": "A"}, "persistence": "rdb"}, "the snapshot file of a replica"),
    ):
        scenario = {**ONE, "cluster": cluster, "steps": [{"do": "alice acquires"}]}
        path.write_text(yaml.safe_dump({**scenario, "expect": {"mutual_exclusion": "ok"}}, sort_keys=False))
        with pytest.raises(LabError) as refused:
            run(RunRequest(str(path), substrate="sim", out=tmp_path / "reports"))
        assert said in refused.value.seen
        assert "--on virtual" in refused.value.seen
        assert not (tmp_path / "reports").exists()
