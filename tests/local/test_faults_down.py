"""Nodes and clients that go down, power cuts, failovers: receipts that come, and receipts that must not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab.substrates.base import Capability
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import LocalNode
from lab.substrates.local.processes import Child
from tests.local.faulty import Broken, broken, step, stopped_before_the_sync

pytestmark = pytest.mark.full

POWER = frozenset({Capability.POWER_CUTS})


@pytest.fixture
async def lab_(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path) as one:
        yield one


@pytest.fixture
async def durable(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path, nodes="A", persistence="aof-everysec", needs=POWER) as one:
        yield one


@pytest.fixture
async def replicated(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path, replicas={"B": "A"}) as one:
        yield one


async def nothing(*_: Any, **__: Any) -> None:
    """What a fault that does not take effect does."""


DOWN = ["crash", "shutdown", "power_cut"]


@pytest.mark.parametrize("fault", DOWN)
async def test_a_node_goes_down_and_comes_back(durable: Broken, fault: str) -> None:
    node = durable.cluster.nodes["A"]
    await node.ask("SET", "k", "v")
    receipt = await durable.inject(**{fault: {"nodes": "all"}})
    assert receipt.confirmed, receipt.evidence
    assert not node.alive
    words, confirmed = await durable.nemesis.end(step(restart={"nodes": "all"}))
    assert confirmed, words
    (back,) = durable.of("restart")
    assert back["heals"] == durable.of(fault)[0]["fault_id"]
    assert back["receipt"]["A"]["run_id_changed"] is True
    if fault != "power_cut":
        assert await node.ask("GET", "k") == b"v", "what was written to a file survives"


@pytest.mark.parametrize("fault", DOWN)
async def test_a_node_that_does_not_go_down(
    durable: Broken, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalNode, "kill", nothing)
    monkeypatch.setattr(LocalNode, "shut_down", nothing)
    assert not (await durable.inject(**{fault: {"nodes": ["A"]}})).confirmed
    assert durable.cluster.nodes["A"].alive


async def test_a_shutdown_must_be_in_order(durable: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    async def killed(node: LocalNode) -> int | None:
        await node.kill()
        return node.running().process.returncode

    monkeypatch.setattr(LocalNode, "shut_down", killed)
    receipt = await durable.inject(shutdown={"nodes": ["A"]})
    assert receipt.evidence["A"]["exit_code"] == -signal.SIGKILL
    assert not receipt.confirmed


async def test_a_node_without_files_forgets(lab_: Broken) -> None:
    await lab_.cluster.nodes["A"].ask("SET", "k", "v")
    await lab_.inject(crash={"nodes": ["A"]})
    assert lab_.of("crash")[0]["breaks"] == "durable nodes"
    await lab_.nemesis.end(step(restart={"nodes": ["A"]}))
    (back,) = lab_.of("restart")
    assert (back["receipt"]["A"]["keys_before"], back["receipt"]["A"]["keys_after"]) == (1, 0)


async def test_nodes_come_back_one_by_one(lab_: Broken) -> None:
    await lab_.inject(crash={"nodes": "all"})
    assert sorted(event["targets"] for event in lab_.of("crash")) == [["A"], ["B"]]
    assert (await lab_.nemesis.end(step(restart={"nodes": ["B"]})))[1]
    assert not lab_.cluster.nodes["A"].alive
    assert lab_.cluster.nodes["B"].alive
    await lab_.nemesis.heal_everything()
    assert lab_.cluster.nodes["A"].alive
    assert {e["heals"] for e in lab_.of("restart")} == {e["fault_id"] for e in lab_.of("crash")}


async def test_the_same_process_is_no_restart(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LocalNode, "kill", nothing)
        await lab_.inject(crash={"nodes": ["A"]})
    monkeypatch.setattr(LocalNode, "start", nothing)
    assert not (await lab_.nemesis.end(step(restart={"nodes": ["A"]})))[1]


async def test_a_delayed_restart_goes_by_the_clock_of_its_own_machine(lab_: Broken) -> None:
    await lab_.inject(crash={"nodes": ["A"]})
    await lab_.nemesis.end(step(restart={"nodes": ["A"], "after": "1h"}))
    assert not await lab_.nemesis.until_up(["A"], 0.05)
    assert (await lab_.inject(jump={"node": "A", "by": "+61m"})).confirmed, "its clock runs while it is down"
    assert await lab_.nemesis.until_up(["A"], 20)
    (back,) = lab_.of("restart")
    assert back["receipt"]["A"]["down_by_own_clock_ms"] > 3_600_000
    assert back["receipt"]["A"]["down_ms"] < 60_000
    assert back["receipt"]["A"]["clock_offset_ms"] == pytest.approx(61 * 60_000, abs=1000)


async def test_a_delay_by_the_monotonic_clock_is_not_shortened_by_a_jump(lab_: Broken) -> None:
    await lab_.inject(crash={"nodes": ["A"]})
    await lab_.nemesis.end(step(restart={"nodes": ["A"], "after": "400ms", "clock": "monotonic"}))
    assert (await lab_.inject(jump={"node": "A", "by": "+61m"})).confirmed
    assert await lab_.nemesis.until_up(["A"], 20)
    (back,) = lab_.of("restart")
    assert 400 <= back["receipt"]["A"]["down_by_own_monotonic_clock_ms"] < 3_600_000
    assert back["receipt"]["A"]["down_by_own_clock_ms"] > 3_600_000, "its wall clock was long past the delay"


async def test_a_jump_elsewhere_does_not_shorten_the_delay(lab_: Broken) -> None:
    await lab_.inject(crash={"nodes": ["A"]})
    await lab_.nemesis.end(step(restart={"nodes": ["A"], "after": "1h"}))
    await lab_.inject(jump={"node": "B", "by": "+61m"})
    assert not await lab_.nemesis.until_up(["A"], 0.1)
    await lab_.nemesis.heal_everything()
    (back,) = lab_.of("restart")
    assert back["type"] == "ok"
    assert "cut short" in back["receipt"]["A"]["delay"]


async def test_a_paused_node_can_be_killed(lab_: Broken) -> None:
    await lab_.inject(pause={"node": "A"})
    assert (await lab_.inject(crash={"nodes": ["A"]})).confirmed
    await lab_.nemesis.heal_everything()
    assert (await lab_.cluster.nodes["A"].probe(1.0)).reached
    assert lab_.of("resume")[0]["heals"] == lab_.of("pause")[0]["fault_id"]


async def test_an_unasked_death_after_a_restart_fails_the_run(lab_: Broken) -> None:
    node = lab_.cluster.nodes["A"]
    await lab_.inject(crash={"nodes": ["A"]})
    await lab_.nemesis.end(step(restart={"nodes": ["A"]}))
    assert not lab_.cluster.failed.done()
    node.running().signal_group(signal.SIGKILL)
    assert "killed by SIGKILL" in await lab_.cluster.failed
    lab_.cluster.failed = asyncio.get_running_loop().create_future()


async def test_a_client_is_killed(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = await lab_.inject(client_crash={"client": "alice"})
    assert receipt.confirmed, receipt.evidence
    assert not lab_.cluster.clients["alice"].alive
    await lab_.nemesis.heal_everything()
    assert not lab_.cluster.clients["alice"].alive


async def test_a_paused_client_can_be_killed(lab_: Broken) -> None:
    await lab_.inject(pause={"client": "alice"})
    assert (await lab_.inject(client_crash={"client": "alice"})).confirmed
    await lab_.nemesis.heal_everything()
    assert lab_.of("resume") == [], "nobody is left who could go on"


async def test_a_client_that_survives_has_no_receipt(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Child, "signal_group", lambda *_: None)
    monkeypatch.setattr("lab.substrates.real.machine.END_TIMEOUT_S", 0.1)
    assert not (await lab_.inject(client_crash={"client": "alice"})).confirmed
    monkeypatch.undo()


async def test_a_power_cut_loses_what_was_not_synced(durable: Broken) -> None:
    node = durable.cluster.nodes["A"]
    key, unsynced = await stopped_before_the_sync(durable)
    receipt = await durable.inject(power_cut={"nodes": ["A"]})
    assert receipt.confirmed
    assert receipt.evidence["A"]["dropped_bytes"] == len(unsynced)
    assert durable.of("power_cut")[0]["breaks"] == "durable nodes"
    await durable.nemesis.end(step(restart={"nodes": ["A"]}))
    assert await node.ask("GET", key) is None


async def test_always_loses_nothing_in_a_power_cut(tmp_path: Path) -> None:
    async with broken(tmp_path, nodes="A", persistence="aof-always", needs=POWER) as lab:
        await lab.cluster.nodes["A"].ask("SET", "k", "v")
        receipt = await lab.inject(power_cut={"nodes": ["A"]})
        assert receipt.confirmed
        assert receipt.evidence["A"]["dropped_bytes"] == 0
        await lab.nemesis.end(step(restart={"nodes": ["A"]}))
        assert await lab.cluster.nodes["A"].ask("GET", "k") == b"v"


async def test_a_power_cut_that_keeps_everything(durable: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    await stopped_before_the_sync(durable)
    monkeypatch.setattr(LocalDisk, "lose_unsynced", LocalDisk.state)
    assert not (await durable.inject(power_cut={"nodes": ["A"]})).confirmed


async def test_priming_without_a_write_has_no_receipt(
    durable: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalNode, "touch", nothing)
    monkeypatch.setattr("lab.faults.prime.TRIES", 1)
    assert not (await step(prime={"nodes": ["A"]}).prime(durable.cluster)).confirmed


async def test_a_failover_loses_what_was_not_replicated(replicated: Broken) -> None:
    master, replica = replicated.cluster.nodes["A"], replicated.cluster.nodes["B"]
    receipt = await replicated.inject(cut={"node": "B", "from": "A"})
    assert receipt.confirmed, receipt.evidence
    assert receipt.evidence["A"]["replica_behind_bytes"] > 0
    await master.ask("SET", "k", "v")
    await replicated.inject(crash={"nodes": ["A"]})
    receipt = await replicated.inject(promote={"node": "B"})
    assert receipt.confirmed, receipt.evidence
    assert receipt.evidence["gap_bytes"] > len("SET k v")
    assert await replica.ask("GET", "k") is None
    await replicated.nemesis.heal_everything()


async def test_a_healed_replica_catches_up(replicated: Broken) -> None:
    master, replica = replicated.cluster.nodes["A"], replicated.cluster.nodes["B"]
    await replicated.inject(cut={"node": "B", "from": "A"})
    await master.ask("SET", "k", "v")
    words, healed = await replicated.nemesis.end(step(heal={"node": "B", "from": "A"}))
    assert healed, words
    while await replica.ask("GET", "k") != b"v":
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("fault", ["hold", "delay", "bandwidth", "reset"])
async def test_other_faults_of_a_replication_link(replicated: Broken, fault: str) -> None:
    more = {"delay": {"by": "50ms"}, "bandwidth": {"rate": "20KB/s"}}.get(fault, {})
    receipt = await replicated.inject(**{fault: {"node": "B", "from": "A", **more}})
    assert receipt.confirmed, receipt.evidence
    await replicated.nemesis.heal_everything()


async def test_what_is_no_promotion_has_no_receipt(
    replicated: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalNode, "promote", nothing)
    assert not (await replicated.inject(promote={"node": "B"})).confirmed


async def test_a_replica_comes_back_as_a_replica(replicated: Broken) -> None:
    await replicated.inject(crash={"nodes": ["B"]})
    await replicated.nemesis.end(step(restart={"nodes": ["B"]}))
    assert (await replicated.cluster.nodes["B"].role()).name == "replica"
    await replicated.inject(promote={"node": "B"})
    await replicated.inject(crash={"nodes": ["B"]})
    await replicated.nemesis.end(step(restart={"nodes": ["B"]}))
    assert (await replicated.cluster.nodes["B"].role()).name == "master"
