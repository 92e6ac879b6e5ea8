"""Real Redis Sentinels, and nodes that they can promote.

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

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.base import ClockReading
from lab.substrates.plan import SentinelPlan
from lab.substrates.probe import echo
from lab.substrates.real.cluster import C, N, S
from lab.substrates.real.machine import B
from lab.substrates.real.named import NamedLinks
from lab.substrates.real.node import RedisNode
from lab.substrates.sentinels import AGREED_WITHIN_S, POLL_S, AskedSentinel, host_name, pairs, pong
from lab.substrates.toxiproxy import ToxiproxyServer


class RealSentinel(AskedSentinel, RedisNode[B]):
    """One Sentinel: a redis-server in Sentinel mode; ``address`` leads to it around every link."""

    async def _until_ready(self, child: B) -> None:
        """Wait until it answers: it loads nothing. Raises ``UnknownOutcome``."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + AGREED_WITHIN_S
        while not (await self.probe(1.0)).reached:
            if not child.running or loop.time() > give_up:
                raise self._not_ready(child, f"it did not answer within {AGREED_WITHIN_S:.0f} s")
            await asyncio.sleep(POLL_S)

    async def _reported_time(self) -> ClockReading:
        return await self.clock.witness()  # it has no TIME


class SentinelLinks(NamedLinks[N, S, C]):
    """A master, its replicas, and the Sentinels that watch them."""

    _sentinel_plan: SentinelPlan

    def _sentinel_addresses(self) -> Mapping[str, Address]:
        """Where each Sentinel will be reached around every link."""
        raise NotImplementedError

    async def _start_sentinel(self, address: Address, master: Address) -> RealSentinel:  # type: ignore[type-arg]
        """Start the Sentinel of this address, which watches the master behind this name."""
        raise NotImplementedError

    async def _connect_all(self, proxies: Sequence[ToxiproxyServer]) -> None:
        """Make a link from every process to every server, then the replicas, then the Sentinels."""
        sentinels = self._sentinel_addresses()
        addresses = {**{name: node.address for name, node in self.nodes.items()}, **sentinels}
        reached = pairs(self.clients, self._plan.nodes, tuple(sentinels))
        await self._make_links(
            proxies,
            [
                await self._way(near, addresses[far], pong if far in sentinels else echo)
                for near, far in reached
            ],
        )
        await asyncio.gather(*(self._replicate(*pair) for pair in self._plan.replicas.items()))
        (master,) = set(self._plan.nodes) - set(self._plan.replicas)
        watched = Address(master, host_name(master), addresses[master].port)
        await self._until_agreed(
            await asyncio.gather(*(self._start_sentinel(one, watched) for one in sentinels.values()))
        )
        await self._prove_healthy()
        await self._learn_server()

    async def _replicate(self, replica: str, master: str) -> None:
        """Let a node replicate another by its name, and write that into its configuration file."""
        node, of = self.nodes[replica], self.nodes[master]
        assert isinstance(node, RedisNode)
        await node.ask("REPLICAOF", host_name(master), of.address.port)
        await self._until_linked(replica, master)
        await node.ask("CONFIG", "REWRITE")

    async def _until_agreed(self, sentinels: Sequence[RealSentinel]) -> None:  # type: ignore[type-arg]
        """Wait until each Sentinel knows all replicas and all other Sentinels, and reaches them."""
        self.sentinels = {sentinel.name: sentinel for sentinel in sentinels}
        for sentinel in sentinels:
            try:
                await sentinel.until_agreed(len(self._plan.replicas), len(sentinels) - 1)
            except UnknownOutcome as error:
                hint = f"its log ends:\n{sentinel.running().tail(8)}"
                raise UnknownOutcome(error.seen, hint=hint) from error
