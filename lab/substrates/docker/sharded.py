"""A Redis Cluster of containers.

The loopback address that a node announces leads to the Toxiproxy in whose network namespace a process is, as
every name does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from lab.substrates.base import STORE
from lab.substrates.docker import topology
from lab.substrates.docker.cluster import AnyNode
from lab.substrates.docker.container import Container
from lab.substrates.docker.named import NamedCluster
from lab.substrates.docker.parts import DockerClient, DockerNode
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.sharded import RealShard, ShardedLinks


class DockerShard(RealShard[Container], DockerNode):
    """A node of a Redis Cluster: a container."""


class ShardedCluster(ShardedLinks[AnyNode, DockerNode, DockerClient], NamedCluster):
    """Nodes that are one Redis Cluster."""

    NODE: ClassVar[type[DockerNode]] = DockerShard

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        self._bus_ports = {}
        super().__init__(plan, run_id, log_dir, plan.nodes)

    def _node_spec(self, name: str, mounts: topology.NodeMounts) -> topology.Spec:
        spec = super()._node_spec(name, mounts)
        if name == STORE:
            return spec
        bus_port = topology.FIRST_BUS_PORT + self._servers.index(name)
        return replace(spec, command=(*spec.command, *self._cluster_arguments(name, bus_port)))
