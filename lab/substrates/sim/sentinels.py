"""Redis Sentinels in the simulation, and nodes that they can promote.

As on real machines servers announce names, and each process finds another link behind the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lab.addresses import SENTINEL_SERVICE, Address
from lab.redis_model import RedisModel
from lab.redis_model.known import Missing
from lab.redis_model.sentinel import Remembered, SentinelModel, SentinelSettings
from lab.servers import DEFAULT, Server
from lab.substrates.peers import PeerWay, links_between
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.probe import echo
from lab.substrates.sentinels import AskedSentinel, host_name, pairs, pong
from lab.substrates.sim.cluster import SimCluster
from lab.substrates.sim.network import Network
from lab.substrates.sim.node import PORT, SimNode

SENTINEL_PORT: Final = 26379


def settings_of(plan: SentinelPlan, name: str, master: str) -> SentinelSettings:
    """What the configuration file of a Sentinel says that is to watch this node."""
    return SentinelSettings(
        host_name(name),
        SENTINEL_PORT,
        SENTINEL_SERVICE,
        (host_name(master), PORT),
        plan.quorum,
        plan.down_after_ms,
        plan.failover_timeout_ms,
    )


class SimSentinel(AskedSentinel, SimNode):
    """One Sentinel; it remembers over restarts what it has written into its configuration file."""

    def __init__(
        self,
        name: str,
        network: Network,
        process_ids: Callable[[], int],
        settings: SentinelSettings,
        server: Server = DEFAULT,
        on_missing: Callable[[Missing], None] | None = None,
        remembered: Remembered | None = None,
    ) -> None:
        super().__init__(name, network, process_ids, "none", server, on_missing, port=settings.port)
        self._sentinel_settings = settings
        self._remembered = remembered

    def _new_model(self) -> SentinelModel:
        return SentinelModel(
            self.name,
            self._sentinel_settings,
            wall_ns=self.host.clock.wall_ns,
            monotonic_ns=self.host.clock.monotonic_ns,
            random=self.host.random,
            connect=lambda host, port, conversation: self.connect(host, port, conversation.opened),
            process_id=self.process_id,
            remembered=self._remembered,
            server=self._server,
        )

    async def reported_time_ns(self) -> int:
        """Its clock itself: it has no TIME."""
        await self.acting()
        return self.host.clock.wall_ns()

    def _keep_files(self, model: RedisModel) -> None:
        assert isinstance(model, SentinelModel)
        self._remembered = model.remembered()


class SimSentinelCluster(SimCluster):
    """A master, its replicas, and the Sentinels that watch them."""

    def __init__(self, plan: ClusterPlan, log_dir: Path) -> None:
        super().__init__(plan, log_dir)
        assert plan.sentinels is not None
        self._sentinel_plan: SentinelPlan = plan.sentinels
        self._watching: dict[str, SimSentinel] = {}

    def _announced(self, name: str) -> str:
        return host_name(name)

    async def _connect_all(self) -> None:
        """Make a link from every process to every server, then the replicas, then the Sentinels."""
        plan = self._sentinel_plan
        (master,) = set(self._plan.nodes) - set(self._plan.replicas)
        for name in plan.names:
            settings = settings_of(plan, name, master)
            self._watching[name] = SimSentinel(
                name, self._network, self.next_id, settings, self.modelled_server, self.missed
            )
        self.sentinels = dict(self._watching)
        self._make_links()
        followed = self._plan.replicas.items()
        await asyncio.gather(
            *(self.nodes[replica].replicate(Address(of, host_name(of), PORT)) for replica, of in followed)
        )
        await asyncio.gather(*(sentinel.start() for sentinel in self._watching.values()))
        for sentinel in self._watching.values():
            await sentinel.until_agreed(len(followed), len(plan.names) - 1)

    def _make_links(self) -> None:
        servers: dict[str, SimNode] = {**self.nodes, **self._watching}
        ways: dict[tuple[str, str], PeerWay] = {}
        for near, far in pairs(self.clients, tuple(self.nodes), tuple(self._watching)):
            ping = echo if far in self.nodes else pong
            link = self._made_link(near, servers[far], ping)
            self._network.resolve(near, host_name(far), link.address.host)
            ways[near, far] = PeerWay(near, far, link, ping, servers[far].address)
            if near in self.clients:
                self._links[near, far] = link
        self._links |= links_between(tuple(servers), ways)
        for client in self.clients:
            self._links[client, self.store_node.name] = self._made_link(client, self.store_node)
