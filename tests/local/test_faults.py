"""Every fault on real processes: its receipt comes when it took effect, and does not come when it did not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lab import tools
from lab.client_protocol import Command, Outcome
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.processes import Child
from lab.substrates.toxiproxy import ToxiproxyLink
from tests.local.faulty import MS, Broken, S, broken, step


@pytest.fixture
async def lab_(tmp_path: Path) -> AsyncIterator[Broken]:
    async with broken(tmp_path) as one:
        yield one


async def nothing(*_: Any, **__: Any) -> None:
    """What a fault that does not take effect does."""


LINK_FAULTS: list[dict[str, Any]] = [
    {"cut": {"client": "alice", "nodes": ["A", "B"]}},
    {"cut": {"client": "alice", "nodes": ["A"], "direction": "requests"}},
    {"cut": {"client": "alice", "nodes": ["A"], "direction": "replies"}},
    {"cut": {"client": "alice", "store": True}},
    {"hold": {"client": "alice", "nodes": "all"}},
    {"hold": {"client": "alice", "store": True, "direction": "requests"}},
    {"delay": {"client": "alice", "nodes": "all", "by": "60ms", "jitter": "10ms"}},
    {"delay": {"client": "alice", "store": True, "by": "60ms", "direction": "requests"}},
    {"bandwidth": {"client": "alice", "nodes": ["A"], "rate": "10KB/s"}},
    {"bandwidth": {"client": "alice", "store": True, "rate": "2MB/s", "direction": "replies"}},
]


@pytest.mark.parametrize("fault", LINK_FAULTS, ids=str)
async def test_a_broken_link(lab_: Broken, fault: dict[str, Any]) -> None:
    receipt = await lab_.inject(**fault)
    assert receipt.confirmed, receipt.evidence
    words, healed = await lab_.nemesis.end(step(heal="all"))
    assert healed, words
    (heal,) = lab_.of("heal")
    assert heal["heals"] == lab_.of(next(iter(fault)))[0]["fault_id"]
    assert [await one.troubles() for one in lab_.cluster._links.values()] == [[], [], []]


@pytest.mark.parametrize("fault", LINK_FAULTS, ids=str)
async def test_a_link_that_is_not_broken_has_no_receipt(
    lab_: Broken, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToxiproxyLink, "_add", nothing)
    assert not (await lab_.inject(**fault)).confirmed
    assert lab_.of(next(iter(fault)))[0]["type"] == "fail"


SLOW, LESS_SLOW = ({"delay": {"client": "alice", "nodes": ["A"], "by": by}} for by in ("200ms", "20ms"))
NARROW, LESS_NARROW = (
    {"bandwidth": {"client": "alice", "nodes": ["A"], "rate": rate}} for rate in ("10KB/s", "40KB/s")
)


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second"),
    [(LESS_SLOW, SLOW), (SLOW, LESS_SLOW), (LESS_NARROW, NARROW), (NARROW, LESS_NARROW)],
    ids=str,
)
async def test_a_link_that_is_slow_becomes_more_so_or_less(
    lab_: Broken, first: dict[str, Any], second: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await lab_.inject(**first)).confirmed
    with monkeypatch.context() as patched:
        patched.setattr(ToxiproxyLink, "_add", nothing)
        assert not (await lab_.inject(**second)).confirmed
    receipt = await lab_.inject(**second)
    assert receipt.confirmed, receipt.evidence
    assert (await lab_.nemesis.end(step(heal="all")))[1]


async def test_refused_connections(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = {"client": "alice", "nodes": ["A"], "mode": "refused"}
    assert (await lab_.inject(cut=cut)).confirmed
    assert (await lab_.nemesis.end(step(heal={"client": "alice", "nodes": ["A"]})))[1]
    monkeypatch.setattr(ToxiproxyLink, "cut", nothing)
    assert not (await lab_.inject(cut=cut)).confirmed


async def test_a_heal_that_heals_nothing_is_seen(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    await lab_.inject(cut={"client": "alice", "nodes": ["A"]})
    with monkeypatch.context() as patched:
        patched.setattr(ToxiproxyLink, "heal", nothing)
        patched.setattr("lab.faults.heal.AROUND_TIMEOUT_S", 0.1)
        assert not (await lab_.nemesis.end(step(heal="all")))[1]


async def test_a_part_of_a_cut_is_healed_and_the_rest_goes_on(lab_: Broken) -> None:
    await lab_.inject(cut={"client": "alice", "nodes": ["A", "B"]})
    assert (await lab_.nemesis.end(step(heal={"client": "alice", "nodes": ["A"]})))[1]
    whole, rest = lab_.of("cut")
    assert rest["targets"] == ["alice", "B"]
    assert rest["receipt"] == {"continues": whole["fault_id"]}
    assert await lab_.cluster.link("alice", "A").troubles() == []
    assert await lab_.cluster.link("alice", "B").troubles() == ["cut-downstream", "cut-upstream"]


async def test_a_link_to_a_node_that_is_down_is_cut_and_healed(lab_: Broken) -> None:
    await lab_.inject(crash={"nodes": ["A"]})
    receipt = await lab_.inject(cut={"client": "alice", "nodes": ["A"]})
    assert receipt.confirmed
    assert receipt.evidence["A"]["link"] == ["cut-downstream", "cut-upstream"]
    assert (await lab_.nemesis.end(step(heal="all")))[1]


async def test_a_reset(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = await lab_.inject(reset={"client": "alice", "nodes": "all"})
    assert receipt.confirmed, receipt.evidence
    assert {shown["open_connection"] for shown in receipt.evidence.values()} <= {"reset", "closed"}
    assert lab_.of("heal")[0]["heals"] == lab_.of("reset")[0]["fault_id"]
    monkeypatch.setattr(ToxiproxyLink, "reset", nothing)
    monkeypatch.setattr("lab.faults.reset.RESET_TIMEOUT_S", 0.2)
    assert not (await lab_.inject(reset={"client": "alice", "nodes": "all"})).confirmed


async def test_nothing_is_reset_where_the_server_is_down(lab_: Broken) -> None:
    await lab_.inject(crash={"nodes": ["A"]})
    receipt = await lab_.inject(reset={"client": "alice", "nodes": ["A"]})
    assert not receipt.confirmed, receipt.evidence
    assert receipt.evidence["A"]["server"] == "down"
    assert lab_.of("reset")[0]["type"] == "fail"
    assert not lab_.of("heal"), "what did not happen was not healed"


async def test_a_reset_of_a_link_to_a_paused_node(lab_: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    await lab_.inject(pause={"node": "A"})
    assert (await lab_.inject(reset={"client": "alice", "nodes": ["A"]})).confirmed
    monkeypatch.setattr(ToxiproxyLink, "reset", nothing)
    monkeypatch.setattr("lab.faults.reset.RESET_TIMEOUT_S", 0.2)
    assert not (await lab_.inject(reset={"client": "alice", "nodes": ["A"]})).confirmed


async def test_a_client_lives_through_a_reset(lab_: Broken) -> None:
    alice = lab_.cluster.clients["alice"]
    assert (await alice.order(Command(1, "acquire"))).outcome is Outcome.OK
    await lab_.inject(reset={"client": "alice", "nodes": ["A"]})
    await alice.order(Command(2, "release"))
    assert alice.alive


MACHINES = [{"node": "A"}, {"client": "alice"}]


@pytest.mark.parametrize("whose", MACHINES, ids=str)
async def test_a_pause(lab_: Broken, whose: dict[str, str]) -> None:
    receipt = await lab_.inject(pause=whose)
    assert receipt.confirmed
    assert set(receipt.evidence["states_after"].split()) == {"T"}
    assert (await lab_.nemesis.end(step(resume=whose)))[1]
    assert lab_.of("resume")[0]["heals"] == lab_.of("pause")[0]["fault_id"]


@pytest.mark.parametrize("whose", MACHINES, ids=str)
async def test_a_signal_to_the_wrong_process_pauses_nothing(
    lab_: Broken, whose: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bystander = lab_.cluster.nodes["B"].running()
    real = Child.signal_group

    def misdirected(child: Child, number: signal.Signals) -> None:
        real(bystander if number == signal.SIGSTOP else child, number)

    monkeypatch.setattr(Child, "signal_group", misdirected)
    monkeypatch.setattr("lab.substrates.real.machine.STATE_TIMEOUT_S", 0.1)
    assert not (await lab_.inject(pause=whose)).confirmed
    real(bystander, signal.SIGCONT)


CLOCK_FAULTS: list[dict[str, Any]] = [
    {"jump": {"by": "+11s"}},
    {"jump": {"by": "-5s"}},
    {"drift": {"ppm": 50_000}},
    {"drift": {"ppm": -20_000}},
    {"strobe": {"by": "+500ms", "every": "20ms"}},
]


@pytest.mark.parametrize("whose", MACHINES, ids=str)
@pytest.mark.parametrize("fault", CLOCK_FAULTS, ids=str)
async def test_a_wrong_clock(lab_: Broken, whose: dict[str, str], fault: dict[str, Any]) -> None:
    ((name, body),) = fault.items()
    receipt = await lab_.inject(**{name: body | whose})
    assert receipt.confirmed, receipt.evidence
    assert lab_.of(name)[0]["breaks"] == "bounded clock error"
    other = await lab_.cluster.nodes["B"].read_clock()
    assert abs(other.offset_ns) - other.uncertainty_ns < 100 * MS, "every other clock stays"
    words, corrected = await lab_.nemesis.end(step(correct=whose))
    assert corrected, words
    assert lab_.of("correct")[0]["heals"] == lab_.of(name)[0]["fault_id"]


@pytest.mark.parametrize("whose", MACHINES, ids=str)
@pytest.mark.parametrize("fault", CLOCK_FAULTS, ids=str)
async def test_a_clock_file_that_nobody_reads(
    lab_: Broken,
    whose: dict[str, str],
    fault: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (name,) = whose.values()
    parts = {**lab_.cluster.nodes, **lab_.cluster.clients}
    unread = LocalClock(tools.require("clock-shim"), tmp_path / "unread.clock")
    monkeypatch.setattr(parts[name], "_clock", unread)
    monkeypatch.setattr("lab.faults.strobe.STROBE_PATIENCE_S", 0.2)
    ((f, body),) = fault.items()
    assert not (await lab_.inject(**{f: body | whose})).confirmed
    unread.close()


async def test_a_jump_keeps_a_drift_and_a_correction_ends_both(lab_: Broken) -> None:
    await lab_.inject(drift={"node": "A", "ppm": 500_000})
    assert (await lab_.inject(jump={"node": "A", "by": "+5s"})).confirmed
    first = await lab_.cluster.nodes["A"].read_clock()
    while (await lab_.cluster.nodes["A"].read_clock()).offset_ns < first.offset_ns + 200 * MS:
        await asyncio.sleep(0.01)
    assert (await lab_.nemesis.end(step(correct="all")))[1]
    assert {event["heals"] for event in lab_.of("correct")} == {
        lab_.of("drift")[0]["fault_id"],
        lab_.of("jump")[0]["fault_id"],
    }
    last = await lab_.cluster.nodes["A"].read_clock()
    assert abs(last.offset_ns) - last.uncertainty_ns < 50 * MS


async def test_the_clock_of_a_paused_client_jumps(lab_: Broken) -> None:
    await lab_.inject(pause={"client": "alice"})
    assert (await lab_.inject(jump={"client": "alice", "by": "+11s"})).confirmed
    await lab_.nemesis.end(step(resume={"client": "alice"}))
    now = await lab_.cluster.clients["alice"].read_clock()
    assert abs(now.offset_ns - 11 * S) - now.uncertainty_ns < 100 * MS


async def test_a_busy_client_tells_the_time(lab_: Broken) -> None:
    await lab_.inject(hold={"client": "alice", "nodes": "all"})
    alice = lab_.cluster.clients["alice"]
    waits = asyncio.create_task(alice.order(Command(1, "acquire")))
    assert (await lab_.inject(jump={"client": "alice", "by": "+3s"})).confirmed
    assert not waits.done()
    await lab_.nemesis.end(step(heal="all"))
    await waits


@pytest.mark.parametrize("fault", ["hold", "delay"])
async def test_a_heal_does_not_wait_for_a_client_that_gave_up(lab_: Broken, fault: str) -> None:
    """Toxiproxy hangs for ever when a toxic is removed that keeps packets for a connection nobody reads."""
    link = lab_.cluster.link("alice", "A")
    given_up = []
    for _ in range(5):
        reader, writer = await asyncio.open_connection(link.address.host, link.address.port)
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        given_up.append(writer)
    await (link.hold("replies") if fault == "hold" else link.delay(3600 * S, 0, "replies"))
    node = lab_.cluster.nodes["A"]
    for writer in given_up:
        for _ in range(8):
            before = await node.echoes()
            writer.write(b"ECHO x\r\n")
            while await node.echoes() == before:
                await asyncio.sleep(0.001)
        writer.transport.abort()
    await link.heal()
    assert await link.troubles() == []
    assert (await link.probe(5.0)).reached
