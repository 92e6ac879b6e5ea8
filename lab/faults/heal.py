"""``heal``: faults of links are undone, and packets held in them are delivered.

The receipt is a probe answered through each link; if the server can't answer, the state of the link itself.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    Receipt,
    Target,
    all_at_once,
    answers,
    is_running,
    ms,
    server_behind,
    server_named,
    together,
)
from lab.faults.links import LinkStep
from lab.faults.nemesis import End, Nemesis, Open
from lab.scenario.step_base import AllOrOne
from lab.substrates.base import Cluster, Link

RELINK_TIMEOUT_S = 10.0
"""How long a replica may take to reconnect to its master: it tries once a second."""


class Heal(AllOrOne, LinkStep, End):
    """End cuts, holds, delays, limits of bandwidth and errors: all of them, or those on named links."""

    KEY = "heal"
    EXAMPLE = "all, or {client: alice, nodes: [D, E]}"
    WHOSE = "which client's links"
    SAYS = "heals {}"
    FITS_SENTINELS = True
    TURN = 4

    def check_ends(self) -> None:
        """Without any end, all links are healed."""
        if not self.everything:
            super().check_ends()

    @property
    def fits_servers(self) -> bool:
        """Always."""
        return True

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """End faults of links.

        All links are healed at once, of all clients: packets that are held are released together, and none
        of a client arrive while those of another wait for receipts.
        """
        ends = None if self.everything else self.far(nemesis.cluster)
        healed: list[tuple[Open, Target]] = []
        for fault in nemesis.lasting(self.KEY):
            near = fault.target.near or ""
            now = tuple(end for end in fault.target.ends if ends is None or end in ends)
            if now and (self.everything or near == self.near):
                healed.append((fault, Target(f"{near} ⇄ {','.join(now)}", now, near)))
        receipts = await all_at_once(
            nemesis.close(
                fault,
                self.KEY,
                target,
                partial(heal_links, target.near or "", target.ends, nemesis.cluster),
            )
            for fault, target in healed
        )
        words = dict.fromkeys(target.words for _, target in healed)
        return "; ".join(words) or "nothing was broken", all(receipt.confirmed for receipt in receipts)

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Heal every link."""
        await cls().end(nemesis)


async def heal_links(near: str, ends: tuple[str, ...], cluster: Cluster) -> Receipt:
    """Undo what was done to these links; confirmed when each of them answers again."""
    links = [cluster.link(near, end) for end in ends]
    await all_at_once(link.heal() for link in links)
    shown = await all_at_once(_is_healed(link, cluster) for link in links)
    return together(dict(zip(ends, shown, strict=True)))


async def _is_healed(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    healed, evidence = await _is_whole(link, cluster)
    if link.answering is None:
        return healed, evidence
    answering = link.answering.error
    return healed and answering is None, evidence | {"answers": answering or "of the node itself"}


async def _is_whole(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    if link.ways:
        return await _servers_are_together(link, cluster)
    if not await answers(server_behind(link, cluster)):
        troubles = await link.troubles()
        return not troubles, {"probe_around_ms": None, "link": troubles or "whole"}
    probe = await link.probe(AROUND_TIMEOUT_S)
    evidence: dict[str, Any] = {"probe_through_link_ms": ms(probe.round_trip_ns) if probe.reached else None}
    if probe.reached and link.client in cluster.nodes:
        linked = await _is_linked_again(link, cluster)
        return linked is not False, evidence | {"replica_linked": linked}
    return probe.reached, evidence


async def _servers_are_together(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    troubles = await link.troubles()
    if not all(is_running(server_named(way.target, cluster)) for way in link.ways):
        return not troubles, {"probe_through_link_ms": None, "link": troubles or "whole"}
    probe = await link.probe(AROUND_TIMEOUT_S)
    answered_ms = ms(probe.round_trip_ns) if probe.reached else None
    return probe.reached, {"probe_through_link_ms": answered_ms, "link": troubles or "whole"}


async def _is_linked_again(link: Link, cluster: Cluster) -> bool | None:
    """Wait until the replica is connected to its master; None if it is down, or no replica any more."""
    replica = cluster.nodes[link.client]
    loop = asyncio.get_running_loop()
    give_up = loop.time() + RELINK_TIMEOUT_S
    while await answers(replica):
        role = await replica.role()
        if role.name != "replica":
            break
        if role.linked:
            return True
        if loop.time() > give_up:
            return False
        await asyncio.sleep(0.02)
    return None
