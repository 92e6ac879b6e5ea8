"""The ``sim`` substrate's cluster: nodes, the store, links and clients of one simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from itertools import count
from pathlib import Path

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.base import STORE
from lab.substrates.plan import ClusterPlan
from lab.substrates.sim.client import SimClient
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.node import PORT, SimNode

READY_TIMEOUT_S = 15.0
FIRST_PROCESS_ID = 100


class SimCluster:
    """Must be made on a simulated host: its parts live in that host's world."""

    def __init__(self, plan: ClusterPlan, log_dir: Path) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, HostLoop):
            raise SimulationError("a simulated cluster outside a simulation")
        self._plan = plan
        self._log_dir = log_dir
        self._network = loop.network
        self.failed: asyncio.Future[str] = loop.create_future()
        self.nodes: dict[str, SimNode] = {}
        self.clients: dict[str, SimClient] = {}
        self.store_node: SimNode
        self._links: dict[tuple[str, str], SimLink] = {}
        self._process_ids = count(FIRST_PROCESS_ID)
        self._network.world.on_violation = self._violated

    async def up(self) -> None:
        """Start everything and prove every link healthy."""
        self.clients = {
            name: SimClient(
                host_with_loop(self._network.world, name, self._network),
                self._network,
                self._next_id(),
                self._log_dir / f"client-{name}.log",
                self.failed,
            )
            for name in self._plan.clients
        }
        self.nodes = {
            name: SimNode(name, self._network, self._next_id, self._plan.persistence)
            for name in self._plan.nodes
        }
        self.store_node = SimNode(STORE, self._network, self._next_id, "none")
        targets = [*self.nodes.values(), self.store_node]
        await asyncio.gather(*(node.start() for node in targets))
        pairs = [(client, target) for client in self.clients for target in targets]
        pairs += [(replica, self.nodes[master]) for replica, master in self._plan.replicas.items()]
        for near, target in pairs:
            host = f"{near}-{target.name}"
            address = Address(target.name, host, PORT)
            self._links[near, target.name] = SimLink(target.reached_over(host), near, target.name, address)
        await asyncio.gather(
            *(
                self.nodes[replica].replicate(self._links[replica, master].address)
                for replica, master in self._plan.replicas.items()
            )
        )
        await self._prove_healthy()

    async def down(self) -> None:
        """Let go of everything."""
        self._network.world.on_violation = None
        for client in self.clients.values():
            client.close()

    def link(self, client: str, target: str) -> SimLink:
        """Return the link from a client to a node or to the store, or from a replica to its master."""
        return self._links[client, target]

    @property
    def replicas(self) -> Mapping[str, str]:
        """Which nodes replicate which masters."""
        return self._plan.replicas

    def versions(self) -> dict[str, str]:
        """Return what stands in for a server's version."""
        return {"lupa": version("lupa")}

    def _next_id(self) -> int:
        return next(self._process_ids)

    def _violated(self, error: SimulationError) -> None:
        if not self.failed.done():
            self.failed.set_result(error.render())

    async def _prove_healthy(self) -> None:
        links = list(self._links.values())
        probes = await asyncio.gather(*(link.probe(READY_TIMEOUT_S) for link in links))
        for link, probe in zip(links, probes, strict=True):
            if not probe.reached:
                raise UnknownOutcome(f"the fresh link from {link.client} to {link.target} does not answer")
