"""``failover``: a Sentinel promotes a replica although the master is not down.

The receipt is that of every failover, also of those that Sentinels decide on: the epoch, the role of the old
and of the new master, and how far the new one was behind. What is in that gap is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from lab.faults.base import Fault, Receipt, Target, answers
from lab.faults.down import NOT_DURABLE
from lab.scenario.fault_step import Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import choice, problem
from lab.scenario.types import NodeName
from lab.substrates.base import MASTER, Capability, Cluster, SentinelView

SWITCHED_WITHIN_S: Final = 20.0
POLL_S: Final = 0.02


class Failover(Fault):
    """Let a Sentinel promote a replica at once (`SENTINEL FAILOVER`); the master becomes its replica."""

    KEY = "failover"
    EXAMPLE = "{by: S1}"
    NEEDS = Capability.SENTINELS
    BREAKS = NOT_DURABLE  # as in ``promote``: replication is asynchronous
    SIGN = Sign("promotion", "becomes master")
    FITS_SENTINELS = True

    by: NodeName
    """The Sentinel that is asked for it."""

    @property
    def clause(self) -> str:
        """Who does it."""
        return f"the Sentinel {self.by} promotes a replica"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse what is no Sentinel, or can't act."""
        sentinels = state.shape.sentinels
        if self.by not in sentinels:
            expected = choice(sentinels) if sentinels else "a cluster with Sentinels, like sentinels: 3"
            yield ("by",), problem(f"{self.by} is no Sentinel", expected)
        elif self.by in state.down | state.paused:
            yield ("by",), problem(f"{self.by} is down or paused", "a Sentinel that runs")

    def target(self, cluster: Cluster) -> Target:
        """The Sentinel; which replica it is, is in the receipt."""
        return Target(f"Sentinel {self.by}", (self.by,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Ask it, and wait until it names another master."""
        sentinel = cluster.sentinels[self.by]
        before = await sentinel.view()
        await sentinel.force_failover()
        loop = asyncio.get_running_loop()
        give_up = loop.time() + SWITCHED_WITHIN_S
        while (after := await sentinel.view()).master == before.master:
            if loop.time() > give_up:
                return Receipt(False, {"master_before": before.master, "master_after": after.master})
            await asyncio.sleep(POLL_S)
        return await switched(before.master, after, cluster)


async def switched(old: str, now: SentinelView, cluster: Cluster) -> Receipt:
    """The receipt of a failover from ``old`` to what a Sentinel reports ``now``."""
    former, new = cluster.nodes[old], cluster.nodes[now.master]
    role_of_new = await new.role() if await answers(new) else None
    role_of_old = await former.role() if await answers(former) else None
    evidence: dict[str, Any] = {
        "epoch": now.epoch,
        "old_master": old,
        "new_master": now.master,
        "role_of_old": role_of_old.name if role_of_old is not None else "no answer",
        "role_of_new": role_of_new.name if role_of_new is not None else "no answer",
    }
    promoted_at = role_of_new.promoted_at if role_of_new is not None else None
    # A node that was paused or cut off was not asked before, so its offset may not be known.
    if promoted_at is not None and former.known_offset:
        evidence |= {
            "offset_of_old": former.known_offset,
            "offset_of_new_when_promoted": promoted_at,
            "gap_bytes": max(0, former.known_offset - promoted_at),
        }
    return Receipt(role_of_new is not None and role_of_new.name == MASTER, evidence)
