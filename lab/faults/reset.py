"""``reset``: the open connections of a link break, once.

The receipt is that a connection opened before is broken, and that one made afterwards is answered. There is
none if the server is down: no connection was open that could be reset.
"""

from __future__ import annotations

from typing import Any, Final

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    Receipt,
    all_at_once,
    answers,
    ms,
    server_behind,
    together,
)
from lab.faults.links import ConnectionsFault
from lab.scenario.fault_step import Drawing, Sign
from lab.substrates.base import Capability, Cluster, Link

RESET_TIMEOUT_S: Final = 2.0


class Reset(ConnectionsFault):
    """Break all open connections, once; what is in flight is lost, new ones can be made at once."""

    KEY = "reset"
    EXAMPLE = "{client: alice, nodes: [A]}"
    NEEDS = Capability.RESET_LINKS
    PASSES = True
    DRAWN = Drawing("links")
    SIGN = Sign("link", "reset")

    @property
    def clause(self) -> str:
        """Which connections end."""
        return "the connections between {} and {} are broken".format(*self.ends)

    def words(self, far: str) -> str:
        """The links whose connections break."""
        return f"{self.near} ↯ {far}"

    async def inject(self, cluster: Cluster) -> Receipt:
        """Reset every link, with a connection of ours open on each."""
        links = self.links(cluster)
        shown = await all_at_once(_reset_one(link, cluster) for link in links)
        return together(dict(zip((link.target for link in links), shown, strict=True)))


async def _reset_one(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    server = server_behind(link, cluster)
    answering = await answers(server)
    witness = await link.witness()
    await link.reset()
    fate = await witness.fate(RESET_TIMEOUT_S)
    again = await link.probe(AROUND_TIMEOUT_S) if answering else None
    evidence = {
        "server": "up" if server.alive else "down",
        "open_connection": fate,
        "new_connection_ms": ms(again.round_trip_ns) if again is not None and again.reached else None,
    }
    # If the server is down every connection ends anyway, so that shows no reset. If it is paused they stay.
    whole = server.alive and (again is None or again.reached)
    return whole and fate in ("reset", "closed"), evidence
