"""``promote``: a replica becomes a master, as in a failover, with the data that it has.

The receipt is its role before and after, and how far it was behind its master: the failover loses that gap.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.faults.base import Fault, Receipt, Target, answers
from lab.faults.down import NOT_DURABLE
from lab.scenario.fault_step import Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import NodeName
from lab.substrates.base import Capability, Cluster


class Promote(Fault):
    """Make a replica a master (`REPLICAOF NO ONE`), as a failover does, whatever it has missed."""

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
        if self.node not in state.shape.replicas or self.node in state.promoted:
            yield ("node",), problem(f"{self.node} is no replica", "a node from cluster.replicas")
        elif self.node in state.down:
            yield ("node",), problem(f"{self.node} is down", "a restart before it")
        state.promoted.add(self.node)

    def target(self, cluster: Cluster) -> Target:
        """The replica."""
        return Target(f"node {self.node}", (self.node,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Promote it, and compare its offset with the last known one of its master."""
        replica, master = cluster.nodes[self.node], cluster.nodes[cluster.replicas[self.node]]
        if await answers(master):
            await master.role()
        before = await replica.role()
        await replica.promote()
        after = await replica.role()
        evidence = {
            "role_before": before.name,
            "role_after": after.name,
            "offset_of_replica": before.offset,
            "offset_of_master": master.known_offset,
            "gap_bytes": max(0, master.known_offset - before.offset),
        }
        return Receipt(before.name == "replica" and after.name == "master", evidence)
