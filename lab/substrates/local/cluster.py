"""The ``local`` substrate: real servers, a real proxy and real client processes on loopback."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import TypeVar

from lab import tools
from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.redis_model.persistence import Persistence
from lab.substrates.base import STORE
from lab.substrates.local.client import LocalClient
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import Launch, LocalNode, redis_command
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.local.services import ServiceNode
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.cluster import RealCluster
from lab.substrates.real.disk import SYNCS
from lab.substrates.real.ports import free_ports, planned_ports
from lab.substrates.run_files import RunFile
from lab.substrates.toxiproxy import ToxiproxyServer

N = TypeVar("N", bound=LocalNode | ServiceNode)
HOST = "127.0.0.1"
PORT_TRIES = 5


class LocalProcesses(RealCluster[N, LocalNode, LocalClient]):
    """Nodes of any kind, one store, one Toxiproxy, one process per client."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        super().__init__(plan)
        self._run_id = run_id
        self._log_dir = log_dir
        self._scratch = Path(tempfile.mkdtemp(prefix="lock-lab-"))
        self._run_file: RunFile | None = None
        self._nursery = Nursery(run_id, log_dir, self.failed)
        self._started: list[N | LocalNode] = []
        self._sync_shim: Path | None = None
        self._redis_server: Path
        self._clock_shim: Path

    async def up(self) -> None:
        """Start everything, at once where nothing has to wait, and prove every link healthy."""
        self._run_file = RunFile(self._run_id, self._scratch)
        self._redis_server = tools.require(self._plan.server or "redis-server")
        toxiproxy_server = tools.require("toxiproxy-server")
        self._clock_shim = tools.require("clock-shim")
        if SYNCS & self._plan.needs:
            self._sync_shim = tools.require("sync-shim")
        for name in self._plan.clients:
            clock = LocalClock(self._clock_shim, self._scratch / f"{name}.clock")
            self.clients[name] = LocalClient(name, self._nursery, clock)
        ports = planned_ports(self._plan)
        self._look_for_programs()
        toxiproxy = asyncio.ensure_future(self._start_toxiproxy(toxiproxy_server))
        nodes = asyncio.ensure_future(self._start_nodes(ports, toxiproxy))
        store = asyncio.ensure_future(self._start_redis(STORE, ports[STORE]))
        launches = asyncio.gather(*(client.launch() for client in self.clients.values()))
        starting = (nodes, store, toxiproxy, launches)
        try:
            await asyncio.gather(*starting)
        except BaseException:  # whoever is still starting something must not outlive what is torn down
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            raise
        self.nodes, self.store_node, proxy = nodes.result(), store.result(), toxiproxy.result()
        await self._connect_all(proxy)

    async def down(self) -> None:
        """End every process, remove the scratch directory and the run file."""
        for node in self._started:
            await node.close()
        for client in self.clients.values():
            client.close()
        await self._nursery.stop_all()
        await self._close_relays()
        if self._run_file is not None:
            self._run_file.close()

    def _look_for_programs(self) -> None:
        """Find what nodes of this kind need besides. Raises ``LabError``, before anything is started."""

    async def _start_nodes(
        self, ports: Mapping[str, int | None], toxiproxy: Awaitable[ToxiproxyServer]
    ) -> dict[str, N]:
        """Start the nodes, and wait until they are ready; some need the proxy for that."""
        raise NotImplementedError

    async def _start_redis(self, name: str, port: int | None) -> LocalNode:
        is_store = name == STORE
        clock = None if is_store else LocalClock(self._clock_shim, self._scratch / f"{name}.clock")
        disk = LocalDisk(self._scratch / name, None if is_store else self._sync_shim)
        for attempt in range(1, PORT_TRIES + 1):
            chosen = port or free_ports(1)[0]
            directory = self._scratch / name
            persistence: Persistence = "none" if is_store else self._plan.persistence
            launch = Launch(
                self._nursery,
                name if is_store else f"node-{name}",
                redis_command(self._redis_server, chosen, directory, persistence),
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


class LocalCluster(LocalProcesses[LocalNode]):
    """Five (or as many as planned) nodes of Redis, which know nothing of each other."""

    async def _start_nodes(
        self, ports: Mapping[str, int | None], toxiproxy: Awaitable[ToxiproxyServer]
    ) -> dict[str, LocalNode]:
        started = await asyncio.gather(*(self._start_redis(name, ports[name]) for name in self._plan.nodes))
        return {node.name: node for node in started}
