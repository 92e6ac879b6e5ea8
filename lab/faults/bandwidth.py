"""``bandwidth``: the rate of a link is limited until it is healed."""

from __future__ import annotations

import asyncio
from typing import Final

from pydantic import Field

from lab.faults.base import AROUND_TIMEOUT_S, Receipt, Tolerance
from lab.faults.links import LinkFault
from lab.faults.slow import quick, quickest, round_trips_changed
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.types import KbPerS
from lab.substrates.base import Capability, Cluster, Direction

NARROW_SHARE: Final = 0.5
"""The share of the time implied by a rate that must be measured: the first packets may pass in a burst."""
NARROW_PROBE_S: Final = 0.3
"""How long a probe through a limited link is to take, in each direction."""
PAYLOAD_MAX_BYTES: Final = 1_000_000


class Bandwidth(LinkFault):
    """Limit the rate of a link until it is healed."""

    KEY = "bandwidth"
    EXAMPLE = "{client: alice, store: true, rate: 10KB/s}"
    NEEDS = Capability.NARROW_LINKS
    DRAWN = Drawing("links", keeps=True)
    SIGN = Sign("link", "bandwidth")

    rate_kb_per_s: KbPerS = Field(alias="rate")
    """How much passes in each direction that is limited."""
    direction: Direction = "both"
    """What is limited: requests, replies, or both."""

    @property
    def clause(self) -> str:
        """What is slow."""
        return f"{self.packets(self.direction)} pass at {self.rate_kb_per_s} KB/s"

    def words(self, far: str) -> str:
        """The links and their rate."""
        what = "" if self.direction == "both" else f" {self.direction}"
        return f"{super().words(far)}{what} {self.rate_kb_per_s} KB/s"

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break the bound on network delay, if a kilobyte takes too long."""
        kilobyte_ns = 1_000_000_000 // self.rate_kb_per_s
        return "bounded network delay" if kilobyte_ns >= tolerance.network_delay_ns else None

    async def inject(self, cluster: Cluster) -> Receipt:
        """Limit every link; a large probe must then take as long as the rate implies."""
        links = self.links(cluster)
        ways = 2 if self.direction == "both" else 1
        rate_bytes_per_s = self.rate_kb_per_s * 1000
        payload = min(int(rate_bytes_per_s * NARROW_PROBE_S), PAYLOAD_MAX_BYTES)
        takes_s = ways * payload / rate_bytes_per_s
        least_ns = int(takes_s * NARROW_SHARE * 1e9)
        before = [await quick(link, least_ns, payload) for link in links]
        await asyncio.gather(*(link.narrow(self.rate_kb_per_s, self.direction) for link in links))
        most_s = 2 * takes_s + AROUND_TIMEOUT_S
        after = await asyncio.gather(*(quickest(link, least_ns, most_s, payload) for link in links))
        return await round_trips_changed(links, before, after, (least_ns, int(takes_s * 1e9)), cluster)
