"""``free_memory``: the data that filled nodes is removed. The receipt: less memory is used than allowed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.faults.base import Receipt, Target, all_at_once, answers, node_names, together
from lab.faults.fill_memory import PARTS, ROUNDS
from lab.faults.nemesis import End, Nemesis
from lab.scenario.impossible import Found, StepState, are
from lab.scenario.problems import problem
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster, Node


class FreeMemory(End):
    """Remove the data with which `fill_memory` has filled nodes."""

    KEY = "free_memory"
    EXAMPLE = "{nodes: [A]}"
    SAYS = "frees the {}"
    TURN = 2

    nodes: Nodes
    """The nodes that have memory again."""

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes whose memory is not full."""
        names = state.shape.names(self.nodes)
        if not state.full & set(names):
            seen = f"the memory of {are(names)} not full"
            yield ("nodes",), problem(seen, "a fill_memory before it")
        state.full -= set(names)

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Free the nodes that are full among these."""
        names = node_names(self.nodes, nemesis.cluster)
        receipts, freed = [], []
        for fault in nemesis.lasting(self.KEY):
            if ends := tuple(end for end in fault.target.ends if end in names):
                target = Target(f"memory of {','.join(ends)}", ends)
                action = partial(_free_all, ends, nemesis.cluster)
                receipts.append(await nemesis.close(fault, self.KEY, target, action))
                freed.append(target.words)
        return "; ".join(freed) or "no memory, since none was full", all(one.confirmed for one in receipts)

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Free every node, once all of them are up."""
        await cls(nodes="all").end(nemesis)


async def _free_all(names: tuple[str, ...], cluster: Cluster) -> Receipt:
    shown = await all_at_once(_free(cluster.nodes[name]) for name in names)
    return together(dict(zip(names, shown, strict=True)))


async def _free(node: Node) -> tuple[bool, dict[str, Any]]:
    if not await answers(node):
        return True, {"memory": "no server to free it"}
    removed = await node.free_ballast(ROUNDS * PARTS)
    memory = await node.memory()
    evidence = {
        "keys_removed": removed,
        "used_bytes": memory.used_bytes,
        "maxmemory_bytes": memory.limit_bytes,
    }
    return memory.used_bytes <= memory.limit_bytes, evidence
