"""``delay``: every packet on a link takes longer, until it is healed."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from lab.durations import format_duration, short_duration
from lab.faults.base import AROUND_TIMEOUT_S, Receipt, Tolerance, all_at_once
from lab.faults.links import LinkFault
from lab.faults.slow import quick, quickest, round_trips_changed
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.problems import problem
from lab.scenario.types import DurationNs, PositiveNs
from lab.substrates.base import Capability, Cluster, Direction

DELAY_SHARE: Final = 0.9
"""The share of a delay that must be measured: timers and Toxiproxy's milliseconds are not exact."""


class Delay(LinkFault):
    """Every packet takes longer, until it is healed."""

    KEY = "delay"
    EXAMPLE = "{client: alice, nodes: all, by: 200ms, jitter: 50ms}"
    NEEDS = Capability.SLOW_LINKS
    DRAWN = Drawing("links", keeps=True)
    SIGN = Sign("link", "delayed")

    by_ns: PositiveNs = Field(alias="by")
    """How much longer, in each direction that is slowed."""
    jitter_ns: DurationNs = Field(default=0, alias="jitter")
    """How much more or less than that, drawn for each packet."""
    direction: Direction = "both"
    """What is slowed: requests, replies, or both."""

    @property
    def clause(self) -> str:
        """What takes longer."""
        return f"{self.packets(self.direction)} take {short_duration(self.by_ns)} longer"

    @model_validator(mode="after")
    def _can_be_measured(self) -> Self:
        if self.jitter_ns * 2 > self.by_ns:
            raise problem(
                "the jitter is more than half of the delay", "less, so that the delay can be measured"
            )
        return self

    def words(self, far: str) -> str:
        """The links, and by how much they are slower."""
        jitter = f" ± {format_duration(self.jitter_ns)}" if self.jitter_ns else ""
        what = "" if self.direction == "both" else f" {self.direction}"
        return f"{super().words(far)}{what} +{format_duration(self.by_ns)}{jitter}"

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Break the bound on network delay, if it is not small against a lease."""
        late = self.by_ns + self.jitter_ns >= tolerance.network_delay_ns
        return "bounded network delay" if late else None

    async def inject(self, cluster: Cluster) -> Receipt:
        """Delay every link; the round trip must now be as long as requested, and shorter before."""
        links = self.links(cluster)
        ways = 2 if self.direction == "both" else 1
        least_ns = int(ways * (self.by_ns - self.jitter_ns) * DELAY_SHARE)
        most_s = ways * (self.by_ns + self.jitter_ns) / 1e9 + AROUND_TIMEOUT_S
        before = [await quick(link, least_ns) for link in links]
        await all_at_once(link.delay(self.by_ns, self.jitter_ns, self.direction) for link in links)
        after = await all_at_once(quickest(link, least_ns, most_s) for link in links)
        most_ns = ways * (self.by_ns + self.jitter_ns)
        return await round_trips_changed(links, before, after, (least_ns, most_ns), cluster)
