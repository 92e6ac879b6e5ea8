"""Links that do to bytes what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lab.substrates.base import ConnectionKind, Direction
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.node import PORT
from lab.substrates.sim.simulate import simulate
from tests.sim.hosts import linked_node

pytestmark = pytest.mark.usefixtures("_patched")

BREAKS: dict[str, Callable[[SimLink, Direction], Coroutine[Any, Any, None]]] = {
    "cut": lambda link, direction: link.cut(direction, refused=False),
    "hold": lambda link, direction: link.hold(direction),
}


@pytest.mark.parametrize("direction", ["requests", "replies", "both"])
@pytest.mark.parametrize("fault", BREAKS)
def test_a_link_that_lets_nothing_through_in_one_direction(fault: str, direction: Direction) -> None:
    async def work() -> None:
        node, link = await linked_node()
        await BREAKS[fault](link, direction)
        before = await node.echoes()
        assert not (await link.probe(0.5)).reached
        assert await node.echoes() - before == (direction == "replies")
        assert (await node.probe(0.5)).reached, "around the link nothing is wrong"
        assert {trouble.partition("-")[0] for trouble in await link.troubles()} == {fault}
        await link.heal()
        assert (await link.probe(0.5)).reached
        assert await link.troubles() == []

    simulate(work, 1)


KINDS: tuple[ConnectionKind, ConnectionKind] = ("commands", "subscription")


@pytest.mark.parametrize("direction", ["requests", "replies", "both"])
@pytest.mark.parametrize("fault", BREAKS)
@pytest.mark.parametrize("hit", KINDS)
def test_one_kind_of_connections_of_a_link_is_hit_and_the_other_is_not(
    hit: ConnectionKind, fault: str, direction: Direction
) -> None:
    async def work() -> None:
        node, link = await linked_node(reads=True)
        (other,) = set(KINDS) - {hit}
        assert (await link.only(hit).probe(0.5)).reached
        await BREAKS[fault](link.only(hit), direction)
        before = await node.echoes()
        assert not (await link.only(hit).probe(0.5)).reached
        assert await node.echoes() - before == (direction == "replies")
        if (hit, direction) not in (("commands", "requests"), ("commands", "both")):  # SUBSCRIBE is one
            assert (await link.only(other).probe(0.5)).reached
        assert await link.only(hit).troubles() == await link.troubles() != []
        assert await link.only(other).troubles() == []
        await link.heal()
        assert (await link.only(hit).probe(0.5)).reached
        assert await link.troubles() == []

    simulate(work, 1)


@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("hit", KINDS)
def test_a_reset_and_the_healing_of_a_cut_end_connections_of_their_kind(
    hit: ConnectionKind, cuts: bool
) -> None:
    async def work() -> dict[ConnectionKind, str]:
        _, link = await linked_node(reads=True)
        witnesses = {kind: await link.only(kind).witness() for kind in KINDS}
        if cuts:
            await link.only(hit).cut("both", refused=False)
            await link.heal()
        else:
            await link.only(hit).reset()
        return {kind: await witness.fate(0.5) for kind, witness in witnesses.items()}

    (other,) = set(KINDS) - {hit}
    assert simulate(work, 1) == {hit: "closed" if cuts else "reset", other: "open"}


@pytest.mark.parametrize("direction", ["requests", "replies", "both"])
def test_messages_come_while_commands_are_cut(direction: Direction) -> None:
    async def work() -> bytes:
        node, link = await linked_node(reads=True)
        reader, writer = await asyncio.open_connection("alice-A", PORT)
        writer.write(b"SUBSCRIBE c\r\n")
        await reader.readuntil(b":1\r\n")
        await link.only("commands").cut(direction, refused=False)
        await node.ask("PUBLISH", "c", "free")
        return await reader.readuntil(b"free\r\n")

    assert simulate(work, 1).startswith(b"*3\r\n$7\r\nmessage")


def test_messages_wait_while_commands_are_answered() -> None:
    async def work() -> tuple[int, bytes]:
        node, link = await linked_node(reads=True)
        reader, writer = await asyncio.open_connection("alice-A", PORT)
        writer.write(b"SUBSCRIBE c\r\n")
        await reader.readuntil(b":1\r\n")
        await link.only("subscription").hold("replies")
        heard = await node.ask("PUBLISH", "c", "free")
        assert (await link.only("commands").probe(0.5)).reached
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readline(), 1)
        await link.heal()
        assert isinstance(heard, int)
        return heard, await reader.readuntil(b"free\r\n")

    heard, message = simulate(work, 1)
    assert heard == 1
    assert message.startswith(b"*3\r\n$7\r\nmessage")


def test_what_was_held_arrives_and_what_was_cut_does_not() -> None:
    async def work() -> tuple[object, object]:
        node, link = await linked_node()
        _, kept = await asyncio.open_connection("alice-A", PORT)
        await link.hold("requests")
        kept.write(b"SET held 1\r\n")
        await asyncio.sleep(1)
        assert await node.ask("GET", "held") is None
        await link.heal()
        await asyncio.sleep(0.1)
        held = await node.ask("GET", "held")
        await link.cut("requests", refused=False)
        kept.write(b"SET cut 1\r\n")
        await asyncio.sleep(1)
        await link.heal()
        await asyncio.sleep(0.1)
        return held, await node.ask("GET", "cut")

    assert simulate(work, 1) == (b"1", None)


def test_delay_jitter_and_bandwidth_are_as_asked() -> None:
    async def work() -> None:
        _, link = await linked_node()
        await link.delay(50_000_000, 0, "both")
        assert 100_000_000 <= (await link.probe(1)).round_trip_ns < 102_000_000
        await link.delay(50_000_000, 20_000_000, "replies")
        await link.heal()
        await link.delay(50_000_000, 20_000_000, "replies")
        trips = [(await link.probe(1)).round_trip_ns for _ in range(50)]
        assert 30_000_000 <= min(trips) < 40_000_000 < 60_000_000 < max(trips) < 72_000_000
        await link.heal()
        await link.narrow(100, "requests")
        assert 100_000_000 <= (await link.probe(1, 10_000)).round_trip_ns < 103_000_000

    simulate(work, 1)


def test_what_is_done_to_a_link_adds_up_until_it_is_healed() -> None:
    async def work() -> list[list[str]]:
        _, link = await linked_node()
        await link.delay(50_000_000, 0, "both")
        await link.narrow(100, "requests")
        await link.cut("replies", refused=False)
        broken = await link.troubles()
        await link.heal()
        return [broken, await link.troubles()]

    broken = ["bandwidth-requests", "cut-replies", "delay-replies", "delay-requests"]
    assert simulate(work, 1) == [broken, []]


def test_a_link_that_is_refused_or_reset() -> None:
    async def work() -> list[str]:
        _, link = await linked_node()
        fates = []
        witness = await link.witness()
        await link.reset()
        fates.append(await witness.fate(1))
        witness = await link.witness()
        await link.cut("both", refused=True)
        fates.append(await witness.fate(1))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("alice-A", PORT)
        await link.heal()
        fates.append(await (await link.witness()).fate(1))
        return fates

    assert simulate(work, 1) == ["reset", "closed", "open"]
