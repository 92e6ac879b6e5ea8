"""A Redis Cluster of processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from lab.servers import ServerSettings
from lab.substrates.base import STORE
from lab.substrates.local.client import LocalClient
from lab.substrates.local.named import NamedCluster
from lab.substrates.local.node import LocalNode
from lab.substrates.local.processes import Child
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.ports import free_ports
from lab.substrates.real.sharded import RealShard, ShardedLinks


class LocalShard(RealShard[Child], LocalNode):
    """A node of a Redis Cluster: a process of this machine."""


class ShardedCluster(ShardedLinks[LocalNode, LocalNode, LocalClient], NamedCluster):
    """Nodes that are one Redis Cluster."""

    NODE: ClassVar[type[LocalNode]] = LocalShard

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        self._bus_ports = {}
        super().__init__(plan, run_id, log_dir, plan.nodes)

    def _resolved(self, process: str) -> list[str]:
        addresses = [f"{self._announced(far)} {self._listens(process, far)}" for far in self._servers]
        return [*super()._resolved(process), *addresses]

    def _command(self, name: str, port: int, directory: Path, settings: ServerSettings) -> list[str]:
        command = super()._command(name, port, directory, settings)
        return command if name == STORE else [*command, *self._cluster_arguments(name, free_ports(1)[0])]
