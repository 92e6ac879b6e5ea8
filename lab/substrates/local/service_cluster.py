"""The ``local`` substrate with nodes that make one service: an etcd, a ZooKeeper, a Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

from lab import tools
from lab.errors import LabError, UnknownOutcome
from lab.servers import Server
from lab.substrates.base import LEADER
from lab.substrates.local.cluster import PORT_TRIES, LocalProcesses
from lab.substrates.local.leaders import deciders, let_lead
from lab.substrates.local.peers import Peers, connect_peers
from lab.substrates.local.services import LAYOUTS, Member, ServiceNode, prepare
from lab.substrates.local.way_out import WayOut
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.ports import free_ports
from lab.substrates.toxiproxy import ToxiproxyServer
from lab.tools import Missing

LED_WITHIN_S = 10.0
"""How long it may take until the first server leads."""


class ServiceCluster(LocalProcesses[ServiceNode]):
    """Servers that belong together, and reach each other through links. The store is a Redis, as always.

    When the steps begin the first of them leads: a scenario about a leader must know who that is.
    """

    _program: Path

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        super().__init__(plan, run_id, log_dir)
        self._ways_out: dict[str, WayOut] = {}

    def _look_for_programs(self) -> None:
        found = tools.find(self._plan.service)
        if isinstance(found, Missing):
            raise LabError(found.reason, expected=f"{self._plan.service}, to run here", hint=found.hint)
        self._program = found.path
        self.server = Server(self._plan.service, found.version)

    async def down(self) -> None:
        """Close the ways out, then end everything."""
        await self._close_ways()
        await super().down()

    async def _start_nodes(
        self, ports: Mapping[str, int | None], toxiproxy: Awaitable[ToxiproxyServer]
    ) -> dict[str, ServiceNode]:
        """Start servers that belong together; again, on other ports, when one of them found none free."""
        service = self._plan.service
        for attempt in range(1, PORT_TRIES + 1):
            members = await self._members(attempt)
            launches = LAYOUTS[service](self._program, members)
            nodes = [ServiceNode(service, one, launches[one.name], self._nursery) for one in members]
            self._started += nodes
            peers = await connect_peers(service, await toxiproxy, members)
            self._links |= peers.links
            await asyncio.gather(*(prepare(service, launches[m.name], m, self._nursery) for m in members))
            await asyncio.gather(*(node.launch() for node in nodes))
            for node in nodes:
                node.running().expected_end = True  # until it is ready
            try:
                await self._until_ready(nodes, peers)
            except UnknownOutcome:
                ended = [node for node in nodes if not node.alive]
                if not ended or attempt == PORT_TRIES:
                    raise
                await asyncio.gather(*(node.kill() for node in nodes if node.alive))
            else:
                break
        for node in nodes:
            node.running().expected_end = False
        return {node.name: node for node in nodes}

    async def _members(self, attempt: int) -> list[Member]:
        """Give each server its ports, and a way out that leads nowhere yet."""
        names = self._plan.nodes
        await self._close_ways()
        self._ways_out = {name: WayOut() for name in names}
        drawn = iter(free_ports(3 * len(names)))
        doors = {name: await way_out.open() for name, way_out in self._ways_out.items()}
        return [
            Member(name, next(drawn), (next(drawn), next(drawn)), door, self._scratch / f"{name}-{attempt}")
            for name, door in doors.items()
        ]

    async def _until_ready(self, nodes: Sequence[ServiceNode], peers: Peers) -> None:
        """Let those find each other who decide; once the first of them leads, let the others in."""
        deciding = [node.name for node in nodes[: deciders(self._plan.service, len(nodes))]]
        self._lead(peers, deciding)
        await asyncio.gather(*(node.until_ready() for node in nodes if node.name in deciding))
        first, *others = nodes
        loop = asyncio.get_running_loop()
        give_up = loop.time() + LED_WITHIN_S
        while (await first.role()).name != LEADER:
            if loop.time() > give_up:
                raise UnknownOutcome(f"{first.name} did not become the leader of its {self._plan.service}")
            await let_lead(self._plan.service, first.address, [node.address for node in others])
            await asyncio.sleep(0.02)
        self._lead(peers, [node.name for node in nodes])
        await asyncio.gather(*(node.until_ready() for node in nodes))

    def _lead(self, peers: Peers, names: Sequence[str]) -> None:
        """Open the ways between these servers."""
        for (near, far), to in peers.leads.items():
            if near in names and far in names:
                self._ways_out[near].lead(to)

    async def _close_ways(self) -> None:
        await asyncio.gather(*(way_out.close() for way_out in self._ways_out.values()))
