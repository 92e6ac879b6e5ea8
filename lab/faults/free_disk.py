"""``free_disk``: the syncs to a node's disk end again. The receipt: none is held, and a write is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.faults.base import answers
from lab.faults.freeing import Free
from lab.scenario.impossible import Found, StepState, are
from lab.scenario.problems import problem
from lab.substrates.base import Node

FREE_S: Final = 2.0
"""How long a sync that was held may take to end."""
POLL_S: Final = 0.005


class FreeDisk(Free):
    """Let the syncs to the disk of nodes end again."""

    KEY = "free_disk"
    EXAMPLE = "{nodes: [C]}"
    SAYS = "lets the {} go on"
    TURN = 0  # before nodes are started, since a server that starts syncs too
    OF = "disk"
    NONE = "disks, since none stalled"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes whose disk does not stall."""
        names = state.shape.names(self.nodes)
        if not state.stalled & set(names):
            yield ("nodes",), problem(f"the disk of {are(names)} not stalled", "a stall_disk before it")
        state.stalled -= set(names)

    @classmethod
    async def free(cls, node: Node) -> tuple[bool, dict[str, Any]]:
        """Let its syncs end, and see that a write is answered."""
        held = await node.held_syncs()
        await node.stall_disk(False)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + FREE_S
        while (left := await node.held_syncs()) and node.alive and loop.time() < give_up:
            await asyncio.sleep(POLL_S)
        evidence: dict[str, Any] = {"syncs_held_before": held, "syncs_held_after": left}
        if not await answers(node):  # it is down, or paused
            return True, evidence | {"write": "no server to answer it"}
        try:
            await node.touch()
        except UnknownOutcome:
            return False, evidence | {"write": "no answer"}
        return left == 0, evidence | {"write": "answered"}
