"""``assign_slot``: a slot that is being moved is given to its new master (``CLUSTER SETSLOT NODE``).

From then on others answer ``MOVED``. The receipt: every node that runs names the new master. Keys that were
left behind are lost: the old master deletes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.faults.base import Receipt, Target, is_running
from lab.faults.nemesis import End, Nemesis, Open
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import NodeName
from lab.substrates.base import Cluster, Shard

ASSIGNED_WITHIN_S: Final = 10.0
"""How long it may take until every node has heard of it; it is some 100 ms."""
POLL_S: Final = 0.02


class AssignSlot(End):
    """Give the slot of the lock's key to the master that it is being moved to."""

    KEY = "assign_slot"
    EXAMPLE = "{to: B}"
    SAYS = "assigns {}"
    TURN = 5  # once all nodes are up and reach each other

    to: NodeName
    """The master that gets the slot."""

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a slot that is not being moved there."""
        if state.moving != self.to:
            yield ("to",), problem(f"no slot is being moved to {self.to}", "a reshard before it")
        state.moving = ""

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Assign it."""
        return await _assign(
            [one for one in nemesis.lasting(self.KEY) if self.to in one.target.ends], nemesis
        )

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Assign every slot that is being moved."""
        await _assign(nemesis.lasting(cls.KEY), nemesis)


async def _assign(moves: list[Open], nemesis: Nemesis) -> tuple[str, bool]:
    receipts = [
        await nemesis.close(
            move,
            AssignSlot.KEY,
            Target(f"slot of the key to {to}", (to,)),
            partial(_assigned, to, nemesis.cluster),
        )
        for move in moves
        for to in move.target.ends
    ]
    return "; ".join(move.target.words for move in moves) or "no slot", all(one.confirmed for one in receipts)


async def _assigned(to: str, cluster: Cluster) -> Receipt:
    """Assign it; confirmed when every node that runs says so."""
    taking = cluster.shards[to]
    keys = await taking.keys_of_slot()
    await cluster.assign_slot(to)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + ASSIGNED_WITHIN_S
    while True:
        running = [shard for shard in cluster.shards.values() if is_running(shard)]
        named: dict[str, Any] = {shard.name: await _master_by(shard) for shard in running}
        agreed = set(named.values()) == {to}
        if agreed or loop.time() > give_up:
            break
        await asyncio.sleep(POLL_S)
    evidence = {"keys": [keys, await taking.keys_of_slot()], "served_by": named}
    return Receipt(agreed, evidence)


async def _master_by(shard: Shard) -> str | None:
    try:
        return (await shard.view()).master
    except UnknownOutcome:
        return None
