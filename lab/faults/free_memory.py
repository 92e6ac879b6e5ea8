"""``free_memory``: the data that filled nodes is removed. The receipt: less memory is used than allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.faults.base import answers
from lab.faults.fill_memory import PARTS, ROUNDS
from lab.faults.freeing import Free
from lab.scenario.impossible import Found, StepState, are
from lab.scenario.problems import problem
from lab.substrates.base import Node


class FreeMemory(Free):
    """Remove the data with which `fill_memory` has filled nodes."""

    KEY = "free_memory"
    EXAMPLE = "{nodes: [A]}"
    SAYS = "frees the {}"
    TURN = 2  # once all nodes are up
    OF = "memory"
    NONE = "no memory, since none was full"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes whose memory is not full."""
        names = state.shape.names(self.nodes)
        if not state.full & set(names):
            seen = f"the memory of {are(names)} not full"
            yield ("nodes",), problem(seen, "a fill_memory before it")
        state.full -= set(names)

    @classmethod
    async def free(cls, node: Node) -> tuple[bool, dict[str, Any]]:
        """Remove the lab's own keys from it."""
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
