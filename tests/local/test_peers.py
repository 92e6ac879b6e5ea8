"""The servers of one service reach each other through Toxiproxy only, and can be parted there."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from lab import tools
from lab.faults.base import Tolerance
from lab.faults.nemesis import Nemesis
from lab.run.recorder import Recorder
from lab.substrates.base import LEADER, Service
from lab.substrates.local.service_cluster import ServiceCluster
from lab.substrates.peers import PeerLink
from lab.substrates.plan import ClusterPlan
from lab.tools import Missing
from tests.local.faulty import step

pytestmark = pytest.mark.full

ESTABLISHED = "01"


@asynccontextmanager
async def servers(service: Service, directory: Path) -> AsyncIterator[tuple[ServiceCluster, Nemesis]]:
    """Three servers and nobody else, healthy; skipped where they are not installed."""
    found = tools.find(service)
    if isinstance(found, Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    (directory / "logs").mkdir()
    recorder = Recorder(directory, {})
    plan = ClusterPlan(("A", "B", "C"), (), "none", service=service)
    cluster = ServiceCluster(plan, f"test-{secrets.token_hex(6)}", directory / "logs")
    try:
        await cluster.up()
        yield cluster, Nemesis(cluster, recorder, Tolerance(clock_error_ns=0))
    finally:
        await cluster.down()
        recorder.finish()


def sockets_of(pid: int) -> set[str]:
    """The inodes of the sockets that a process has open; what it closes meanwhile may be left out."""
    found = set()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            link = str(one.readlink())
            if link.startswith("socket:"):
                found.add(link.removeprefix("socket:[").rstrip("]"))
    return found


def connected_to(ports: set[int]) -> set[str]:
    """The inodes of the sockets of those who are connected to these ports."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, _, remote, state, _, _, _, _, _, inode, *_ = line.split()
            if state == ESTABLISHED and int(remote.rpartition(":")[2], 16) in ports:
                found.add(inode)
    return found


async def foreign_guests(ports: set[int], pid: int) -> set[str]:
    """Connections to these ports that do not belong to process ``pid`` and last.

    The kernel's table and the process's own are not read at one instant: a connection that was opened or
    closed in between is in one of them.
    """
    give_up = time.monotonic() + 60
    while len(connected_to(ports)) < 3:
        assert time.monotonic() < give_up, "not each pair has a connection"
        await asyncio.sleep(0.05)
    lasting: set[str] | None = None
    for _ in range(5):
        before, guests = sockets_of(pid), connected_to(ports)
        foreign = guests - before - sockets_of(pid)
        lasting = foreign if lasting is None else lasting & foreign
        await asyncio.sleep(0.1)
    return lasting or set()


async def until_one_leads(cluster: ServiceCluster, names: str) -> None:
    give_up = time.monotonic() + 60
    while LEADER not in [(await cluster.nodes[name].role()).name for name in names]:
        assert time.monotonic() < give_up, f"none of {names} leads"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("service", ["etcd", "zookeeper"])
async def test_servers_meet_in_toxiproxy_and_nowhere_else(service: Service, tmp_path: Path) -> None:
    async with servers(service, tmp_path) as (cluster, nemesis):
        assert (await cluster.nodes["A"].role()).name == LEADER
        (proxy,) = (child for child in cluster._nursery._children if child.name == "toxiproxy")
        links = (cluster.link(near, far) for near, far in permutations("ABC", 2))
        ways = [way for link in links if isinstance(link, PeerLink) for way in link.ways]
        assert await foreign_guests({way.behind.port for way in ways}, proxy.pid) == set()

        for other in ("B", "C"):
            receipt = (await nemesis.inject(step(cut={"node": "A", "from": other}))).receipt
            assert receipt.confirmed, receipt.evidence
            assert set(receipt.evidence[other]["ways"]) == {f"A→{other}", f"{other}→A"}
        await until_one_leads(cluster, "BC")
        give_up = time.monotonic() + 60
        while (await cluster.nodes["A"].role()).name != "alone":
            assert time.monotonic() < give_up, "A still thinks that it is followed"
            await asyncio.sleep(0.05)
        words, healed = await nemesis.end(step(heal="all"))
        assert healed, words


async def test_a_way_that_was_left_open_is_no_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers("etcd", tmp_path) as (cluster, nemesis):
        link = cluster.link("A", "B")
        assert isinstance(link, PeerLink)

        async def nothing(*_: Any, **__: Any) -> None:
            """What a cut that does not take effect does."""

        monkeypatch.setattr(link._parts[1], "cut", nothing)
        receipt = (await nemesis.inject(step(cut={"node": "A", "from": "B"}))).receipt
        assert not receipt.confirmed
        ways = receipt.evidence["B"]["ways"]
        assert ways["A→B"]["probe_through_link"] == "no answer in 50 ms"
        assert ways["B→A"]["probe_through_link"] == "answered"
