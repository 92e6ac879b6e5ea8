"""Virtual time, and hosts and nodes that stand still or die."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import random
import signal
import time
from collections.abc import Coroutine
from typing import Any

import pytest
import redis.asyncio

from lab.locks.heartbeat import STALL_NS, watch_for_stalls
from lab.substrates.interruption import Interrupted
from lab.substrates.sim.clock import S_NS, Clock
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.node import PORT
from lab.substrates.sim.simulate import simulate
from lab.substrates.sim.world import World
from tests.sim.hosts import another, here, linked_node

pytestmark = pytest.mark.usefixtures("_patched")


def test_events_of_one_instant_happen_in_the_order_in_which_they_were_arranged() -> None:
    world, seen = World(1), list[int]()
    for number in range(5):
        world.at(10, seen.append, number)
    world.at(5, seen.append, -1)
    world.run_until(lambda: len(seen) == 6)
    assert seen == [-1, 0, 1, 2, 3, 4]
    assert world.now_ns == 10


def test_waiting_for_what_never_comes_is_told() -> None:
    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationError, match="nothing is left to happen"):
        simulate(work, 1)


def test_a_host_that_never_lets_time_pass_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.substrates.sim.loop.SPINS_MAX", 1000)

    async def work() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="without any time passing"):
        simulate(work, 1)


def test_who_waits_until_a_moment_sees_it_come_however_near_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.substrates.sim.loop.SPINS_MAX", 1000)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(300):
            await asyncio.sleep(random.random())
            give_up = math.nextafter(loop.time(), math.inf)
            while loop.time() < give_up:
                await asyncio.wait([loop.create_future()], timeout=give_up - loop.time())

    simulate(work, 1)


def test_a_clock_jumps_drifts_and_is_set_right() -> None:
    world = World(0)
    clock = Clock(world)
    start_ns = clock.wall_ns()
    clock.jump(11 * S_NS)
    clock.drift(1_000)
    world.now_ns = 10 * S_NS
    assert clock.wall_ns() - start_ns == 21 * S_NS + 10_000_000
    clock.jump(-20 * S_NS)
    assert clock.shift_ns() == -9 * S_NS + 10_000_000
    clock.correct()
    assert clock.wall_ns() - start_ns == 10 * S_NS


def test_hosts_see_their_own_wall_clocks() -> None:
    async def look() -> int:
        return time.time_ns()

    async def work() -> int:
        ahead = another("ahead")
        ahead.host.clock.jump(60 * S_NS)
        task = ahead.create_task(look())
        await asyncio.sleep(0.001)
        return task.result() - time.time_ns()

    assert simulate(work, 1) == 60 * S_NS - 1_000_000


def test_after_a_pause_what_came_in_is_seen_before_timers_that_are_due() -> None:
    seen: list[str] = []

    class Ear(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            seen.append("reply")

    async def alice() -> None:
        transport, _ = await asyncio.get_running_loop().create_connection(Ear, "alice-A", PORT)
        asyncio.get_running_loop().call_later(0.2, seen.append, "timer")
        transport.write(b"PING\r\n")

    async def work() -> None:
        await linked_node()
        host = another("alice")
        host.create_task(alice())
        await asyncio.sleep(0.0002)
        host.host.pause()
        await asyncio.sleep(5)
        assert seen == []
        host.host.resume()
        await asyncio.sleep(1)

    simulate(work, 1)
    assert seen == ["reply", "timer"]


def test_a_pause_is_a_stall_and_nothing_else_is_or_costs_an_event() -> None:
    stalls: list[tuple[int, int]] = []
    expected: list[tuple[int, int]] = []

    async def work() -> None:
        loop = another("alice")
        world = loop.host.world
        loop.create_task(watch_for_stalls(lambda *stall: stalls.append(stall)))
        await asyncio.sleep(0.1)
        arranged = world.arranged
        await asyncio.sleep(60)
        assert world.arranged <= arranged + 2, "the end of this sleep, and of the one before"
        for pause_ns in (STALL_NS - 1000, STALL_NS + 1000, 2 * S_NS):
            since_ns = loop.host.clock.monotonic_ns()
            loop.host.pause()
            await asyncio.sleep(pause_ns / S_NS)
            if pause_ns > STALL_NS:
                expected.append((since_ns, loop.host.clock.monotonic_ns() - since_ns))
            loop.host.resume()
            await asyncio.sleep(0.1)

    simulate(work, 1)
    assert stalls == expected


def test_a_host_that_is_gone_runs_no_more_code() -> None:
    seen: list[str] = []

    async def alice() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            seen.append("clean-up")

    async def work() -> None:
        host = another("alice")
        host.create_task(alice())
        await asyncio.sleep(0.1)
        host.stop_for_ever()
        await asyncio.sleep(10)
        assert seen == []

    simulate(work, 1)


def test_what_code_starts_while_its_host_is_switched_off_is_closed_as_well() -> None:
    """As a lock whose ``finally`` sends something with a time-out: that is a task of its own."""
    begun: list[Coroutine[Any, Any, None]] = []

    async def give_back() -> None:
        await asyncio.sleep(0)

    async def hold() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            begun.append(give_back())
            await asyncio.wait_for(begun[-1], 1.0)

    async def work() -> asyncio.Task[None]:
        task = asyncio.create_task(hold())
        await asyncio.sleep(0.1)
        return task

    simulate(work, 1)
    assert [inspect.getcoroutinestate(each) for each in begun] == [inspect.CORO_CLOSED]


def test_a_node_that_dies_ends_its_connections_and_comes_back_as_another() -> None:
    async def work() -> None:
        node, link = await linked_node()
        before = await node.life()
        witness = await link.witness()
        await node.kill()
        assert await witness.fate(1) in ("reset", "closed")
        assert not (await node.probe(0.1)).reached
        assert not (await link.probe(0.1)).reached
        await node.start()
        after = await node.life()
        assert (await link.probe(0.1)).reached
        assert before.run_id != after.run_id
        assert before.process_id != after.process_id

    simulate(work, 1)


def test_a_node_that_stands_still_answers_when_it_goes_on() -> None:
    async def work() -> None:
        node, link = await linked_node()
        await node.pause()
        assert set(node.states().values()) == {"T"}
        probe = asyncio.ensure_future(link.probe(10))
        await asyncio.sleep(3)
        assert not probe.done()
        await node.resume()
        assert (await probe).round_trip_ns > 3 * S_NS

    simulate(work, 1)


def test_the_order_of_what_is_done_at_once_does_not_depend_on_addresses() -> None:
    async def number(value: int) -> int:
        await asyncio.sleep(0)
        return value

    async def work() -> list[int]:
        garbage = [object() for _ in range(random.randrange(1000))]
        del garbage
        return [await each for each in asyncio.as_completed([number(value) for value in range(50)])]

    assert simulate(work, 1) == simulate(work, 2) == list(range(50))


def test_a_signal_cancels_and_the_clean_up_takes_place_in_virtual_time() -> None:
    cleaned: list[int] = []

    async def work() -> None:
        start_ns = time.monotonic_ns()
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(60)
            cleaned.append(time.monotonic_ns() - start_ns)

    with pytest.raises(Interrupted):
        simulate(work, 1)
    assert 60 * S_NS <= cleaned[0] < 3600 * S_NS


def test_what_goes_wrong_in_the_simulation_itself_ends_it() -> None:
    async def work() -> None:
        here().host.world.after(10, lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="ZeroDivisionError"):
        simulate(work, 1)


def test_bytes_of_one_connection_keep_their_order_whatever_the_delay() -> None:
    async def work() -> object:
        node, link = await linked_node()
        _, writer = await asyncio.open_connection("alice-A", PORT)
        await link.delay(50_000_000, 50_000_000, "both")
        for number in range(100):
            writer.write(b"RPUSH order %d\r\n" % number)
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        return await node.ask("LRANGE", "order", 0, -1)

    assert simulate(work, 1) == [b"%d" % number for number in range(100)]


def test_where_bytes_were_lost_connections_end_when_the_link_is_whole_again() -> None:
    async def work() -> list[str]:
        _, link = await linked_node()
        held = await link.witness()
        await link.hold("both")
        await link.heal()
        fates = [await held.fate(1)]
        lost = await link.witness()
        await link.cut("replies", refused=False)
        await link.heal()
        return [*fates, await lost.fate(1)]

    assert simulate(work, 1) == ["open", "closed"]


def test_clients_of_redis_py_in_a_set_have_an_order_of_their_own() -> None:
    async def work() -> list[int]:
        clients = [redis.asyncio.Redis(host="A") for _ in range(50)]
        places = {id(client): number for number, client in enumerate(clients)}
        random.shuffle(clients)
        for client in reversed(clients):
            hash(client)
        return [places[id(client)] for client in frozenset(clients)]

    first = simulate(work, 1)
    assert first == simulate(work, 1)
    assert first != simulate(work, 2)
