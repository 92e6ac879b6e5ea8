"""``fill_memory``: other data fills the memory of nodes; they refuse to write, or evict the lock's key.

Locks share a server with a cache, and the cache grows. What happens is up to the server: `cluster.config` has
its `maxmemory` and its `maxmemory-policy`. With `noeviction` it refuses commands that need memory (OOM) until
``free_memory``. With another policy it evicts keys; the fault writes until the lock's key is among them, and
then makes some room, so that the next keys stay.

The lab writes keys of its own, past all links. With `noeviction` the receipt is how much memory is used, and
that a write is refused. Otherwise it is the lock's key before, with the rest of its time to live, that it is
gone, and how many keys the server says that it has evicted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lab.faults.base import (
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
from lab.faults.evict import NOT_KEPT, PATIENCE_S, POLL_S, first_there
from lab.scenario.fault_step import Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import Nodes
from lab.substrates.base import Capability, Cluster, Node

PARTS: Final = 8
"""A key of the lab's takes this part of the memory, so that few have to be drawn until the lock's key is."""
ROUNDS: Final = 40
"""How many times the memory is written anew, at most, until the lock's key is evicted."""
CACHED_MS: Final = 3_600_000
"""How long the lab's keys last where keys are evicted: much longer than a lease, as in a cache."""


class FillMemory(Fault):
    """Fill the memory of nodes with other data: they refuse to write, or evict the lock's key."""

    KEY = "fill_memory"
    EXAMPLE = "{nodes: [A]}"
    NEEDS = Capability.FILL_MEMORY
    ENDED_BY = "free_memory"
    SIGN = Sign("key", "memory full")

    nodes: Nodes
    """The nodes whose memory is filled."""

    @property
    def clause(self) -> str:
        """Whose memory."""
        return f"the memory of {named(self.nodes)} is full"

    @property
    def ended_clause(self) -> str:
        """There is room."""
        return f"{named(self.nodes)} has memory again"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes that are down, have no limit, or are full already."""
        yield from state.unless_down(self.nodes)
        names = state.shape.names(self.nodes)
        if "maxmemory" not in state.shape.config:
            expected = "a limit, such as cluster.config: {maxmemory: 8mb}"
            yield ("nodes",), problem("these nodes use as much memory as there is", expected)
        elif full := [name for name in names if name in state.full]:
            seen = f"the memory of {', '.join(full)} is full already"
            yield ("nodes",), problem(seen, "a free_memory before it")
        state.full |= set(names)

    def target(self, cluster: Cluster) -> Target:
        """The memory of the nodes."""
        names = node_names(self.nodes, cluster)
        return Target(f"memory of {','.join(names)}", names)

    def breaks(self, tolerance: Tolerance) -> str | None:
        """A server that evicts keys does not keep them for their time to live."""
        return NOT_KEPT if tolerance.evicts else None

    def observed_before(self, cluster: Cluster) -> tuple[str, ...]:
        """The nodes, with the keys that they may lose."""
        return node_names(self.nodes, cluster)

    def observed_after(self) -> tuple[str, ...]:
        """The nodes: clients get no message of an eviction."""
        return () if self.nodes == "all" else self.nodes

    async def inject(self, cluster: Cluster) -> Receipt:
        """Fill each of them."""
        names = node_names(self.nodes, cluster)
        shown = await all_at_once(_fill(cluster.nodes[name], cluster.lock_keys) for name in names)
        return together(dict(zip(names, shown, strict=True)))


async def _fill(node: Node, keys: Sequence[str]) -> tuple[bool, dict[str, Any]]:
    if not await answers(node):
        return False, {"probe_around_ms": None}
    memory = await node.memory()
    evidence: dict[str, Any] = {"maxmemory_bytes": memory.limit_bytes, "policy": memory.policy}
    if not memory.limit_bytes:
        return False, evidence
    evidence["used_before_bytes"] = memory.used_bytes
    if memory.evicts:
        return await _fill_until_evicted(node, keys, evidence)
    return await _fill_until_refused(node, evidence)


async def _fill_until_refused(node: Node, evidence: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Write until much more is used than allowed: what a server frees of its buffers then is too little."""
    written = 0
    while (memory := await node.memory()).used_bytes <= memory.limit_bytes and written <= 2 * PARTS:
        size = memory.limit_bytes // PARTS
        await node.ballast(written, size, None)
        written += 1
    refused = not await node.ballast(written, 1, None)
    evidence |= {
        "used_after_bytes": (await node.memory()).used_bytes,
        "keys_written": written,
        "write": "OOM" if refused else "answered",
    }
    return refused, evidence


async def _fill_until_evicted(
    node: Node, keys: Sequence[str], evidence: dict[str, Any]
) -> tuple[bool, dict[str, Any]]:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + PATIENCE_S
    while (before := await first_there(node, keys)) is None:
        if loop.time() > give_up:
            return False, evidence | {"key_before": "none"}
        await asyncio.sleep(POLL_S)
    key, stored = before
    evicted_before = (await node.memory()).evicted_keys
    written, size = 0, evidence["maxmemory_bytes"] // PARTS
    while (there := await node.has(key)) and written < ROUNDS * PARTS:
        await node.ballast(written, size, CACHED_MS)
        written += 1
    evicted = (await node.memory()).evicted_keys - evicted_before
    await node.free_ballast(written, keep=PARTS // 4)
    evidence |= {
        "key": key,
        "value": stored.value,
        "left_before_ms": stored.left_ms,
        "key_after": "there" if there else "none",
        "keys_written": written,
        "keys_evicted": evicted,
        "used_after_bytes": (await node.memory()).used_bytes,
    }
    return not there and evicted > 0, evidence
