"""``shutdown``: nodes end in order, by themselves and with exit code 0, when they are asked to."""

from __future__ import annotations

from lab.faults.base import node_names
from lab.faults.down import DownFault, Shown, is_gone, life_before
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster, Node


class Shutdown(DownFault):
    """Shut nodes down in order: they sync what they keep, and end."""

    KEY = "shutdown"
    EXAMPLE = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are shut down."""

    def looked_at_before(self, cluster: Cluster) -> tuple[str, ...]:
        """All of them: what they hold goes with them."""
        return node_names(self.nodes, cluster)

    async def take_down(self, node: Node) -> Shown:
        """Ask it to end; it must do so with exit code 0."""
        evidence = await life_before(node)
        code = await node.shut_down()
        gone, evidence = await is_gone(node, evidence | {"exit_code": code})
        return gone and code == 0, evidence
