"""The ``sim`` substrate's cluster: nodes, the store, links and clients of one simulated world."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from itertools import count
from pathlib import Path

from lab.addresses import Address
from lab.redis_model.known import Missing
from lab.redis_model.model import modelled
from lab.servers import DEFAULT, Server, replication_links
from lab.substrates.base import STORE
from lab.substrates.parts import Parts
from lab.substrates.peers import PeerLink
from lab.substrates.plan import ClusterPlan
from lab.substrates.probe import Ping, echo
from lab.substrates.sim.client import SimClient
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.node import SimNode
from lab.substrates.sim.sending import Sendings

FIRST_PROCESS_ID = 100


class SimCluster(Parts[SimNode, SimNode, SimClient, SimLink | PeerLink]):
    """Must be made on a simulated host: its parts live in that host's world."""

    def __init__(self, plan: ClusterPlan, log_dir: Path) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, HostLoop):
            raise SimulationError("a simulated cluster outside a simulation")
        super().__init__(plan)
        self._versions["lupa"] = version("lupa")
        self._log_dir = log_dir
        self._network = loop.network
        self._process_ids = count(FIRST_PROCESS_ID)
        self._network.world.on_violation = self._violated

    async def up(self) -> None:
        """Start everything and prove every link healthy."""
        self.clients = {
            name: SimClient(
                host_with_loop(self._network.world, name, self._network),
                self._network,
                self.next_id(),
                self._log_dir / f"client-{name}.log",
                self.failed,
            )
            for name in self._plan.clients
        }
        self.nodes = {
            name: SimNode(
                name,
                self._network,
                self.next_id,
                self._plan.persistence,
                self.modelled_server,
                self.missed,
                self._plan.settings,
                self._announced(name),
            )
            for name in self._plan.nodes
        }
        self.store_node = SimNode(STORE, self._network, self.next_id, "none")
        targets = [*self.nodes.values(), self.store_node]
        await asyncio.gather(*(node.start() for node in targets))
        await self._connect_all()
        await self._prove_healthy()
        await self._learn_server()
        assert self.server is not None
        self.server = self.server._replace(simulated=True)

    def _announced(self, name: str) -> str:
        """By which name others know a node; empty: by its address."""
        return ""

    async def _connect_all(self) -> None:
        """Make the links, and let replicas follow their masters."""
        targets = [*self.nodes.values(), self.store_node]
        pairs = [(client, target) for client in self.clients for target in targets]
        between = replication_links(self._plan.replicas)
        pairs += [(replica, self.nodes[master]) for replica, master in between]
        for near, target in pairs:
            self._links[near, target.name] = self._made_link(near, target)
        await self._replicate_by_links(self.nodes)

    def _made_link(self, near: str, target: SimNode, ping: Ping = echo) -> SimLink:
        host, port = f"{near}-{target.name}", target.address.port
        way = target.reached_over(host, port)
        if (answering := self._answering(near, target.name)) is not None:
            way.read(self._network.world, answering)
        return SimLink(way, near, target.name, Address(target.name, host, port), ping)

    @property
    def modelled_server(self) -> Server:
        """Which server nodes and Sentinels are modelled after. Raises ``LabError``."""
        return modelled(self._plan.server, "cluster.server") if self._plan.server else DEFAULT

    def sendings_of(self, client: str) -> Sendings:
        """Notice from now on what a client sends to nodes."""
        found = self.clients[client].sendings = Sendings(self.clients[client].host)
        for name in self.nodes:
            link = self._links[client, name]
            assert isinstance(link, SimLink)
            found.watch(link.requests, name)
        return found

    async def down(self) -> None:
        """Let go of everything."""
        self._network.world.on_violation = None
        for client in self.clients.values():
            client.close()

    def next_id(self) -> int:
        """The process id of a server that starts."""
        return next(self._process_ids)

    def missed(self, missing: Missing) -> None:
        """End the run: what comes of a refusal that only simulated nodes give says nothing about a lock."""
        if not self.failed.done():
            self.not_simulated = True
            self.failed.set_result(f"the lock {missing.sentence}; {missing.remedy()}")

    def _violated(self, error: SimulationError) -> None:
        if not self.failed.done():
            self.not_simulated = True
            self.failed.set_result(error.render())
