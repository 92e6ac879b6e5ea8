"""The parts of a cluster of containers, asked directly: clocks, states, ports, what a power cut leaves."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab.addresses import Address
from lab.substrates.base import Capability, ClockReading
from lab.substrates.docker.cluster import DockerCluster
from lab.substrates.docker.topology import LABEL
from lab.substrates.plan import ClusterPlan
from lab.substrates.probe import echo
from lab.substrates.real.ports import free_ports, is_port_free

S_NS = 1_000_000_000
AHEAD_NS = 3_600 * S_NS


@asynccontextmanager
async def cluster(directory: Path, **plan: Any) -> AsyncIterator[DockerCluster]:
    """Two nodes and a client."""
    made = DockerCluster(
        ClusterPlan(("A", "B"), ("alice",), "aof-everysec", client_logs=directory, **plan),
        secrets.token_hex(8),
        directory,
    )
    try:
        await made.up()
        yield made
        assert not made.failed.done(), made.failed.result()
    finally:
        await asyncio.shield(made.down())


async def is_ahead(machine: Any) -> bool:
    """Whether its clock is an hour ahead, give or take ten seconds."""
    reading: ClockReading = await machine.read_clock()
    return abs(reading.offset_ns - AHEAD_NS) < 10 * S_NS


async def test_a_node_through_its_lives(engine: Any, tmp_path: Path) -> None:
    async with cluster(tmp_path, needs=frozenset({Capability.POWER_CUTS})) as made:
        a, b = made.nodes.values()
        await a.jump_clock(AHEAD_NS)
        assert await is_ahead(a)
        assert not await is_ahead(b)
        first = await a.life()
        await a.pause()
        assert set(a.states().values()) == {"T"}
        assert not (await a.probe(0.2)).reached
        assert await is_ahead(a), "another container shows the clock of one that stands still"
        await a.resume()
        assert "T" not in a.states().values()
        await a.touch()
        assert (await a.disk()).written > 0
        await a.kill()
        assert not a.alive
        assert not (await a.probe(5.0)).reached
        assert await is_ahead(a)
        before = await a.lose_unsynced()
        assert (await a.disk()).written == before.synced
        await a.start()
        assert (await a.life()).run_id != first.run_id
        assert await a.shut_down() == 0
        await a.start()
        await a.correct_clock()
        assert not await is_ahead(a)


async def test_a_client_is_paused_killed_and_has_a_clock(engine: Any, tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        alice = made.clients["alice"]
        await alice.pause()
        assert set(alice.states().values()) == {"T"}
        await alice.jump_clock(AHEAD_NS)
        assert await is_ahead(alice), "another container shows the clock of one that stands still"
        await alice.kill()
        assert not alice.alive
        assert await is_ahead(alice)


async def test_fixed_ports_are_published_on_loopback(engine: Any, tmp_path: Path) -> None:
    base = next(port for port in free_ports(20) if all(map(is_port_free, range(port, port + 3))))
    async with cluster(tmp_path, base_port=base):
        for port in (base, base + 1, base + 2):
            assert (await echo(Address("x", "127.0.0.1", port), 10.0)).reached


async def test_every_container_has_limits(engine: Any, tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        mine = engine.containers(filters={"label": f"{LABEL}={made._run_id}"})
        assert len(mine) == 5, "two nodes, the store, a client, Toxiproxy"
        for one in mine:
            host = engine.inspect_container(one["Id"])["HostConfig"]
            assert host["Memory"] == 1 << 30, one["Names"]
            assert host["PidsLimit"] == 1024, one["Names"]
            in_memory = {place: options.split(",")[0] for place, options in host["Tmpfs"].items()}
            assert in_memory.items() >= {("/tmp", "size=256m"), ("/data", "size=256m")}, one["Names"]
            assert host["LogConfig"]["Type"] == "json-file", one["Names"]
            kept = host["LogConfig"]["Config"]
            # Podman keeps to it, but does not tell.
            assert kept is None or kept == {"max-size": "16m", "max-file": "2"}, one["Names"]
