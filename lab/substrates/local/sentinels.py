"""Redis Sentinels on this machine, and nodes that they can promote.

Every server announces a name instead of an address (``replica-announce-ip node-b``, ``sentinel announce-ip
sentinel-1``, ``sentinel resolve-hostnames yes``), which each process resolves to links of its own: see
``named.py``. Clients, replicas and Sentinels follow a failover over them.

Sentinel rewrites the configuration files of nodes and its own. They stay over restarts: a master that was
killed comes back as a master, as it does in production, and a Sentinel remembers its epoch.

Source: Redis documentation, "High availability with Redis Sentinel", "IP addresses and DNS names".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.servers import ServerSettings
from lab.substrates.base import STORE, ClockReading
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.cluster import HOST
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.named import NamedCluster
from lab.substrates.local.node import Launch, LocalNode
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.probe import echo
from lab.substrates.real.ports import free_ports
from lab.substrates.sentinels import (
    AGREED_WITHIN_S,
    POLL_S,
    AskedSentinel,
    directives,
    host_name,
    pairs,
    pong,
)
from lab.substrates.toxiproxy import ToxiproxyServer


class LocalSentinel(AskedSentinel, LocalNode):
    """One Sentinel: a redis-server in Sentinel mode; ``address`` leads to it around every link."""

    async def start(self) -> None:
        """Start the process; ready when it answers with the process id that we started."""
        child = self.child = await self._launch()
        child.expected_end = True  # until it is ready: a lost race for its port is tried again
        loop = asyncio.get_running_loop()
        give_up = loop.time() + AGREED_WITHIN_S
        while not (await self.probe(1.0)).reached:
            if not child.running or loop.time() > give_up:
                raise self._not_ready(child, f"it did not answer within {AGREED_WITHIN_S:.0f} s")
            await asyncio.sleep(POLL_S)
        if (await self.info("server")).get("process_id") != str(child.pid):
            raise self._not_ready(child, f"another process answers on port {self.address.port}")
        child.expected_end = False
        self._port.close()

    async def _reported_time(self) -> ClockReading:
        return await self.clock.witness()  # it has no TIME


class SentinelCluster(NamedCluster):
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
        announced = ["--replica-announce-ip", host_name(name), "--replica-announce-port", str(port)]
        return [command[0], str(file), *command[1:], *announced]

    async def _connect_all(self, proxies: Sequence[ToxiproxyServer]) -> None:
        """Make a link from every process to every server, then the replicas, then the Sentinels."""
        ports = {name: node.address.port for name, node in self.nodes.items()}
        names = self._sentinel_plan.names
        ports |= dict(zip(names, free_ports(len(names)), strict=True))
        await self._make_links(
            proxies,
            [
                await self._way(near, far, ports[far], echo if far in self._plan.nodes else pong)
                for near, far in pairs(self.clients, self._plan.nodes, names)
            ],
        )
        await asyncio.gather(*(self._replicate(*pair) for pair in self._plan.replicas.items()))
        await asyncio.gather(*(self._start_sentinel(name, ports) for name in names))
        await self._until_agreed()
        await self._prove_healthy()
        await self._learn_server()

    async def _replicate(self, replica: str, master: str) -> None:
        """Let a node replicate another by its name, and write that into its configuration file."""
        node, port = self.nodes[replica], self.nodes[master].address.port
        await node.ask("REPLICAOF", host_name(master), port)
        await self._until_linked(replica, master)
        await node.ask("CONFIG", "REWRITE")

    async def _start_sentinel(self, name: str, ports: Mapping[str, int]) -> None:
        plan, directory = self._sentinel_plan, self._scratch / name
        clock = LocalClock(self._clock_shim, self._scratch / f"{name}.clock")
        disk = LocalDisk(directory, None)
        (master,) = set(self._plan.nodes) - set(self._plan.replicas)
        file = self._scratch / f"{name}.conf"
        watched = Address(master, host_name(master), ports[master])
        lines = [f"port {ports[name]}", f"bind {HOST}", f"dir {directory}"]
        lines += directives(plan, name, ports[name], watched)
        file.write_text("".join(f"{line}\n" for line in lines))
        launch = Launch(
            self._nursery,
            name,
            [str(self._redis_server), str(file), "--sentinel"],
            self._environment(name, clock.environment),
            directory,
        )
        sentinel = LocalSentinel(Address(name, HOST, ports[name]), launch, clock, disk)
        self._started.append(sentinel)
        await sentinel.start()
        self.sentinels[name] = sentinel

    async def _until_agreed(self) -> None:
        """Wait until each Sentinel knows all replicas and all other Sentinels, and reaches them."""
        for sentinel in self._started:
            if not isinstance(sentinel, LocalSentinel):
                continue
            try:
                await sentinel.until_agreed(len(self._plan.replicas), len(self._sentinel_plan.names) - 1)
            except UnknownOutcome as error:
                hint = f"its log ends:\n{sentinel.running().tail(8)}"
                raise UnknownOutcome(error.seen, hint=hint) from error
