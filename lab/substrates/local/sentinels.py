"""Redis Sentinels as processes of this machine, and nodes that they can promote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.addresses import Address
from lab.servers import ServerSettings
from lab.substrates.base import STORE
from lab.substrates.local.client import LocalClient
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.cluster import HOST
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.named import NamedCluster
from lab.substrates.local.node import Launch, LocalNode
from lab.substrates.local.processes import Child
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.real.ports import free_ports
from lab.substrates.real.sentinels import RealSentinel, SentinelLinks
from lab.substrates.sentinels import announced, directives


class LocalSentinel(RealSentinel[Child], LocalNode):
    """One Sentinel: a process of this machine."""


class SentinelCluster(SentinelLinks[LocalNode, LocalNode, LocalClient], NamedCluster):
    """A master, its replicas, and the Sentinels that watch them."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        assert plan.sentinels is not None
        self._sentinel_plan: SentinelPlan = plan.sentinels
        super().__init__(plan, run_id, log_dir, (*plan.nodes, *self._sentinel_plan.names))

    def _command(self, name: str, port: int, directory: Path, settings: ServerSettings) -> list[str]:
        command = super()._command(name, port, directory, settings)
        if name == STORE:
            return command
        # What is given after the file wins over what Sentinel wrote into it, but it writes no such directive.
        file = self._scratch / f"{name}.conf"
        file.touch()
        return [command[0], str(file), *command[1:], *announced(name, port)]

    def _sentinel_addresses(self) -> Mapping[str, Address]:
        names = self._sentinel_plan.names
        return {
            name: Address(name, HOST, port) for name, port in zip(names, free_ports(len(names)), strict=True)
        }

    async def _start_sentinel(self, address: Address, master: Address) -> LocalSentinel:
        name, directory = address.name, self._scratch / address.name
        clock = LocalClock(self._clock_shim, self._scratch / f"{name}.clock")
        disk = LocalDisk(directory, None)
        file = self._scratch / f"{name}.conf"
        lines = directives(self._sentinel_plan, name, address.port, master)
        lines = [f"port {address.port}", f"bind {HOST}", f"dir {directory}", *lines]
        file.write_text("".join(f"{line}\n" for line in lines))
        launch = Launch(
            self._nursery,
            name,
            [str(self._redis_server), str(file), "--sentinel"],
            self._environment(name, clock.environment),
            directory,
        )
        sentinel = LocalSentinel(address, launch, clock, disk)
        self._started.append(sentinel)
        await sentinel.start()
        return sentinel
