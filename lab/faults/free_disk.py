"""``free_disk``: the syncs to a node's disk end again. The receipt: none is held, and a write is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.faults.base import Receipt, Target, all_at_once, answers, node_names, together
from lab.faults.nemesis import End, Nemesis
from lab.scenario.impossible import Found, StepState, are
from lab.scenario.problems import problem
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster, Node

FREE_S: Final = 2.0
"""How long a sync that was held may take to end."""
POLL_S: Final = 0.005


class FreeDisk(End):
    """Let the syncs to the disk of nodes end again."""

    KEY = "free_disk"
    EXAMPLE = "{nodes: [C]}"
    SAYS = "lets the {} go on"
    TURN = 0

    nodes: Nodes
    """The nodes whose syncs end again."""

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes whose disk does not stall."""
        names = state.shape.names(self.nodes)
        if not state.stalled & set(names):
            yield ("nodes",), problem(f"the disk of {are(names)} not stalled", "a stall_disk before it")
        state.stalled -= set(names)

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Free the disks that stall among these nodes."""
        names = node_names(self.nodes, nemesis.cluster)
        receipts, freed = [], []
        for fault in nemesis.lasting(self.KEY):
            if ends := tuple(end for end in fault.target.ends if end in names):
                target = Target(f"disk of {','.join(ends)}", ends)
                action = partial(_free_all, ends, nemesis.cluster)
                receipts.append(await nemesis.close(fault, self.KEY, target, action))
                freed.append(target.words)
        return "; ".join(freed) or "disks, since none stalled", all(one.confirmed for one in receipts)

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Free every disk, before nodes are started, since a server that starts syncs too."""
        await cls(nodes="all").end(nemesis)


async def _free_all(names: tuple[str, ...], cluster: Cluster) -> Receipt:
    shown = await all_at_once(_free(cluster.nodes[name]) for name in names)
    return together(dict(zip(names, shown, strict=True)))


async def _free(node: Node) -> tuple[bool, dict[str, Any]]:
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
