"""What servers do by themselves, on real ones: error replies, keys that go, disks that stall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab.channel import Channel, NodeError
from lab.client_protocol import Command, Outcome
from lab.errors import UnknownOutcome
from lab.faults.answers import ERRORS
from lab.locks.redlock import EXTEND_SCRIPT, UNLOCK_SCRIPT
from lab.run.monitor import Monitor
from lab.shims import StallFile
from lab.substrates.answering import Answering
from lab.substrates.asked import AskedNode
from lab.substrates.base import Capability
from tests.local.faulty import Broken, broken, step

NEEDS = frozenset((Capability.ANSWER_ERRORS, Capability.REMOVE_KEYS, Capability.STALL_DISKS))
BUSY = {"client": "alice", "nodes": ["A"], "error": "BUSY", "to": ["SET", "EVALSHA", "EVAL"]}


@pytest.fixture
async def lab_(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path, persistence="aof-always", needs=NEEDS) as one:
        yield one


def nothing(*_: Any, **__: Any) -> None:
    """What a fault that does not take effect does."""


async def executed(lab: Broken, node: str, until: str) -> list[str]:
    """The commands that a node shows while Alice tries in vain, up to a PING with ``until``."""
    seen: list[str] = []
    async with Monitor(lab.cluster.nodes[node].address) as monitor:
        answer = await lab.cluster.clients["alice"].order(Command(9, "acquire"))
        assert answer.outcome is Outcome.FAIL, answer
        assert "BUSY" in answer.text
        await lab.cluster.nodes[node].ask("PING", until)
        while until not in seen:
            _, words = await monitor.next()
            seen += [words[-1]] if words[0] == "PING" else [words[0].upper()]
    return seen


async def test_an_error_reply_to_commands_that_are_not_executed(lab_: Broken) -> None:
    receipt = await lab_.inject(answers=BUSY)
    assert receipt.confirmed, receipt.evidence
    assert receipt.evidence["A"] == {"through_link": "BUSY", "around": "ERR"}
    assert await lab_.cluster.link("alice", "A").troubles() != []
    seen = await executed(lab_, "A", "marked")
    assert not {"SET", "EVAL", "EVALSHA"} & set(seen), seen
    assert (await lab_.nemesis.end(step(heal="all")))[1]
    assert (await lab_.cluster.clients["alice"].order(Command(10, "acquire"))).outcome is Outcome.OK


async def test_errors_for_one_client_and_some_commands_only(lab_: Broken) -> None:
    assert (await lab_.inject(answers=BUSY)).confirmed
    link, node = lab_.cluster.link("alice", "A"), lab_.cluster.nodes["A"]
    through = Channel(link.address, connect_timeout_s=2.0, stale_after_s=10.0)
    try:
        posted = [through.post(*words) for words in (("GET", "k"), ("SET", "k", "v"), ("ECHO", "x"))]
        got, error, echoed = await asyncio.gather(*posted, return_exceptions=True)
    finally:
        await through.close()
    assert (got, echoed) == (None, b"x")
    assert isinstance(error, NodeError)
    assert str(error).startswith("BUSY")
    assert await node.ask("SET", "k", "v") == b"OK"
    assert (await lab_.cluster.link("alice", "B").probe(2.0)).reached


async def test_an_error_reply_that_never_comes_has_no_receipt(
    lab_: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answering, "begin", nothing)
    assert not (await lab_.inject(answers=BUSY)).confirmed
    assert lab_.of("answers")[0]["type"] == "fail"


async def test_error_replies_that_go_on_are_not_healed(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await lab_.inject(answers=BUSY)).confirmed
    monkeypatch.setattr(Answering, "end", nothing)
    assert not (await lab_.nemesis.end(step(heal="all")))[1]


async def test_a_node_that_is_down_or_paused_answers_no_error(lab_: Broken) -> None:
    await lab_.inject(pause={"node": "A"})
    assert (await lab_.inject(answers=BUSY)).confirmed
    through = Channel(lab_.cluster.link("alice", "A").address, connect_timeout_s=2.0, stale_after_s=10.0)
    asked = asyncio.ensure_future(through.call("SET", "k", "v"))
    try:
        done, _ = await asyncio.wait((asked,), timeout=0.1)
        assert not done
        await lab_.nemesis.end(step(resume={"node": "A"}))
        with pytest.raises(NodeError, match="BUSY"):
            await asked
    finally:
        await through.close()


async def test_a_key_goes(lab_: Broken) -> None:
    node = lab_.cluster.nodes["A"]
    await node.ask("SET", "k", "token", "PX", "60000")
    receipt = await lab_.inject(evict={"nodes": ["A"], "key": "k"})
    assert receipt.confirmed, receipt.evidence
    evidence = receipt.evidence["A"]
    assert (evidence["value"], evidence["removed"], evidence["value_after"]) == ("token", 1, None)
    assert evidence["left_before_ms"] > 0
    assert lab_.of("evict")[0]["breaks"] == "keys kept for their TTL"
    assert lab_.of("heal")[0]["heals"] == lab_.of("evict")[0]["fault_id"]
    assert await node.ask("GET", "k") is None


async def test_all_keys_go_also_of_other_types(lab_: Broken) -> None:
    node = lab_.cluster.nodes["A"]
    await node.ask("HSET", "lock", "holder", "1")
    await node.ask("SET", "other", "v")
    receipt = await lab_.inject(evict={"nodes": ["A"], "key": "lock"})
    assert receipt.confirmed, receipt.evidence
    await node.ask("SET", "k", "v")
    assert (await lab_.cluster.nodes["A"].remove(None)) == 2
    assert await node.ask("DBSIZE") == 0


async def test_a_key_that_stays_or_never_was_has_no_receipt(
    lab_: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.faults.evict.PATIENCE_S", 0.1)
    assert not (await lab_.inject(evict={"nodes": ["A"], "key": "k"})).confirmed

    async def says_so(*_: Any) -> int:
        return 1

    await lab_.cluster.nodes["A"].ask("SET", "k", "token")
    monkeypatch.setattr(AskedNode, "remove", says_so)
    assert not (await lab_.inject(evict={"nodes": ["A"], "key": "k"})).confirmed
    assert not lab_.of("heal"), "what did not happen was not healed"


async def test_a_disk_stalls_under_writes_only(lab_: Broken) -> None:
    receipt = await lab_.inject(stall_disk={"nodes": ["A"]})
    assert receipt.confirmed, receipt.evidence
    assert receipt.evidence["A"] == {"write": "no answer", "syncs_held": 1, "write_when_free": "answered"}
    node = lab_.cluster.nodes["A"]
    assert (await node.probe(2.0)).reached, "what is not written waits for no disk"
    acquires = asyncio.ensure_future(lab_.cluster.clients["alice"].order(Command(1, "acquire")))
    while not await node.held_syncs():
        await asyncio.sleep(0.005)
    assert not (await node.probe(0.05)).reached
    words, freed = await lab_.nemesis.end(step(free_disk={"nodes": ["A"]}))
    assert freed, words
    assert lab_.of("free_disk")[0]["heals"] == lab_.of("stall_disk")[0]["fault_id"]
    await acquires
    assert (await node.probe(2.0)).reached


async def test_a_disk_that_does_not_stall_or_stalls_on(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(StallFile, "set", nothing)
        patched.setattr("lab.faults.stall_disk.HELD_S", 0.1)
        assert not (await lab_.inject(stall_disk={"nodes": ["A"]})).confirmed
    assert (await lab_.inject(stall_disk={"nodes": ["B"]})).confirmed
    with monkeypatch.context() as patched:
        patched.setattr(StallFile, "set", nothing)
        patched.setattr("lab.substrates.real.node.ANSWER_TIMEOUT_S", 0.2)
        patched.setattr("lab.faults.free_disk.FREE_S", 0.1)
        assert not (await lab_.nemesis.end(step(free_disk={"nodes": ["B"]})))[1]
    await lab_.cluster.nodes["B"].stall_disk(False)


async def test_what_a_stalled_disk_has_not_synced_is_lost_with_the_power(tmp_path: Path) -> None:
    needs = NEEDS | {Capability.POWER_CUTS}
    async with broken(tmp_path, persistence="aof-everysec", needs=needs) as lab:
        receipt = await lab.inject(stall_disk={"nodes": ["A"]})
        assert receipt.confirmed, receipt.evidence
        assert receipt.evidence["A"]["write"] == "answered"
        for node in lab.cluster.nodes.values():
            await node.ask("SET", "k", "v")
        while (disk := await lab.cluster.nodes["B"].disk()).synced < disk.written:
            await asyncio.sleep(0.05)
        await lab.inject(power_cut={"nodes": "all"})
        assert (await lab.nemesis.end(step(free_disk={"nodes": "all"})))[1]
        await lab.nemesis.end(step(restart={"nodes": "all"}))
        kept = {name: await node.ask("GET", "k") for name, node in lab.cluster.nodes.items()}
        assert kept == {"A": None, "B": b"v"}


def settings(**values: str | int) -> list[tuple[str | int, ...]]:
    return [("CONFIG", "SET", name.replace("_", "-"), value) for name, value in values.items()]


REAL: dict[str, list[tuple[str | int, ...]]] = {
    "OOM": settings(maxmemory=1, maxmemory_policy="noeviction"),
    "NOREPLICAS": settings(min_replicas_to_write=1),
    "READONLY": [("REPLICAOF", "127.0.0.1", 1)],
}


@pytest.mark.parametrize("word", REAL)
async def test_the_errors_are_those_of_a_real_server(word: str, lab_: Broken) -> None:
    node = lab_.cluster.nodes["A"]
    await node.ask("SET", "k", "token", "PX", 60_000)
    for command in REAL[word]:
        await node.ask(*command)
    with pytest.raises(UnknownOutcome) as refused:
        await node.ask("SET", "k2", "v")
    assert refused.value.seen.endswith(ERRORS[word])
    extends = ("EVAL", EXTEND_SCRIPT, 1, "k", "token", 90_000)
    releases = ("EVAL", UNLOCK_SCRIPT, 1, "k", "token")
    if word == "OOM":  # as in oom-while-held: what extends and releases needs no memory
        assert await node.ask(*extends) == 1
        assert await node.ask(*releases) == 1
    else:
        with pytest.raises(UnknownOutcome, match=word):
            await node.ask(*releases)


async def until_refused(node: AskedNode) -> None:
    while True:
        await node.ask("GET", "k")
        await asyncio.sleep(0.005)


async def test_a_busy_server_answers_as_it_is_said(lab_: Broken) -> None:
    node = lab_.cluster.nodes["A"]
    await node.ask("CONFIG", "SET", "lua-time-limit", 1)
    endless = Channel(node.address, connect_timeout_s=2.0, stale_after_s=10.0)
    script = asyncio.ensure_future(endless.call("EVAL", "while true do end", 0))
    try:
        with pytest.raises(UnknownOutcome) as refused:
            await until_refused(node)
        assert refused.value.seen.endswith(ERRORS["BUSY"])
        await node.ask("SCRIPT", "KILL")
        with pytest.raises(NodeError):
            await script
    finally:
        await endless.close()
