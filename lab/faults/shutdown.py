"""``shutdown``: nodes exit on request, with exit code 0."""

from __future__ import annotations

from lab.faults.base import Tolerance, named, node_names
from lab.faults.down import NOT_DURABLE, DownFault, Shown, is_gone, life_before
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster, Node


class Shutdown(DownFault):
    """Shut nodes down: they sync what they keep, or write a snapshot, and exit."""

    KEY = "shutdown"
    EXAMPLE = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are shut down."""

    @property
    def clause(self) -> str:
        """Which nodes end in order."""
        return f"{named(self.nodes)} {'are' if self.several else 'is'} shut down"

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break durability only if the nodes keep nothing: with `rdb` a server that ends saves everything."""
        return NOT_DURABLE if tolerance.persistence == "none" else None

    def observed_before(self, cluster: Cluster) -> tuple[str, ...]:
        """All of them."""
        return node_names(self.nodes, cluster)

    async def take_down(self, node: Node) -> Shown:
        """Shut it down; it must exit with code 0."""
        evidence = await life_before(node)
        code = await node.shut_down()
        gone, evidence = await is_gone(node, evidence | {"exit_code": code})
        return gone and code == 0, evidence
