"""What clusters of real servers have in common: links through Toxiproxy, and the proof that all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.servers import replication_links
from lab.substrates.base import Link, Node
from lab.substrates.parts import READY_TIMEOUT_S, Parts
from lab.substrates.plan import ClusterPlan
from lab.substrates.probe import PINGS, Ping, echo
from lab.substrates.real.client import ProcessClient
from lab.substrates.real.machine import Body
from lab.substrates.real.node import RedisNode
from lab.substrates.real.relay import Relay
from lab.substrates.toxiproxy import LinkPlan, ToxiproxyLink, ToxiproxyServer

N = TypeVar("N", bound=Node)
S = TypeVar("S", bound=RedisNode)  # type: ignore[type-arg]
C = TypeVar("C", bound=ProcessClient)  # type: ignore[type-arg]


class RealCluster(Parts[N, S, C, Link]):
    """Nodes, a store and clients, and a link between each client and each server."""

    def __init__(self, plan: ClusterPlan) -> None:
        super().__init__(plan)
        self._relays: list[Relay] = []

    async def _shared_out(
        self, plans: Sequence[LinkPlan], proxies: Sequence[ToxiproxyServer]
    ) -> list[ToxiproxyLink]:
        """Make links, as many of them in each proxy."""
        size = -(-len(plans) // len(proxies))
        parts = (plans[first * size : (first + 1) * size] for first in range(len(proxies)))
        made = await asyncio.gather(
            *(proxy.create_links(part) for proxy, part in zip(proxies, parts, strict=True))
        )
        return [link for links in made for link in links]

    async def _connect_all(self, proxies: Sequence[ToxiproxyServer]) -> None:
        """Make every link, let replicas find their masters, and prove every link healthy.

        The links are shared out among the ``proxies``.
        """
        pings = dict.fromkeys(self.nodes, PINGS[self._plan.service])
        plans = [
            await self._link_plan(client, target.address, pings.get(target.name, echo))
            for client in self.clients
            for target in (*self.nodes.values(), self.store_node)
        ] + [
            LinkPlan(replica, master, self.nodes[master].address)
            for replica, master in replication_links(self._plan.replicas)
        ]
        made = await self._shared_out(plans, proxies)
        self._links |= {(link.client, link.target): link for link in made}
        await asyncio.gather(*(self._replicate(*pair) for pair in self._plan.replicas.items()))
        await self._prove_healthy()
        await self._learn_server()

    async def _link_plan(self, client: str, behind: Address, ping: Ping) -> LinkPlan:
        """The link of a client to a server, over a relay if the server may have to answer with errors."""
        answering = self._answering(client, behind.name)
        if answering is not None:
            relay = Relay(behind, answering)
            self._relays.append(relay)
            behind = await relay.open()
        return LinkPlan(client, behind.name, behind, ping, answering=answering)

    async def _close_relays(self) -> None:
        for relay in self._relays:
            await relay.close()

    async def _replicate(self, replica: str, master: str) -> None:
        """Let a node replicate another through their link, and wait until it has all of it."""
        node = self.nodes[replica]
        assert isinstance(node, RedisNode)
        await node.replicate(self._links[replica, master].address)
        await self._until_linked(replica, master)

    async def _until_linked(self, replica: str, master: str) -> None:
        """Wait until a replica has all that its master has."""
        node = self.nodes[replica]
        loop = asyncio.get_running_loop()
        give_up = loop.time() + READY_TIMEOUT_S
        while not (await node.role()).linked:
            if loop.time() > give_up:
                raise UnknownOutcome(f"{replica} did not become a replica of {master}")
            await asyncio.sleep(0.005)

    async def _toxiproxy_is_ready(self, server: ToxiproxyServer, body: Body) -> bool:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + READY_TIMEOUT_S
        while body.running and loop.time() < give_up:
            try:
                self._versions["toxiproxy-server"] = await server.version()
            except UnknownOutcome:
                await asyncio.sleep(0.01)
            else:
                return body.running
        return False
