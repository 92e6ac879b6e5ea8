"""``crash``: nodes are killed at once (SIGKILL)."""

from __future__ import annotations

from lab.faults.base import named, node_names
from lab.faults.down import DownFault
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster


class Crash(DownFault):
    """Kill nodes at once (SIGKILL). What they wrote to their files survives, synced or not."""

    KEY = "crash"
    FITS_SENTINELS = True
    EXAMPLE = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are killed."""

    @property
    def clause(self) -> str:
        """Which nodes end."""
        return f"{named(self.nodes)} {'crash' if self.several else 'crashes'}"

    def observed_before(self, cluster: Cluster) -> tuple[str, ...]:
        """All of them."""
        return node_names(self.nodes, cluster)
