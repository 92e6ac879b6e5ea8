"""``promote``: a replica becomes a master, as in a failover, and takes what it has for all there is.

The receipt is its role before and after, and how far it was behind its master: the gap is what the failover
loses.
"""

from __future__ import annotations

from typing import ClassVar

from lab.faults.base import Ending, Receipt, Target, Tolerance, answers
from lab.faults.down import NOT_DURABLE
from lab.scenario.step_machine import Promote
from lab.substrates.base import Capability, Cluster


class PromoteFault:
    """A failover to a replica."""

    f: ClassVar[str] = "promote"
    ended_by: ClassVar[Ending] = "nothing"

    def needs(self, step: Promote) -> Capability:
        """Nodes that replicate others."""
        return Capability.REPLICATION

    def target(self, step: Promote, cluster: Cluster) -> Target:
        """The replica."""
        return Target(f"node {step.node}", (step.node,))

    def breaks(self, step: Promote, tolerance: Tolerance) -> str | None:
        """Break durability: replication is asynchronous, so an acknowledged write may be lost."""
        return NOT_DURABLE

    async def inject(self, step: Promote, cluster: Cluster) -> Receipt:
        """Promote it, and compare it with the last that is known of its master."""
        replica, master = cluster.nodes[step.node], cluster.nodes[cluster.replicas[step.node]]
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
