"""``evict``: keys go from nodes before their time, as by eviction, a FLUSHDB, or a job that cleans up.

No client of the lock deletes them: the lab does, past all links. If no key is there it waits a while for one.
The receipt is the key before, with its value and the rest of its time to live, and that the node removed it
and does not have that value any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from lab.faults.base import Fault, Receipt, Target, all_at_once, named, node_names, together
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import Nodes, Text
from lab.substrates.base import Capability, Cluster, Node, Stored

NOT_KEPT: Final = "keys kept for their TTL"
PATIENCE_S: Final = 2.0
"""How long it waits for a key that could be removed."""
POLL_S: Final = 0.005


class Evict(Fault):
    """Remove the lock's key from nodes, though its time to live is not over and no client deletes it."""

    KEY = "evict"
    EXAMPLE = "{nodes: [D]}"
    NEEDS = Capability.REMOVE_KEYS
    BREAKS = NOT_KEPT
    PASSES = True
    DRAWN = Drawing("nodes", waits_ns=int(PATIENCE_S * 1e9))
    SIGN = Sign("key", "key removed")

    nodes: Nodes
    """The nodes that lose it."""
    key: Text | None = None
    """The key as it is called on the nodes; without it, the lock's."""
    everything: Literal[True] | None = Field(default=None, alias="all")
    """Every key of the nodes goes, as by a FLUSHDB."""

    @property
    def clause(self) -> str:
        """What goes."""
        return f"{named(self.nodes)} loses {'every key' if self.everything else 'the key'}"

    @model_validator(mode="after")
    def _one_or_all(self) -> Self:
        if self.key is not None and self.everything:
            raise problem(
                "a key is named, and all keys are to go", "one of them, as in {nodes: [D], all: true}"
            )
        return self

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes that are down."""
        yield from state.unless_down(self.nodes)

    def target(self, cluster: Cluster) -> Target:
        """The nodes, and what goes."""
        names = node_names(self.nodes, cluster)
        what = "all keys" if self.everything else "the key" if self.key is None else self.key
        return Target(f"{what} on {','.join(names)}", names)

    async def inject(self, cluster: Cluster) -> Receipt:
        """Remove it from each node, and look before and after."""
        names = node_names(self.nodes, cluster)
        keys = (self.key,) if self.key is not None else cluster.lock_keys
        shown = await all_at_once(self._remove(cluster.nodes[name], keys) for name in names)
        return together(dict(zip(names, shown, strict=True)))

    async def _remove(self, node: Node, keys: Sequence[str]) -> tuple[bool, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PATIENCE_S
        while (before := await first_there(node, keys)) is not None or loop.time() < give_up:
            if before is not None:
                key, stored = before
                # Also if all go: each by its name is seen by those who watch it.
                removed = sum([await node.remove(one) for one in (keys if self.everything else (key,))])
                if self.everything:
                    removed += await node.remove(None)
                if removed:  # else its client was quicker
                    after = await node.stored(key)
                    # A client may have set it again since, with a value of its own.
                    gone = after is None or after.value != stored.value
                    return gone, {
                        "key": key,
                        "value": stored.value,
                        "left_before_ms": stored.left_ms,
                        "removed": removed,
                        "value_after": None if after is None else after.value,
                    }
            await asyncio.sleep(POLL_S)
        return False, {"key_before": "none"}

    def observed_before(self, cluster: Cluster) -> tuple[str, ...]:
        """The nodes, with the keys that they will lose."""
        return node_names(self.nodes, cluster)


async def first_there(node: Node, keys: Sequence[str]) -> tuple[str, Stored] | None:
    """The first of these keys that is on the node."""
    for key in keys:
        if (stored := await node.stored(key)) is not None:
            return key, stored
    return None
