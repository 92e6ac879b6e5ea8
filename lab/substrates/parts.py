"""What every cluster has: nodes, a store, clients, and a link for each pair that talks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from lab.errors import UnknownOutcome
from lab.redis_model.persistence import Persistence
from lab.servers import Server
from lab.substrates.answering import Answering
from lab.substrates.asked import AskedNode
from lab.substrates.base import Capability, Client, Link, Node, Reporter, Sendings, Sentinel, Shard
from lab.substrates.plan import ClusterPlan

READY_TIMEOUT_S = 15.0
PROBES_AT_ONCE: Final = 200
"""So many links are probed at once: each takes a connection, and processor time from the others."""

N = TypeVar("N", bound=Node)
S = TypeVar("S", bound=Node)
C = TypeVar("C", bound=Client)
L = TypeVar("L", bound=Link)


class Parts(Generic[N, S, C, L]):
    """The parts of a planned cluster, by their names."""

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.not_simulated = False
        self.forbidden = False
        self.nodes: dict[str, N] = {}
        self.clients: dict[str, C] = {}
        self.sentinels: dict[str, Sentinel] = {}
        self.shards: dict[str, Shard] = {}
        self.store_node: S
        self._links: dict[tuple[str, str], L] = {}
        self.server: Server | None = None
        self._versions: dict[str, str] = {}
        self._replicas = dict(plan.replicas)

    def link(self, client: str, target: str) -> L:
        """Return the link from a client to a node or to the store, or between two nodes."""
        return self._links[client, target]

    def sendings_of(self, client: str) -> Sendings:
        """Refuse: what is about to be sent is seen in a simulated network only. Raises ``UnknownOutcome``."""
        raise UnknownOutcome(f"nobody hears here when {client} is about to send")

    @property
    def replicas(self) -> Mapping[str, str]:
        """Which nodes replicate which masters, now."""
        return self._replicas

    async def promote(self, replica: str) -> None:
        """Make a replica a master. Raises ``UnknownOutcome``."""
        await self.nodes[replica].promote()
        del self._replicas[replica]

    async def attach(self, replica: str, master: str, *, now: bool) -> None:
        """Let a node replicate another over their link. Raises ``UnknownOutcome``."""
        self._replicas[replica] = master
        await self.nodes[replica].follow(self._links[replica, master].address, now=now)

    @property
    def reporters(self) -> Mapping[str, Reporter]:
        """Those who report which node is the master: the Sentinels, or the nodes of a Redis Cluster."""
        return self.sentinels or self.shards

    async def open_slot(self, to: str, *, with_keys: bool) -> None:
        """Refuse: there are slots in a Redis Cluster only. Raises ``UnknownOutcome``."""
        raise UnknownOutcome("the nodes are no Redis Cluster")

    async def assign_slot(self, to: str) -> None:
        """Refuse, likewise. Raises ``UnknownOutcome``."""
        raise UnknownOutcome("the nodes are no Redis Cluster")

    @property
    def persistence(self) -> Persistence:
        """What its Redis nodes keep on disk."""
        return self._plan.persistence

    def _answering(self, near: str, target: str) -> Answering | None:
        """What reads the commands on the link of a client to a node, if a schedule asks for that."""
        asked_for = {Capability.ANSWER_ERRORS, Capability.ONE_CONNECTION} & self._plan.needs
        between = near in self._plan.clients and target in self._plan.nodes
        return Answering() if asked_for and between else None

    @property
    def lock_keys(self) -> tuple[str, ...]:
        """The keys on the nodes that the lock uses."""
        return self._plan.lock_keys

    def versions(self) -> dict[str, str]:
        """Return the versions of what runs besides the nodes."""
        return dict(self._versions)

    async def _learn_server(self) -> None:
        """Ask a node which server it is: all are started from one program. Raises ``UnknownOutcome``."""
        node: Node = next(iter(self.nodes.values())) if self._plan.service == "redis" else self.store_node
        assert isinstance(node, AskedNode)
        if self._plan.service == "redis":
            self.server = await node.server()
        else:
            self._versions["store"] = str(await node.server())

    async def _replicate_by_links(self, nodes: Mapping[str, Any]) -> None:
        """Let each replica replicate its master through their link."""
        pairs = self._plan.replicas.items()
        await asyncio.gather(
            *(nodes[replica].replicate(self._links[replica, master].address) for replica, master in pairs)
        )

    async def _prove_healthy(self) -> None:
        """Probe every link. Raises ``UnknownOutcome`` if one does not answer."""
        links = list(self._links.values())
        for first in range(0, len(links), PROBES_AT_ONCE):
            some = links[first : first + PROBES_AT_ONCE]
            probes = await asyncio.gather(*(link.probe(READY_TIMEOUT_S) for link in some))
            for link, probe in zip(some, probes, strict=True):
                if not probe.reached:
                    raise UnknownOutcome(
                        f"the fresh link from {link.client} to {link.target} does not answer"
                    )
