"""The ``docker`` substrate: Redis, Toxiproxy, the store and the clients in containers of their own."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lab.addresses import Address
from lab.errors import LabError, UnknownOutcome
from lab.servers import Server
from lab.substrates.base import STORE, Capability
from lab.substrates.docker import images, topology
from lab.substrates.docker.cleanup import owner_labels, remove_run
from lab.substrates.docker.container import Container, Watch, create, name_of
from lab.substrates.docker.engine import REMOTE, Engine, endpoint
from lab.substrates.docker.parts import ContainerClock, DockerClient, DockerNode, Witness
from lab.substrates.docker.services import ContainedServer, Seat, spec_of, version_of
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.cluster import RealCluster
from lab.substrates.real.disk import NodeDisk
from lab.substrates.real.ports import planned_ports
from lab.substrates.run_files import RunFile
from lab.substrates.toxiproxy import ToxiproxyServer

if TYPE_CHECKING:
    from docker import APIClient


AnyNode = DockerNode | ContainedServer


class DockerCluster(RealCluster[AnyNode, DockerNode, DockerClient]):
    """Five (or as many as planned) nodes, one store, one Toxiproxy and the clients, a container each."""

    NODE: ClassVar[type[DockerNode]] = DockerNode
    """The class of its Redis nodes."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        super().__init__(plan)
        self._run_id = run_id
        self._log_dir = log_dir
        self._scratch = Path(tempfile.mkdtemp(prefix="lock-lab-"))
        self._clocks = self._scratch / "clocks"
        self._clocks.mkdir()
        self._run_file: RunFile | None = None
        self._engine: Engine | None = None
        self._watch: Watch | None = None
        self._network = ""
        self._labels = owner_labels(run_id)
        self._parts: list[AnyNode] = []
        self._proxies: dict[str, Container] = {}
        self._witness: Witness

    async def up(self) -> None:
        """Start everything, at once where nothing has to wait, and prove every link healthy."""
        self._run_file = RunFile(self._run_id, self._scratch, containers=True, engine=endpoint().host)
        ports = planned_ports(self._plan)
        engine = self._engine = await asyncio.to_thread(Engine)
        self._network = await engine.call(self._make_network)
        self._watch = Watch(lambda since_s: engine.ask(partial(self._deaths, since_s=since_s)), self.failed)
        self._witness = Witness(engine)
        # Toxiproxy's containers first: the others name them when they are made.
        await self._make_proxies(ports)
        nodes, self.store_node, clients, _ = await asyncio.gather(
            asyncio.gather(*(self._make_server(name) for name in self._plan.nodes)),
            self._make_node(STORE),
            asyncio.gather(*(self._make_client(name) for name in self._plan.clients)),
            asyncio.gather(*(proxy.start() for proxy in self._proxies.values())),
        )
        for node in (*nodes, self.store_node):
            node.locate(self._proxies[self._home(node.name)].address)
        self.nodes = {node.name: node for node in nodes}
        self.clients = {client.name: client for client in clients}
        await asyncio.gather(
            self._start_servers(),
            asyncio.gather(*(client.launch() for client in clients)),
        )
        await self._learn_versions(engine)

    async def _start_servers(self) -> None:
        """Start the nodes and the store, and connect everybody."""
        proxies = list(self._proxies.values())
        toxiproxies = [ToxiproxyServer(proxy.address, topology.API_PORT) for proxy in proxies]
        servers = (*self.nodes.values(), self.store_node)
        pairs = zip(toxiproxies, proxies, strict=True)
        ready, _ = await asyncio.gather(
            asyncio.gather(*(self._toxiproxy_is_ready(*pair) for pair in pairs)),
            asyncio.gather(*(node.start() for node in servers)),
        )
        for proxy, is_ready in zip(proxies, ready, strict=True):
            if not is_ready:
                raise UnknownOutcome("toxiproxy-server did not become ready", hint=proxy.tail(8))
        self._witness.where = self.store_node.running()
        await asyncio.gather(self._connect_all(toxiproxies), self._prove_one_clock(proxies[0]))

    async def down(self) -> None:
        """Remove every container and the network, keep their logs, and forget the run."""
        if self._watch is not None:
            self._watch.close()
        for node in self._parts:
            await node.close()
        for client in self.clients.values():
            client.close()
        if self._engine is not None:
            await self._engine.settle()  # what was being made when the run was interrupted is removed as well
            try:
                await asyncio.to_thread(remove_run, self._engine.api, self._run_id, self._log_dir)
            except LabError:
                return  # the run file stays, and with it the next lab's order to try again
            finally:
                self._engine.close()
        if self._run_file is not None:
            self._run_file.close()

    def _make_network(self, api: APIClient) -> str:
        # Nothing in it reaches the world, unless it is to be reached itself.
        made: dict[str, Any] = api.create_network(
            name_of(self._run_id, "net"),
            driver="bridge",
            internal=self._plan.base_port is None,
            labels=self._labels,
        )
        return str(made["Id"])

    def _deaths(self, api: APIClient, *, since_s: int) -> Any:
        # Podman tells of "die" too, but filters by "died".
        mine = {"type": "container", "event": ["die", "died"], "label": f"{topology.LABEL}={self._run_id}"}
        return api.events(since=since_s, filters=mine, decode=True)

    async def _create(self, spec: topology.Spec, ports: dict[int, int] | None = None) -> Container:
        assert self._engine is not None
        assert self._watch is not None
        made = await self._engine.call(
            lambda api: create(api, spec, self._run_id, self._network, self._labels, ports or {})
        )
        container = Container(self._engine, spec, made)
        self._watch.add(container)
        return container

    def _home(self, name: str) -> str:
        """The Toxiproxy in whose network namespace a node, or the store, is."""
        return topology.PROXY

    def _proxy_specs(self) -> Sequence[topology.Spec]:
        return (topology.proxy_spec(),)

    async def _make_proxies(self, ports: Mapping[str, int | None]) -> None:
        """Make each Toxiproxy; the ``ports`` of those in its network namespace are published by it."""
        published: dict[str, dict[int, int]] = {}
        for name, port in ports.items():
            if port:
                there = topology.port_of(name, self._plan.nodes)
                published.setdefault(self._home(name), {})[there] = port
        specs = self._proxy_specs()
        made = await asyncio.gather(*(self._create(spec, published.get(spec.name)) for spec in specs))
        self._proxies = {proxy.spec.name: proxy for proxy in made}

    async def _make_server(self, name: str) -> AnyNode:
        service = self._plan.service
        if service == "redis":
            return await self._make_node(name)
        seat = Seat(name, self._plan.nodes, self._scratch / f"node-{name}")
        node = ContainedServer(service, seat, await self._create(spec_of(service, seat)))
        self._parts.append(node)
        return node

    async def _make_node(self, name: str) -> DockerNode:
        is_store = name == STORE
        records = Capability.POWER_CUTS in self._plan.needs and not is_store
        clock = None if is_store else ContainerClock(self._clocks / name, self._witness)
        disk = NodeDisk(self._scratch / f"node-{name}", recorded=records)
        mounts = topology.NodeMounts(disk.directory, self._clocks, None if is_store else name, records)
        container = await self._create(self._node_spec(name, mounts))
        address = Address(name, "", topology.port_of(name, self._plan.nodes))
        kind = DockerNode if is_store else self.NODE
        node = kind(address, container, clock, disk, self._plan.settings)
        self._parts.append(node)
        return node

    def _node_spec(self, name: str, mounts: topology.NodeMounts) -> topology.Spec:
        image = images.node_image(self._plan.server or None)
        kept, settings = self._plan.persistence, self._plan.settings
        return topology.node_spec(name, self._plan.nodes, kept, mounts, image, settings)

    async def _make_client(self, name: str) -> DockerClient:
        assert self._engine is not None
        clock = ContainerClock(self._clocks / name, self._witness)
        container = await self._create(self._client_spec(name))
        return DockerClient(name, self._engine, container, clock, self._log_dir / f"client-{name}.log")

    def _client_spec(self, name: str) -> topology.Spec:
        logs = self._plan.client_logs or self._log_dir
        image = self._plan.client_image or images.client_image()
        code, imports = self._plan.code, self._plan.client_image is None
        return topology.client_spec(name, self._clocks, logs, code, image, imports_code=imports)

    async def _learn_versions(self, engine: Engine) -> None:
        self._versions["docker engine"] = await engine.call(lambda api: str(api.version()["Version"]))
        service, first = self._plan.service, next(iter(self.nodes.values()))
        if isinstance(first, ContainedServer):
            self.server = Server(service, await version_of(service, first.container, engine))

    async def _prove_one_clock(self, proxy: Container) -> None:
        """Refuse an engine that is not on this machine: everything is stamped by one monotonic clock."""
        if proxy.by_signal:
            return  # its processes are processes of this kernel
        before_ns = time.monotonic_ns()
        _, shown_ns = await self._witness.read()
        if not before_ns <= shown_ns <= time.monotonic_ns():
            raise LabError(REMOTE.format(host=endpoint().host), hint="choose another substrate with --on")
