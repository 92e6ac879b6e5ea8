"""``reshard``: the slot of the lock's key is being moved to another master of a Redis Cluster.

As redis-cli does it: the new master imports the slot (``CLUSTER SETSLOT IMPORTING``), the old one migrates it
(``MIGRATING``), and the keys are moved (``MIGRATE``). Until ``assign_slot`` the old master answers ``ASK`` to
a command on a key that it does not have any more. The receipt: both say of themselves that the slot is being
moved, and how many keys of it each of them has before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from lab.errors import UnknownOutcome
from lab.faults.base import Fault, Receipt, Target, Tolerance
from lab.faults.evict import NOT_KEPT
from lab.scenario.fault_step import Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import NodeName
from lab.substrates.base import Capability, Cluster


class Reshard(Fault):
    """Begin to move the slot of the lock's key to another master of a Redis Cluster, until `assign_slot`."""

    KEY = "reshard"
    EXAMPLE = "{to: B}"
    NEEDS = Capability.REDIS_CLUSTER
    ENDED_BY = "assign_slot"
    SIGN = Sign("key", "slot moves")

    to: NodeName
    """The master that gets the slot."""
    keys: Literal["move", "stay"] = "move"
    """Whether its keys are moved as well; `stay`: they are left behind, and lost when it is assigned."""

    def pack(self, fields: dict[str, Any]) -> Any:
        """``keys`` is left out where they are moved."""
        return {"to": self.to} if self.keys == "move" else fields

    @property
    def clause(self) -> str:
        """Where to, and whether with its keys."""
        return f"the slot of the key is being moved to {self.to}" + (
            "" if self.keys == "move" else ", without its keys"
        )

    @property
    def ended_clause(self) -> str:
        """It serves the slot."""
        return f"{self.to} serves the slot of the key"

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Keys that are left behind are lost."""
        return NOT_KEPT if self.keys == "stay" else None

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse it outside of a Redis Cluster, to a node that can't serve, and two moves at once."""
        if not state.shape.sharded:
            yield ("to",), problem("the nodes are no Redis Cluster, so there are no slots", "sharded: true")
        elif state.moving:
            seen = f"the slot is being moved to {state.moving} already"
            yield ("to",), problem(seen, f"assign_slot: {{to: {state.moving}}} before it")
        elif self.to in state.down | state.paused:
            yield ("to",), problem(f"{self.to} is down or paused", "a master that runs")
        state.moving = self.to

    def target(self, cluster: Cluster) -> Target:
        """The slot."""
        return Target(f"slot of the key to {self.to}", (self.to,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Open the slot, move its keys, and ask both masters."""
        old = (await cluster.shards[self.to].view()).master
        if old in ("", self.to):
            who = f"{self.to} itself" if old else "no node"
            raise UnknownOutcome(f"the slot of the key can't be moved to {self.to}: {who} serves it")
        giving, taking = cluster.shards[old], cluster.shards[self.to]
        before = [await giving.keys_of_slot(), await taking.keys_of_slot()]
        await cluster.open_slot(self.to, with_keys=self.keys == "move")
        after = [await giving.keys_of_slot(), await taking.keys_of_slot()]
        moves = [await giving.moves_slot(), await taking.moves_slot()]
        moved = after == ([0, sum(before)] if self.keys == "move" else before)
        evidence = {
            "from": old,
            "to": self.to,
            "keys_before": before,
            "keys_after": after,
            "slot_there": moves[0],
            "slot_here": moves[1],
        }
        return Receipt(moved and moves == [f"to {self.to}", f"from {old}"], evidence)
