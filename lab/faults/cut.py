"""``cut``: what is sent on a link is lost, or connections are refused, until it is healed."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import model_validator

from lab.faults.base import Receipt, all_at_once
from lab.faults.links import LinkFault, links_are_broken
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.problems import problem
from lab.substrates.base import Capability, Cluster, Direction

ARROWS: Final[dict[str, str]] = {"both": "⇎", "requests": "↛", "replies": "↚"}


class Cut(LinkFault):
    """Cut the link from a client to nodes or the store, or between two nodes, until it is healed."""

    KEY = "cut"
    EXAMPLE = "{client: alice, nodes: [D, E]}"
    NEEDS = Capability.CUT_LINKS
    FITS_SENTINELS = True
    DRAWN = Drawing("links")
    SIGN = Sign("link", "cut off", lossy=True)

    direction: Direction = "both"
    """What is lost: requests (what the client or the replica sends), replies to it, or both."""
    mode: Literal["blackhole", "refused"] = "blackhole"
    """Whether packets are dropped silently, or connections are refused."""

    @property
    def clause(self) -> str:
        """What is lost, or refused."""
        if self.mode == "refused":
            return "connections of {} to {} are refused".format(*self.ends)
        return f"{self.packets(self.direction)} are lost"

    @model_validator(mode="after")
    def _refuses_all(self) -> Self:
        if self.mode == "refused" and self.connection is not None:
            raise problem("what a connection is for is not known when it is refused", "mode: blackhole")
        return self

    @property
    def fits_servers(self) -> bool:
        """Only in both directions."""
        return self.direction == "both"

    def words(self, far: str) -> str:
        """The links, with an arrow for what is lost."""
        return f"{self.near} {ARROWS[self.direction]} {far}"

    async def inject(self, cluster: Cluster) -> Receipt:
        """Cut every link, then probe each of them."""
        links = self.links(cluster)
        refused = self.mode == "refused"
        await all_at_once(link.cut(self.direction, refused=refused) for link in links)
        return await links_are_broken(links, "both" if refused else self.direction, cluster)
