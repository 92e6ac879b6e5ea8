"""``power_cut``: nodes are killed, and their files lose what was not synced to disk."""

from __future__ import annotations

from collections.abc import Iterator

from lab.faults.base import Tolerance, named
from lab.faults.down import NOT_DURABLE, DownFault, Shown
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.types import Nodes
from lab.substrates.base import Capability, Node


class PowerCut(DownFault):
    """Cut the power of nodes: they are killed, and their files lose what was not synced to disk."""

    KEY = "power_cut"
    EXAMPLE = "{nodes: [C]}"
    NEEDS = Capability.POWER_CUTS
    TOOLS = ("sync-shim", "LD_PRELOAD")

    nodes: Nodes
    """The nodes whose power is cut."""

    @property
    def clause(self) -> str:
        """Which nodes lose power."""
        return f"{named(self.nodes)} {'lose' if self.several else 'loses'} power"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse nodes that are down, or keep nothing on disk."""
        yield from super().impossible(state)
        if state.shape.persistence == "none":
            yield ("nodes",), problem("these nodes keep nothing on disk", "persistence, or a crash instead")

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break durability, unless every write is synced before it is acknowledged."""
        return None if tolerance.persistence == "aof-always" else NOT_DURABLE

    async def take_down(self, node: Node) -> Shown:
        """Kill it, and truncate its files to what was synced."""
        gone, evidence = await super().take_down(node)
        if not gone:
            return False, evidence
        before = await node.lose_unsynced()
        after = await node.disk()
        evidence |= {
            "written_bytes": before.written,
            "synced_bytes": before.synced,
            "dropped_bytes": before.written - after.written,
        }
        return after.written == before.synced, evidence
