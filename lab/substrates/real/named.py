"""Servers that tell others where a server is: everybody is told the same name, and has links of his own.

A proxy behind one place could not tell who comes. So each process resolves what servers announce in a way of
its own, and finds Toxiproxy there, on the ports of the servers: one proxy for each process and server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from lab.addresses import Address
from lab.substrates.peers import PeerLink, PeerWay
from lab.substrates.probe import Ping, echo
from lab.substrates.real.cluster import C, N, RealCluster, S
from lab.substrates.toxiproxy import LinkPlan, ToxiproxyLink, ToxiproxyServer


class NamedLinks(RealCluster[N, S, C]):
    """Servers that announce names, and a link from every process to every server that it asks."""

    _servers: tuple[str, ...]

    def _listens(self, process: str, server: str) -> str:
        """The address at which a process finds Toxiproxy when it asks for a server."""
        raise NotImplementedError

    async def _way(self, near: str, far: Address, ping: Ping, *, second: bool = False) -> LinkPlan:
        """The way from a process to a port of a server; ``second``: there is one to another port as well."""
        plan = await self._link_plan(near, far, ping)
        listen = f"{self._listens(near, far.name)}:{far.port}"
        return replace(plan, listen=listen, port=far.port if second else None)

    async def _make_links(self, proxies: Sequence[ToxiproxyServer], ways: Sequence[LinkPlan]) -> None:
        """Make these ways, and one from each client to the store.

        The link between two servers has all ways between them, in both directions; of several in one
        direction the last is asked whether it is open.
        """
        stores = [await self._link_plan(client, self.store_node.address, echo) for client in self.clients]
        parts: dict[tuple[str, str], list[ToxiproxyLink]] = {}
        asked: dict[tuple[str, str], PeerWay] = {}
        plans = [*ways, *stores]
        for plan, link in zip(plans, await self._shared_out(plans, proxies), strict=True):
            pair = plan.client, plan.target
            parts.setdefault(pair, []).append(link)
            asked[pair] = PeerWay(*pair, link, plan.ping, plan.behind)
            if plan.client in self.clients:
                self._links[pair] = link
        for near, far in permutations(self._servers, 2):
            both = [pair for pair in ((near, far), (far, near)) if pair in parts]
            ends = [part for pair in both for part in parts[pair]]
            self._links[near, far] = PeerLink(near, far, ends, [asked[pair] for pair in both])
