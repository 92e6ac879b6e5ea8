"""``promote``: a replica becomes a master, as in a failover, with the data that it has.

As Sentinel does, it attaches the other replicas of the old master to the new one: they take over its data,
and lose what it does not have. One that is down follows it from its next start on; one that is paused is left
as it is. The old master is left as it is too: if it comes back it is a master.

The receipt is its role before and after, how far it was behind its master, which is what the failover loses,
and whom each of the other replicas follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from lab.faults.base import Fault, Receipt, Target, all_at_once, answers
from lab.faults.down import NOT_DURABLE
from lab.scenario.fault_step import Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import NodeName
from lab.substrates.base import Capability, Cluster

PATIENCE_S: Final = 5.0
"""How long it waits until another replica hears the new master; over a link that is cut it never does."""
POLL_S: Final = 0.005


class Promote(Fault):
    """Make a replica a master (`REPLICAOF NO ONE`), as a failover does; other replicas then follow it."""

    KEY = "promote"
    EXAMPLE = "{node: B}"
    NEEDS = Capability.REPLICATION
    BREAKS = NOT_DURABLE  # replication is asynchronous, so an acknowledged write may be lost
    SIGN = Sign("promotion", "becomes master")

    node: NodeName
    """The replica that becomes a master."""

    @property
    def clause(self) -> str:
        """Which replica."""
        return f"the replica {self.node} becomes a master"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a node that is no replica, or down."""
        if state.shape.sharded:
            hint = "a node of a Redis Cluster decides for itself what it replicates"
            yield (
                ("node",),
                problem(f"{self.node} is in a Redis Cluster", f"failover: {{by: {self.node}}}", hint),
            )
        elif state.shape.sentinels:
            hint = "a Sentinel would make it a replica again"
            yield ("node",), problem(f"{self.node} is watched by Sentinels", "failover: {by: S1}", hint)
        elif self.node not in state.shape.replicas or self.node in state.promoted:
            yield ("node",), problem(f"{self.node} is no replica", "a node from cluster.replicas")
        elif self.node in state.down:
            yield ("node",), problem(f"{self.node} is down", "a restart before it")
        state.promoted.add(self.node)

    def target(self, cluster: Cluster) -> Target:
        """The replica."""
        return Target(f"node {self.node}", (self.node,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Promote it, compare its offset with the last known one of its master, and attach the others."""
        old = cluster.replicas[self.node]
        replica, master = cluster.nodes[self.node], cluster.nodes[old]
        if await answers(master):
            await master.role()
        before = await replica.role()
        await cluster.promote(self.node)
        after = await replica.role()
        evidence: dict[str, Any] = {
            "role_before": before.name,
            "role_after": after.name,
            "offset_of_replica": before.offset,
            "offset_of_master": master.known_offset,
            "gap_bytes": max(0, master.known_offset - before.offset),
        }
        confirmed = before.name == "replica" and after.name == "master"
        others = [name for name, followed in cluster.replicas.items() if followed == old]
        for name, (attached, shown) in zip(
            others, await all_at_once(self._attach(name, cluster) for name in others), strict=True
        ):
            confirmed = confirmed and attached
            evidence[name] = shown
        return Receipt(confirmed, evidence)

    async def _attach(self, name: str, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
        """Let another replica of the old master follow the new one, and wait until it hears it."""
        node, address = cluster.nodes[name], cluster.link(name, self.node).address
        if not await answers(node):
            if node.alive:  # it is paused, and cannot be told
                return True, {"attached": "no, it does not answer"}
            await cluster.attach(name, self.node, now=False)
            return True, {"attached": "at its next start"}
        await cluster.attach(name, self.node, now=True)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE_S
        while not (role := await node.role()).linked and loop.time() < give_up:
            await asyncio.sleep(POLL_S)
        follows = role.name == "replica" and role.follows == f"{address.host}:{address.port}"
        return follows, {"follows": self.node if follows else role.follows, "linked": role.linked}
