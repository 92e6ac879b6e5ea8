"""Redis Sentinels in containers, and nodes that they can promote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from lab.addresses import Address
from lab.substrates.base import STORE
from lab.substrates.docker import images, topology
from lab.substrates.docker.cluster import AnyNode
from lab.substrates.docker.container import Container
from lab.substrates.docker.named import NamedCluster
from lab.substrates.docker.parts import ContainerClock, DockerClient, DockerNode
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.real.disk import NodeDisk
from lab.substrates.real.sentinels import RealSentinel, SentinelLinks
from lab.substrates.sentinels import announced, directives


class KeepsItsFile(DockerNode):
    """A server whose file Sentinel rewrites: it stays as it is over restarts."""

    def _configure(self) -> None:
        self._file.touch()


class DockerSentinel(RealSentinel[Container], KeepsItsFile):
    """One Sentinel: a container."""


class SentinelCluster(SentinelLinks[AnyNode, DockerNode, DockerClient], NamedCluster):
    """A master, its replicas, and the Sentinels that watch them."""

    NODE: ClassVar[type[DockerNode]] = KeepsItsFile

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        assert plan.sentinels is not None
        self._sentinel_plan: SentinelPlan = plan.sentinels
        super().__init__(plan, run_id, log_dir, (*plan.nodes, *self._sentinel_plan.names))

    def _node_spec(self, name: str, mounts: topology.NodeMounts) -> topology.Spec:
        spec = super()._node_spec(name, mounts)
        if name == STORE:
            return spec
        port = topology.port_of(name, self._plan.nodes)
        return replace(spec, command=(*spec.command, *announced(name, port)))

    def _sentinel_addresses(self) -> Mapping[str, Address]:
        ports = enumerate(self._sentinel_plan.names, topology.FIRST_SENTINEL_PORT)
        return {name: Address(name, self._proxies[self._home(name)].address, port) for port, name in ports}

    async def _start_sentinel(self, address: Address, master: Address) -> DockerSentinel:
        name = address.name
        clock = ContainerClock(self._clocks / name, self._witness)
        disk = NodeDisk(self._scratch / f"node-{name}", recorded=False)
        lines = directives(self._sentinel_plan, name, address.port, master)
        lines = [f"port {address.port}", f"bind {topology.ANYWHERE}", f"dir {topology.DATA}", *lines]
        (disk.directory / topology.MORE).write_text("".join(f"{line}\n" for line in lines))
        mounts = topology.NodeMounts(disk.directory, self._clocks, name, records_syncs=False)
        image = images.node_image(self._plan.server or None)
        container = await self._create(topology.sentinel_spec(name, mounts, image))
        sentinel = DockerSentinel(address, container, clock, disk)
        self._parts.append(sentinel)
        await sentinel.start()
        return sentinel
