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
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import hiredis

from lab.addresses import SENTINEL_SERVICE, Address
from lab.errors import UnknownOutcome
from lab.servers import ServerSettings
from lab.substrates.base import STORE, ClockReading, Life, Probe, Role, View
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.cluster import HOST
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.named import NamedCluster, host_name, server_name
from lab.substrates.local.node import Launch, LocalNode
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.probe import echo, question
from lab.substrates.real.ports import free_ports
from lab.substrates.toxiproxy import ToxiproxyServer

AGREED_WITHIN_S: Final = 20.0
"""How long Sentinels may take to find each other and the replicas; it is some 2 s."""
POLL_S: Final = 0.02
pong: Final = question(b"PING\r\n", lambda heard: heard.startswith(b"+PONG"))
"""How a Sentinel is asked: it has no ECHO."""


class LocalSentinel(LocalNode):
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

    async def probe(self, timeout_s: float) -> Probe:
        """PING on a connection of its own, around all links."""
        return await pong(self.address, timeout_s)

    async def echoes(self) -> None:  # type: ignore[override]
        """None: it does not count probes."""

    async def life(self) -> Life:
        """``INFO server``; it keeps no keys."""
        server = await self.info("server")
        return Life(server["run_id"], int(server["process_id"]), None)

    async def role(self) -> Role:
        """It takes no part in the replication."""
        return Role("sentinel", 0, linked=True)

    async def _reported_time(self) -> ClockReading:
        return await self.clock.witness()  # it has no TIME

    async def view(self) -> View:
        """``SENTINEL MASTER``, ``REPLICAS`` and ``SENTINELS``."""
        master = await self._rows("MASTER")
        others = [*await self._rows("REPLICAS"), *await self._rows("SENTINELS")]
        down = frozenset(server_name(row["ip"]) for row in (*master, *others) if "s_down" in row["flags"])
        return View(server_name(master[0]["ip"]), int(master[0]["config-epoch"]), down)

    async def start_failover(self, *, force: bool) -> None:
        """``SENTINEL FAILOVER``."""
        await self.ask("SENTINEL", "FAILOVER", SENTINEL_SERVICE)

    async def agrees(self, replicas: int, sentinels: int) -> bool:
        """Whether it hears the master, and so many replicas and other Sentinels, and nothing is amiss."""
        (master,), copies = await self._rows("MASTER"), await self._rows("REPLICAS")
        others = await self._rows("SENTINELS")
        return (
            (len(copies), len(others)) == (replicas, sentinels)
            and master["flags"] == "master"
            and all(row["flags"] == "slave" and row["master-link-status"] == "ok" for row in copies)
            and all(row["flags"] == "sentinel" for row in others)
        )

    async def heard(self) -> AsyncIterator[tuple[str, str]]:
        """``PSUBSCRIBE *``, until the connection ends: when the Sentinel does."""
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(b"PSUBSCRIBE *\r\n")
            replies = hiredis.Reader(encoding="utf-8", errors="replace")
            while data := await reader.read(65_536):
                replies.feed(data)
                while isinstance(reply := replies.gets(), list):
                    if reply[0] == "pmessage":
                        yield reply[2], reply[3]
        finally:
            writer.close()

    async def _rows(self, what: str) -> list[dict[str, str]]:
        """What it answers to a SENTINEL command on the master: one row of names and values, or several."""
        answer = await self.ask("SENTINEL", what, SENTINEL_SERVICE)
        if not isinstance(answer, list):
            raise UnknownOutcome(f"{self.name} answered SENTINEL {what} with {answer!r}")
        rows = cast(list[list[bytes]], [answer] if what == "MASTER" else answer)
        return [_pairs(row) for row in rows]


def _pairs(row: list[bytes]) -> dict[str, str]:
    words = [word.decode(errors="replace") for word in row]
    return dict(zip(words[::2], words[1::2], strict=True))


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
                for near in self._processes
                for far in self._servers
                # A node asks no Sentinel.
                if near != far and (near not in self._plan.nodes or far in self._plan.nodes)
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
        file.write_text(
            f"port {ports[name]}\n"
            f"bind {HOST}\n"
            f"dir {directory}\n"
            "set-proc-title no\n"  # as for nodes
            "sentinel resolve-hostnames yes\n"
            "sentinel announce-hostnames yes\n"
            f"sentinel announce-ip {host_name(name)}\n"
            f"sentinel announce-port {ports[name]}\n"
            f"sentinel monitor {SENTINEL_SERVICE} {host_name(master)} {ports[master]} {plan.quorum}\n"
            f"sentinel down-after-milliseconds {SENTINEL_SERVICE} {plan.down_after_ms}\n"
            f"sentinel failover-timeout {SENTINEL_SERVICE} {plan.failover_timeout_ms}\n"
        )
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
        loop = asyncio.get_running_loop()
        give_up = loop.time() + AGREED_WITHIN_S
        for sentinel in self._started:
            if not isinstance(sentinel, LocalSentinel):
                continue
            while not await sentinel.agrees(len(self._plan.replicas), len(self._sentinel_plan.names) - 1):
                if loop.time() > give_up:
                    raise UnknownOutcome(
                        f"{sentinel.name} did not find the replicas and the other Sentinels "
                        f"within {AGREED_WITHIN_S:.0f} s",
                        hint=f"its log ends:\n{sentinel.running().tail(8)}",
                    )
                await asyncio.sleep(POLL_S)
