"""``hold``: packets are kept in the network, and delivered when the link is healed."""

from __future__ import annotations

from typing import Literal

from lab.faults.base import Receipt, all_at_once
from lab.faults.links import LinkFault, links_are_broken
from lab.scenario.fault_step import Drawing, Sign
from lab.substrates.base import Capability, Cluster


class Hold(LinkFault):
    """Keep packets in the network; they arrive when the hold is healed."""

    KEY = "hold"
    EXAMPLE = "{client: alice, nodes: all, direction: replies}"
    NEEDS = Capability.HOLD_LINKS
    BREAKS = "bounded network delay"
    DRAWN = Drawing("links", keeps=True)
    SIGN = Sign("link", "held back")

    direction: Literal["requests", "replies"] = "replies"
    """Which packets are held: requests of the client, or replies to it."""

    @property
    def clause(self) -> str:
        """What is held."""
        return f"{self.packets(self.direction)} are held up"

    def words(self, far: str) -> str:
        """Which packets are held."""
        return f"{'requests of' if self.direction == 'requests' else 'replies to'} {self.near} ({far})"

    async def inject(self, cluster: Cluster) -> Receipt:
        """Hold every link, then probe each of them."""
        links = self.links(cluster)
        await all_at_once(link.hold(self.direction) for link in links)
        return await links_are_broken(links, self.direction, cluster)
