"""The ``local`` substrate: real servers, a real proxy and real client processes on loopback."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

from lab import tools
from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.redis_model.persistence import Persistence
from lab.servers import ServerSettings
from lab.substrates.base import STORE, Node
from lab.substrates.local.client import LocalClient
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import Launch, LocalNode, redis_command
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.cluster import RealCluster
from lab.substrates.real.disk import SYNCS
from lab.substrates.real.ports import free_ports, planned_ports
from lab.substrates.run_files import RunFile
from lab.substrates.toxiproxy import LINKS_PER_SERVER, ToxiproxyServer


class NodeToClose(Node, Protocol):
    """A node of which something is held here, until the end."""

    async def close(self) -> None:
        """Let go of it."""
        ...


N = TypeVar("N", bound=NodeToClose)
HOST = "127.0.0.1"
PORT_TRIES = 5
LOADING_PER_CORE: Final = 2
"""How many clients import what they need at once: more would hold up what is being started."""


class LocalProcesses(RealCluster[N, LocalNode, LocalClient]):
    """Nodes of any kind, one store, one Toxiproxy, one process per client."""

    NODE: ClassVar[type[LocalNode]] = LocalNode
    """The class of its Redis nodes."""

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
        loading = asyncio.Semaphore(LOADING_PER_CORE * len(os.sched_getaffinity(0)))
        for name in self._plan.clients:
            clock = LocalClock(self._clock_shim, self._scratch / f"{name}.clock")
            environment = self._environment(name, clock.environment)
            self.clients[name] = LocalClient(name, self._nursery, clock, loading, environment)
        ports = planned_ports(self._plan)
        self._look_for_programs()
        links = len(self._plan.clients) * (len(self._plan.nodes) + 1) + len(self._plan.replicas)
        proxy_ports = free_ports(-(-links // LINKS_PER_SERVER) or 1)
        proxies = [
            asyncio.ensure_future(self._start_toxiproxy(toxiproxy_server, port, number))
            for number, port in enumerate(proxy_ports, 1)
        ]
        nodes = asyncio.ensure_future(self._start_nodes(ports, proxies[0]))
        store = asyncio.ensure_future(self._start_redis(STORE, ports[STORE]))
        clients = asyncio.gather(*(client.launch() for client in self.clients.values()))
        starting: list[asyncio.Future[Any]] = [nodes, store, *proxies, clients]
        try:
            await asyncio.gather(*starting[:-1])
            self.nodes, self.store_node = nodes.result(), store.result()
            await self._connect_all([proxy.result() for proxy in proxies])
            await clients
        except BaseException:  # whoever is still starting something must not outlive what is torn down
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            raise

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

    def _environment(self, name: str, environment: dict[str, str]) -> dict[str, str]:
        """What the processes of a client or a node are started with, given that of its clock and its disk."""
        return environment

    def _command(self, name: str, port: int, directory: Path, settings: ServerSettings) -> list[str]:
        """The command line of a Redis."""
        persistence: Persistence = "none" if name == STORE else self._plan.persistence
        return redis_command(self._redis_server, port, directory, persistence, settings)

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
            settings = ServerSettings() if is_store else self._plan.settings
            environment = disk.environment(clock.environment if clock is not None else {})
            launch = Launch(
                self._nursery,
                name if is_store else f"node-{name}",
                self._command(name, chosen, directory, settings),
                environment if is_store else self._environment(name, environment),
                directory,
            )
            kind = LocalNode if is_store else self.NODE
            node = kind(Address(name, HOST, chosen), launch, clock, disk, settings)
            self._started.append(node)
            try:
                await node.start()
            except UnknownOutcome:
                if port or node.alive or attempt == PORT_TRIES:
                    raise
            else:
                break
        return node

    async def _start_toxiproxy(self, binary: Path, port: int, number: int) -> ToxiproxyServer:
        child: Child | None = None
        name = "toxiproxy" if number == 1 else f"toxiproxy-{number}"
        for _ in range(PORT_TRIES):
            command = [str(binary), "-host", HOST, "-port", str(port)]
            child = await self._nursery.start(name, command)
            child.expected_end = True
            server = ToxiproxyServer(HOST, port)
            if await self._toxiproxy_is_ready(server, child):
                child.expected_end = False
                return server
            port = free_ports(1)[0]
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
