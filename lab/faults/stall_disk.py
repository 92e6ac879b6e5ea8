"""``stall_disk``: no sync to a node's disk ends until the disk is free again.

With ``aof-always`` a Redis syncs before it sends the replies of a round of its loop. It executes a command
that writes, and then does nothing else and sends no reply until the sync ends. With ``aof-everysec`` a thread
waits for the disk: the server goes on, and a power cut would lose all that it has written since.

The receipt is a key of the lab's own that is written past all links: with ``aof-always`` there is no reply
while a sync is held, and one as soon as the disk is free for a moment. After that the next write is the first
one to be held. With ``aof-everysec`` a sync is held, and the rest of the file stays unsynced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.faults.base import (
    PROBE_TIMEOUT_S,
    Fault,
    Receipt,
    Target,
    Tolerance,
    all_at_once,
    answers,
    named,
    node_names,
    together,
)
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import Nodes
from lab.substrates.base import Capability, Cluster, Node

HELD_S: Final = 3.0
"""How long a sync may take to begin: Redis syncs once a second, and a busy machine is late."""
POLL_S: Final = 0.005


class StallDisk(Fault):
    """Let no sync to the disk of nodes end: with `aof-always` they answer no write meanwhile."""

    KEY = "stall_disk"
    EXAMPLE = "{nodes: [C]}"
    NEEDS = Capability.STALL_DISKS
    TOOLS = ("sync-shim", "LD_PRELOAD")
    ENDED_BY = "free_disk"
    DRAWN = Drawing("nodes", stops=True)
    SIGN = Sign("link", "wait for the disk")

    nodes: Nodes
    """The nodes whose disk stalls."""

    @property
    def clause(self) -> str:
        """Whose disk."""
        return f"the disk of {named(self.nodes)} stalls"

    @property
    def ended_clause(self) -> str:
        """It writes."""
        return f"the disk of {named(self.nodes)} writes again"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes that are down, keep nothing on disk, or wait for their disk already."""
        yield from state.unless_down(self.nodes)
        names = state.shape.names(self.nodes)
        if state.shape.persistence == "none":
            yield ("nodes",), problem("these nodes keep nothing on disk", "another cluster.persistence")
        elif state.shape.persistence == "rdb":
            seen = "with persistence rdb a server does not wait for its disk, another process does"
            yield ("nodes",), problem(seen, "cluster.persistence: aof-everysec or aof-always")
        elif stalled := [name for name in names if name in state.stalled]:
            yield (
                ("nodes",),
                problem(f"the disk of {', '.join(stalled)} stalls already", "a free_disk before it"),
            )
        state.stalled |= set(names)

    def target(self, cluster: Cluster) -> Target:
        """The disks of the nodes."""
        names = node_names(self.nodes, cluster)
        return Target(f"disk of {','.join(names)}", names)

    def breaks(self, tolerance: Tolerance) -> str | None:
        """A server that syncs always stands still, as in a pause."""
        return "bounded process pauses" if tolerance.persistence == "aof-always" else None

    async def inject(self, cluster: Cluster) -> Receipt:
        """Let each disk stall, and see a write that has to wait for it."""
        names = node_names(self.nodes, cluster)
        shown = await all_at_once(_stall(cluster.nodes[name]) for name in names)
        return together(dict(zip(names, shown, strict=True)))


async def _stall(node: Node) -> tuple[bool, dict[str, Any]]:
    if not await answers(node):
        return False, {"probe_around_ms": None}
    await node.stall_disk(True)
    write = asyncio.ensure_future(node.touch())
    done, _ = await asyncio.wait((write,), timeout=PROBE_TIMEOUT_S)
    held = await _held(node)
    evidence: dict[str, Any] = {"write": "answered" if done else "no answer", "syncs_held": held}
    if done:
        write.result()
        disk = await node.disk()
        evidence["unsynced_bytes"] = disk.written - disk.synced
        return held > 0 and disk.synced < disk.written, evidence
    # The server is to be there for the commands that come before the next write.
    await node.stall_disk(False)
    try:
        await write
    except UnknownOutcome:
        evidence["write_when_free"] = "no answer"
        return False, evidence
    await node.stall_disk(True)
    evidence["write_when_free"] = "answered"
    return held > 0, evidence


async def _held(node: Node) -> int:
    """How many syncs are held; waits until one is, for a while."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + HELD_S
    while not (held := await node.held_syncs()) and loop.time() < give_up:
        await asyncio.sleep(POLL_S)
    return held
