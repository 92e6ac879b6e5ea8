"""Servers that tell others where a server is: everybody is told the same place, and has links of his own.

A proxy behind that place could not tell who comes. So each process resolves what servers announce, names and
addresses, by a preload library to loopback addresses of its own, where Toxiproxy listens on the ports of the
server: 127.77.process.server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from lab import tools
from lab.addresses import Address
from lab.shims import NAMES_VARIABLE, preload
from lab.substrates.local.cluster import HOST, LocalCluster
from lab.substrates.peers import PeerLink, PeerWay
from lab.substrates.plan import ClusterPlan
from lab.substrates.probe import Ping, echo
from lab.substrates.sentinels import host_name
from lab.substrates.toxiproxy import LinkPlan, ToxiproxyLink, ToxiproxyServer


class NamedCluster(LocalCluster):
    """Servers that announce names, and a link from every process to every server that it asks."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path, servers: Sequence[str]) -> None:
        super().__init__(plan, run_id, log_dir)
        self._servers = tuple(servers)
        self._processes = (*plan.clients, *self._servers)
        self._names_shim = tools.require("names-shim")
        for process in self._processes:
            self._names_file(process).write_text("".join(f"{line}\n" for line in self._resolved(process)))

    def _resolved(self, process: str) -> list[str]:
        """What a process resolves, and to what."""
        return [f"{host_name(server)} {self._address(process, server)}" for server in self._servers]

    def _environment(self, name: str, environment: dict[str, str]) -> dict[str, str]:
        before = environment.get("LD_PRELOAD")
        return {
            **environment,
            "LD_PRELOAD": f"{self._names_shim}:{before}" if before else preload(self._names_shim),
            NAMES_VARIABLE: str(self._names_file(name)),
        }

    def _names_file(self, process: str) -> Path:
        return self._scratch / f"{process}.names"

    def _address(self, process: str, server: str) -> str:
        """Where a process finds a server: a loopback address that nobody else is told."""
        above, low = divmod(self._processes.index(process), 250)
        return f"127.{77 + above}.{low + 1}.{self._servers.index(server) + 1}"

    async def _way(self, near: str, far: str, port: int, ping: Ping, *, second: bool = False) -> LinkPlan:
        """The way from a process to a port of a server; ``second``: there is one to another port as well."""
        plan = await self._link_plan(near, Address(far, HOST, port), ping)
        return replace(plan, listen=f"{self._address(near, far)}:{port}", port=port if second else None)

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
