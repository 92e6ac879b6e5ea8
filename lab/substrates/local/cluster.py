"""The ``local`` substrate: real servers, a real proxy and real client processes on loopback."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab import tools
from lab.address import Address
from lab.errors import LabError, UnknownOutcome
from lab.leftovers import RunFile
from lab.substrates.base import STORE, Capability, ClusterPlan, Persistence
from lab.substrates.local.client import LocalClient
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import Launch, LocalNode, redis_command
from lab.substrates.local.processes import Child, Nursery, free_ports, is_port_free
from lab.substrates.toxiproxy import ToxiproxyLink, ToxiproxyServer

HOST = "127.0.0.1"
READY_TIMEOUT_S = 15.0
PORT_TRIES = 5


class LocalCluster:
    """Five (or as many as planned) nodes, one store, one Toxiproxy, one process per client."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        self._plan = plan
        self._run_id = run_id
        self._log_dir = log_dir
        self._scratch = Path(tempfile.mkdtemp(prefix="lock-lab-"))
        self._run_file: RunFile | None = None
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._nursery = Nursery(run_id, log_dir, self.failed)
        self.nodes: dict[str, LocalNode] = {}
        self.clients: dict[str, LocalClient] = {}
        self.store_node: LocalNode
        self._started: list[LocalNode] = []
        self._links: dict[tuple[str, str], ToxiproxyLink] = {}
        self._versions: dict[str, str] = {}
        self._sync_shim: Path | None = None

    async def up(self) -> None:
        """Start everything, at once where nothing has to wait, and prove every link healthy."""
        self._run_file = RunFile(self._run_id, self._scratch)
        redis_server = tools.require("redis-server")
        toxiproxy_server = tools.require("toxiproxy-server")
        clock_shim = tools.require("clock-shim")
        if Capability.POWER_CUTS in self._plan.needs:
            self._sync_shim = tools.require("sync-shim")
        for name in self._plan.clients:
            clock = LocalClock(clock_shim, self._scratch / f"{name}.clock")
            self.clients[name] = LocalClient(name, self._nursery, clock)
        ports = self._planned_ports()
        launches = asyncio.gather(*(client.launch() for client in self.clients.values()))
        starting = asyncio.gather(
            *(
                self._start_node(name, ports[name], redis_server, clock_shim)
                for name in (*self._plan.nodes, STORE)
            )
        )
        servers, proxy, _ = await asyncio.gather(starting, self._start_toxiproxy(toxiproxy_server), launches)
        *nodes, self.store_node = servers
        self.nodes = {node.name: node for node in nodes}
        self._links = await proxy.create_links(
            [
                (client, target.name, target.address)
                for client in self.clients
                for target in (*self.nodes.values(), self.store_node)
            ]
            + [
                (replica, master, self.nodes[master].address)
                for replica, master in self._plan.replicas.items()
            ]
        )
        await asyncio.gather(*(self._replicate(*pair) for pair in self._plan.replicas.items()))
        await self._prove_healthy()
        self._versions["redis-server"] = (await self.store_node.info("server")).get("redis_version", "?")

    async def down(self) -> None:
        """End every process, remove the scratch directory and the run file."""
        for node in self._started:
            await node.close()
        for client in self.clients.values():
            client.close()
        await self._nursery.stop_all()
        if self._run_file is not None:
            self._run_file.close()

    def link(self, client: str, target: str) -> ToxiproxyLink:
        """Return the link from a client to a node or to the store, or from a replica to its master."""
        return self._links[client, target]

    @property
    def replicas(self) -> Mapping[str, str]:
        """Which nodes replicate which masters."""
        return self._plan.replicas

    def versions(self) -> dict[str, str]:
        """Return the versions of the servers that run."""
        return dict(self._versions)

    def _planned_ports(self) -> dict[str, int | None]:
        names = (*self._plan.nodes, STORE)
        if self._plan.base_port is None:
            return dict.fromkeys(names)
        ports: dict[str, int | None] = {
            name: self._plan.base_port + offset for offset, name in enumerate(names)
        }
        for name, port in ports.items():
            if port and not is_port_free(port):
                raise LabError(
                    f"port {port}, wanted for {name}, is already taken",
                    where="cluster.base_port",
                    expected=f"{len(ports)} free ports from {self._plan.base_port} on",
                    hint="choose another base_port, or leave it out: the lab then picks free ports",
                )
        return ports

    async def _start_node(self, name: str, port: int | None, server: Path, clock_shim: Path) -> LocalNode:
        is_store = name == STORE
        clock = None if is_store else LocalClock(clock_shim, self._scratch / f"{name}.clock")
        disk = LocalDisk(self._scratch / name, None if is_store else self._sync_shim)
        for attempt in range(1, PORT_TRIES + 1):
            chosen = port or free_ports(1)[0]
            directory = self._scratch / name
            persistence: Persistence = "none" if is_store else self._plan.persistence
            launch = Launch(
                self._nursery,
                name if is_store else f"node-{name}",
                redis_command(server, chosen, directory, persistence),
                disk.environment(clock.environment if clock is not None else {}),
                directory,
            )
            node = LocalNode(Address(name, HOST, chosen), launch, clock, disk)
            self._started.append(node)
            try:
                await node.start()
            except UnknownOutcome:
                if port or node.alive or attempt == PORT_TRIES:
                    raise
            else:
                break
        return node

    async def _replicate(self, replica: str, master: str) -> None:
        """Let a node replicate another through their link, and wait until it has all of it."""
        node = self.nodes[replica]
        await node.replicate(self._links[replica, master].address)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + READY_TIMEOUT_S
        while not (await node.role()).linked:
            if loop.time() > give_up:
                raise UnknownOutcome(f"{replica} did not become a replica of {master}")
            await asyncio.sleep(0.005)

    async def _start_toxiproxy(self, binary: Path) -> ToxiproxyServer:
        child: Child | None = None
        for _ in range(PORT_TRIES):
            port = free_ports(1)[0]
            command = [str(binary), "-host", HOST, "-port", str(port)]
            child = await self._nursery.start("toxiproxy", command)
            child.expected_end = True
            server = ToxiproxyServer(HOST, port)
            if await self._toxiproxy_is_ready(server, child):
                child.expected_end = False
                return server
        raise UnknownOutcome(
            "toxiproxy-server did not become ready", hint=f"its log ends:\n{child.tail(8) if child else ''}"
        )

    async def _toxiproxy_is_ready(self, server: ToxiproxyServer, child: Child) -> bool:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + READY_TIMEOUT_S
        while child.running and loop.time() < give_up:
            try:
                self._versions["toxiproxy-server"] = await server.version()
            except UnknownOutcome:
                await asyncio.sleep(0.01)
            else:
                return child.running
        return False

    async def _prove_healthy(self) -> None:
        links = list(self._links.values())
        probes = await asyncio.gather(*(link.probe(READY_TIMEOUT_S) for link in links))
        for link, probe in zip(links, probes, strict=True):
            if not probe.reached:
                raise UnknownOutcome(f"the fresh link from {link.client} to {link.target} does not answer")
