"""The base class of faults that take nodes down; each node can be restarted alone.

A crash (SIGKILL) loses nothing that was written to a file, since the page cache outlives the process. A
power cut loses what was not synced. The receipt is that the process is gone and nothing answers on its port,
and for a power cut how many bytes the files lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    Fault,
    Receipt,
    Target,
    Tolerance,
    all_at_once,
    answers,
    named,
    node_names,
    server_named,
    together,
)
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.types import Nodes
from lab.substrates.base import Capability, Cluster, Node

NOT_DURABLE: Final = "durable nodes"

Shown = tuple[bool, dict[str, Any]]


class DownFault(Fault):
    """Nodes that are down until they are started again."""

    ENDED_BY = "restart"
    DRAWN = Drawing("nodes", stops=True)
    SIGN = Sign("down")
    NEEDS = Capability.STOP_NODES

    nodes: Nodes
    """The nodes that are hit."""

    @property
    def several(self) -> bool:
        """Whether more than one node is hit, for the verb of a sentence."""
        return self.nodes == "all" or len(self.nodes) > 1

    @property
    def ended_clause(self) -> str:
        """The nodes are up."""
        return f"{named(self.nodes)} {'are' if self.several else 'is'} back"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes that are down."""
        yield from state.unless_down(self.nodes)
        state.down |= set(state.shape.names(self.nodes))

    def target(self, cluster: Cluster) -> Target:
        """The nodes."""
        names = node_names(self.nodes, cluster)
        return Target(f"node{'s' if len(names) > 1 else ''} {', '.join(names)}", names)

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break durability only if the nodes keep nothing, or not each write: no file is lost."""
        return NOT_DURABLE if tolerance.persistence in ("none", "rdb") else None

    def parts(self, cluster: Cluster) -> tuple[Fault, ...]:
        """One for each node, since they come back one by one."""
        return tuple(self.model_copy(update={"nodes": (name,)}) for name in node_names(self.nodes, cluster))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Take each of them down, and observe what remains of it."""
        names = node_names(self.nodes, cluster)
        shown = await all_at_once(self.take_down(server_named(name, cluster)) for name in names)
        return together(dict(zip(names, shown, strict=True)))

    async def take_down(self, node: Node) -> Shown:
        """Kill one node; return whether it is gone, and the evidence."""
        evidence = await life_before(node)
        await node.kill()
        return await is_gone(node, evidence)


async def life_before(node: Node) -> dict[str, Any]:
    """Evidence of a node before it goes down."""
    if not await answers(node):
        return {"before": "no answer"}
    life = await node.life()
    await node.role()  # records its replication offset, with which a later promotion is compared
    return {"run_id": life.run_id, "process_id": life.process_id, "keys_before": life.keys}


async def is_gone(node: Node, evidence: dict[str, Any]) -> Shown:
    """Whether its process is gone and nothing answers on its port, with the evidence."""
    probe = await node.probe(AROUND_TIMEOUT_S)
    evidence = evidence | {
        "process": "still there" if node.alive else "gone",
        "probe": "answered" if probe.reached else "refused",
    }
    return not node.alive and not probe.reached, evidence
