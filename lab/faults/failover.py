"""``failover``: a replica takes over although the master is not down.

A Sentinel promotes one, or in a Redis Cluster a replica is told to take over. The receipt is that of every
failover, also of those that the servers decide on: the epoch, the role of the old and of the new master, and
how far the new one was behind. What is in that gap is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from lab.faults.base import Fault, Receipt, Target, Tolerance, answers
from lab.faults.down import NOT_DURABLE
from lab.scenario.fault_step import Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import choice, problem
from lab.scenario.types import SENTINEL_NAMES, Bool, NodeName
from lab.substrates.base import MASTER, Capability, Cluster, View

SWITCHED_WITHIN_S: Final = 20.0
POLL_S: Final = 0.02


class Failover(Fault):
    """Let a replica take over at once; the master becomes its replica.

    A Sentinel promotes one (`SENTINEL FAILOVER`). A replica of a Redis Cluster is told (`CLUSTER FAILOVER`),
    and waits until it has all that its master wrote, unless it is forced.
    """

    KEY = "failover"
    EXAMPLE = "{by: S1}"
    NEEDS = Capability.SENTINELS
    SIGN = Sign("promotion", "becomes master")
    FITS_SENTINELS = True

    by: NodeName
    """The Sentinel that is asked for it, or the replica of a Redis Cluster that is to take over."""
    force: Bool = False
    """In a Redis Cluster: without waiting for what its master has written (`CLUSTER FAILOVER FORCE`)."""

    def pack(self, fields: dict[str, Any]) -> Any:
        """``force`` is left out where it is not so."""
        return fields if self.force else {"by": self.by}

    @property
    def _of_sentinel(self) -> bool:
        return self.by in SENTINEL_NAMES

    @property
    def needs(self) -> Capability:
        """Sentinels, or a Redis Cluster."""
        return self.NEEDS if self._of_sentinel else Capability.REDIS_CLUSTER

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Replication is asynchronous; but a replica that waits for its master loses nothing."""
        return NOT_DURABLE if self._of_sentinel or self.force else None

    @property
    def clause(self) -> str:
        """Who does it."""
        if self._of_sentinel:
            return f"the Sentinel {self.by} promotes a replica"
        return f"the replica {self.by} takes over{' by force' if self.force else ''}"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse who is no Sentinel and no replica of a Redis Cluster, or can't act."""
        shape = state.shape
        # Which node of a Redis Cluster is a replica changes during the run.
        who, known = ("node", shape.nodes) if shape.sharded else ("Sentinel", shape.sentinels)
        if self.by not in known:
            expected = (
                choice(known) if known else "a cluster with Sentinels, like sentinels: 3, or a Redis Cluster"
            )
            yield ("by",), problem(f"{self.by} is no {who}", expected)
        elif self.by in state.down | state.paused:
            yield ("by",), problem(f"{self.by} is down or paused", f"a {who} that runs")
        elif self.force and not shape.sharded:
            yield (
                ("force",),
                problem("a Sentinel is not told to force a failover: it always does", "no force"),
            )

    def target(self, cluster: Cluster) -> Target:
        """Who is told; which replica a Sentinel promotes is in the receipt."""
        return Target(f"{'Sentinel' if self._of_sentinel else 'node'} {self.by}", (self.by,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Tell it, and wait until it names another master."""
        reporter = cluster.reporters[self.by]
        before = await reporter.view()
        if before.master and await answers(master := cluster.nodes[before.master]):
            await master.role()  # records its offset
        await reporter.start_failover(force=self.force)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + SWITCHED_WITHIN_S
        while (after := await reporter.view()).master in (before.master, ""):
            if loop.time() > give_up:
                return Receipt(False, {"master_before": before.master, "master_after": after.master})
            await asyncio.sleep(POLL_S)
        return await switched(before.master, after, cluster)


async def switched(old: str, now: View, cluster: Cluster) -> Receipt:
    """The receipt of a failover from ``old`` to what a server reports ``now``."""
    former, new = cluster.nodes[old], cluster.nodes[now.master]
    role_of_new = await new.role() if await answers(new) else None
    offset_of_old = former.known_offset
    role_of_old = await former.role() if await answers(former) else None
    # As a replica it has gone on in the stream of the new master.
    if role_of_old is not None and role_of_old.name == MASTER:
        offset_of_old = role_of_old.offset
    evidence: dict[str, Any] = {
        "epoch": now.epoch,
        "old_master": old,
        "new_master": now.master,
        "role_of_old": role_of_old.name if role_of_old is not None else "no answer",
        "role_of_new": role_of_new.name if role_of_new is not None else "no answer",
    }
    promoted_at = role_of_new.promoted_at if role_of_new is not None else None
    # A node that was paused or cut off was not asked before, so its offset may not be known.
    if promoted_at is not None and offset_of_old:
        evidence |= {
            "offset_of_old": offset_of_old,
            "offset_of_new_when_promoted": promoted_at,
            "gap_bytes": max(0, offset_of_old - promoted_at),
        }
    return Receipt(role_of_new is not None and role_of_new.name == MASTER, evidence)
