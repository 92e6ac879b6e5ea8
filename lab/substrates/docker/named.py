"""Servers that tell others where a server is, in containers: each process has a Toxiproxy of its own.

It is in the network namespace of that Toxiproxy, where every name leads to. The lab reaches each link there
as well, and the process itself around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lab.substrates.base import STORE
from lab.substrates.docker import topology
from lab.substrates.docker.cluster import AnyNode, DockerCluster
from lab.substrates.docker.parts import DockerClient, DockerNode
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.named import NamedLinks
from lab.substrates.sentinels import host_name
from lab.substrates.toxiproxy import LinkPlan, ToxiproxyLink, ToxiproxyServer


class NamedCluster(NamedLinks[AnyNode, DockerNode, DockerClient], DockerCluster):
    """Servers that announce names, and a link from every process to every server that it asks."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path, servers: Sequence[str]) -> None:
        super().__init__(plan, run_id, log_dir)
        self._servers = tuple(servers)

    def _home(self, name: str) -> str:
        # The store is asked by its address alone, so any network namespace does in which its port is free.
        return topology.proxy_of(self._servers[0] if name == STORE else name)

    def _proxy_specs(self) -> Sequence[topology.Spec]:
        names = [host_name(server) for server in self._servers]
        processes = (*self._servers, *self._plan.clients)
        return [topology.proxy_spec(topology.proxy_of(process), names) for process in processes]

    def _node_spec(self, name: str, mounts: topology.NodeMounts) -> topology.Spec:
        return replace(super()._node_spec(name, mounts), shares=self._home(name))

    def _client_spec(self, name: str) -> topology.Spec:
        return replace(super()._client_spec(name), shares=self._home(name))

    def _listens(self, process: str, server: str) -> str:
        return topology.ANYWHERE

    async def _shared_out(
        self, plans: Sequence[LinkPlan], proxies: Sequence[ToxiproxyServer]
    ) -> list[ToxiproxyLink]:
        """Make each link in the Toxiproxy of its near end."""
        at = {proxy.host: proxy for proxy in proxies}
        own: dict[str, list[LinkPlan]] = {}
        for plan in plans:
            own.setdefault(self._proxies[self._home(plan.client)].address, []).append(plan)
        made = {link.name: link for host, some in own.items() for link in await at[host].create_links(some)}
        return [made[plan.name] for plan in plans]
