"""The ``local`` substrate: real servers, a real proxy and real client processes on loopback."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from lab import tools
from lab.address import Address
from lab.errors import UnknownOutcome
from lab.leftovers import RunFile
from lab.substrates.base import STORE, Capability, ClusterPlan, Persistence
from lab.substrates.local.client import LocalClient
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import Launch, LocalNode, redis_command
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.real.cluster import RealCluster
from lab.substrates.real.ports import free_ports, planned_ports
from lab.substrates.toxiproxy import ToxiproxyServer

HOST = "127.0.0.1"
PORT_TRIES = 5


class LocalCluster(RealCluster[LocalNode, LocalClient]):
    """Five (or as many as planned) nodes, one store, one Toxiproxy, one process per client."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        super().__init__(plan)
        self._run_id = run_id
        self._log_dir = log_dir
        self._scratch = Path(tempfile.mkdtemp(prefix="lock-lab-"))
        self._run_file: RunFile | None = None
        self._nursery = Nursery(run_id, log_dir, self.failed)
        self._started: list[LocalNode] = []
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
        ports = planned_ports(self._plan)
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
        await self._connect_all(proxy)

    async def down(self) -> None:
        """End every process, remove the scratch directory and the run file."""
        for node in self._started:
            await node.close()
        for client in self.clients.values():
            client.close()
        await self._nursery.stop_all()
        if self._run_file is not None:
            self._run_file.close()

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
