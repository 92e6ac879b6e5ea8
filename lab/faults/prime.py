"""``prime``: makes the next write of nodes stay unsynced for most of a second.

With ``appendfsync everysec`` Redis syncs as soon as there is something to sync and the second of its clock
differs from that of the last sync. After an idle time a write is therefore synced at once. A write just after
the second has changed uses up the sync of that second, so the next write certainly has to wait. It is no
fault: nothing has to be healed. Its receipt is that the first write was synced in the same second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from lab.faults.base import Receipt, ms, node_names, together
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.step_base import StepModel
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster, Node

S_NS: Final = 1_000_000_000
EARLY_NS: Final = 100_000_000
"""How much of a second may have passed when it is primed: the rest is for the next steps."""
AFTER_BOUNDARY_NS: Final = 5_000_000
TRIES: Final = 4
POLL_S: Final = 0.002


class Prime(StepModel):
    """Bring nodes just past a sync to disk: with `aof-everysec` the next write stays unsynced a while."""

    KEY = "prime"
    EXAMPLE = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are primed."""

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes that are down, or do not sync once a second."""
        yield from state.unless_down(self.nodes)
        if state.shape.persistence != "aof-everysec":
            seen = f"with persistence {state.shape.persistence} no write waits for the next sync"
            yield ("nodes",), problem(seen, "cluster.persistence: aof-everysec")

    async def prime(self, cluster: Cluster) -> Receipt:
        """Prime each node; confirmed if each has synced early in the current second."""
        names = node_names(self.nodes, cluster)
        shown = await asyncio.gather(*(_prime_one(cluster.nodes[name]) for name in names))
        return together(dict(zip(names, shown, strict=True)))


async def _prime_one(node: Node) -> tuple[bool, dict[str, Any]]:
    evidence: dict[str, Any] = {}
    for tried in range(1, TRIES + 1):
        # What is unsynced now is synced as the next second begins, and that second has no other sync.
        if not await _is_all_synced(node):
            await _next_second(node)
        await _next_second(node)
        second = await _second(node)
        before = await node.disk()
        await node.touch()
        synced = await _is_synced(node, before.written)
        into_ns = await _into_second_ns(node)
        evidence = {"tries": tried, "synced": synced, "into_second_ms": ms(into_ns)}
        if synced and into_ns < EARLY_NS and second == await _second(node):
            return True, evidence
    return False, evidence


async def _next_second(node: Node) -> None:
    await asyncio.sleep((S_NS - await _into_second_ns(node) + AFTER_BOUNDARY_NS) / 1e9)


async def _is_all_synced(node: Node) -> bool:
    disk = await node.disk()
    return disk.synced == disk.written


async def _is_synced(node: Node, more_than: int) -> bool:
    """Whether all that is written is synced within ``EARLY_NS`` of the second."""
    while await _into_second_ns(node) < EARLY_NS:
        disk = await node.disk()
        if disk.written > more_than and disk.synced == disk.written:
            return True
        await asyncio.sleep(POLL_S)
    return False


async def _into_second_ns(node: Node) -> int:
    return await node.now_ns() % S_NS


async def _second(node: Node) -> int:
    return await node.now_ns() // S_NS
