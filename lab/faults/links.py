"""``cut`` and ``hold``: what happens on the way between two ends, and how it ends.

The ends are a client and a node or the store, a replica and its master, or two servers of one service. A cut
loses what is sent; a hold keeps it in the network until it is healed and then delivers it. The receipt is a
probe through the link that gets no answer, one around it that does, and the server's own count of probes,
which tells whether the request or only the reply was stopped. Of a replication link it also shows that the
replica falls behind. Two servers of one service are asked on the ports for their peers, on the way of each of
them to the other.
When the server can't answer anybody (it is down, or stands still), the receipt is what the link's carrier
says of it.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    PROBE_TIMEOUT_S,
    Ending,
    Receipt,
    Target,
    Tolerance,
    answers,
    is_awake,
    ms,
    node_names,
    server_behind,
    together,
)
from lab.scenario.step_link import Cut, Hold, LinkStep
from lab.substrates.base import STORE, Capability, Cluster, Direction, Link, Node, Probe

RELINK_TIMEOUT_S = 10.0
"""How long a replica may take to find its master again: it tries once a second."""
ARROWS: dict[str, str] = {"both": "⇎", "requests": "↛", "replies": "↚"}


def near_end(step: LinkStep) -> str:
    """Return the near end of the links that a step means: a client, or a node."""
    return step.client or step.node or ""


def far_ends(step: LinkStep, cluster: Cluster) -> tuple[str, ...]:
    """Return the far ends of the links that a step means: nodes, the store, or a master or peer."""
    if step.from_node is not None:
        return (step.from_node,)
    return (STORE,) if step.store else node_names(step.nodes, cluster)


def links_of(step: LinkStep, cluster: Cluster) -> list[Link]:
    """Return the links that a step means."""
    return [cluster.link(near_end(step), end) for end in far_ends(step, cluster)]


class CutFault:
    """A partition between a client and some servers, or between two nodes."""

    f: ClassVar[str] = "cut"
    ended_by: ClassVar[Ending] = "heal"

    def needs(self, step: Cut) -> Capability:
        """Links that can be cut."""
        return Capability.CUT_LINKS

    def target(self, step: Cut, cluster: Cluster) -> Target:
        """The near end, and whom it cannot reach any more."""
        near, ends = near_end(step), far_ends(step, cluster)
        return Target(f"{near} {ARROWS[step.direction]} {','.join(ends)}", ends, near)

    def breaks(self, step: Cut, tolerance: Tolerance) -> str | None:
        """Break nothing: every distributed lock must live with partitions."""
        return None

    async def inject(self, step: Cut, cluster: Cluster) -> Receipt:
        """Cut every link, then probe each of them."""
        links = links_of(step, cluster)
        refused = step.mode == "refused"
        await asyncio.gather(*(link.cut(step.direction, refused=refused) for link in links))
        return await links_are_broken(links, "both" if refused else step.direction, cluster)


class HoldFault:
    """Packets that sit in the network."""

    f: ClassVar[str] = "hold"
    ended_by: ClassVar[Ending] = "heal"

    def needs(self, step: Hold) -> Capability:
        """Links that can hold packets."""
        return Capability.HOLD_LINKS

    def target(self, step: Hold, cluster: Cluster) -> Target:
        """The near end and the far ends of the links."""
        near, ends = near_end(step), far_ends(step, cluster)
        what = "requests of" if step.direction == "requests" else "replies to"
        return Target(f"{what} {near} ({','.join(ends)})", ends, near)

    def breaks(self, step: Hold, tolerance: Tolerance) -> str | None:
        """Break the bound on network delay."""
        return "bounded network delay"

    async def inject(self, step: Hold, cluster: Cluster) -> Receipt:
        """Hold every link, then probe each of them."""
        links = links_of(step, cluster)
        await asyncio.gather(*(link.hold(step.direction) for link in links))
        return await links_are_broken(links, step.direction, cluster)


async def links_are_broken(links: list[Link], direction: Direction, cluster: Cluster) -> Receipt:
    """Probe every link and what lies behind it; confirm only if each of them shows the break."""
    shown = await asyncio.gather(*(_one_is_broken(link, direction, cluster) for link in links))
    return together(dict(zip((link.target for link in links), shown, strict=True)))


async def _one_is_broken(link: Link, direction: Direction, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    if link.ways:
        return await _servers_are_apart(link, cluster)
    server = server_behind(link, cluster)
    if not await answers(server):
        troubles = await link.troubles()
        return bool(troubles), {"probe_around_ms": None, "link": troubles}
    around = await server.probe(AROUND_TIMEOUT_S)
    before = await server.echoes()
    if before is None:
        return await _goes_unanswered(link, around)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + AROUND_TIMEOUT_S
    through, arrived = await link.probe(PROBE_TIMEOUT_S), await _more_than(before, server)
    # Where only replies are stopped a probe must arrive, which on a busy machine may take more than one.
    while direction == "replies" and not (arrived or through.reached) and loop.time() < give_up:
        through, arrived = await link.probe(PROBE_TIMEOUT_S), await _more_than(before, server)
    evidence: dict[str, Any] = {
        "probe_through_link": _said_of(through),
        "probe_arrived": bool(arrived),
        "probe_around_ms": ms(around.round_trip_ns),
    }
    # Only where requests are stopped must the probe not arrive; where replies are stopped it must.
    as_expected = around.reached and not through.reached and bool(arrived) == (direction == "replies")
    if link.client in cluster.nodes and direction != "requests":
        behind = await _bytes_behind(link, cluster)
        evidence["replica_behind_bytes"] = behind
        as_expected = as_expected and behind > 0
    return as_expected, evidence


async def _goes_unanswered(link: Link, around: Probe) -> tuple[bool, dict[str, Any]]:
    """The receipt where the server counts no probes: no answer, and what the link's carrier says of it."""
    through, troubles = await link.probe(PROBE_TIMEOUT_S), await link.troubles()
    evidence = {
        "probe_through_link": _said_of(through),
        "link": troubles,
        "probe_around_ms": ms(around.round_trip_ns),
    }
    return around.reached and not through.reached and bool(troubles), evidence


async def _servers_are_apart(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    """The receipt for two servers of a service: each answers on its port for peers, but not the other one.

    Also who leads, as they say themselves. One that is down, or stands still, can't answer anybody.
    """
    through = await asyncio.gather(*(way.probe(PROBE_TIMEOUT_S) for way in link.ways))
    around = await asyncio.gather(*(way.around(AROUND_TIMEOUT_S) for way in link.ways))
    troubles = await link.troubles()
    shown, ways = bool(troubles), {}
    for way, gone, there in zip(link.ways, through, around, strict=True):
        node = cluster.nodes[way.target]
        shown = shown and not gone.reached and (there.reached or not is_awake(node))
        ways[f"{way.client}→{way.target}"] = {
            "probe_through_link": _said_of(gone),
            "probe_around_ms": ms(there.round_trip_ns) if there.reached else None,
            "target_is": (await node.role()).name if is_awake(node) else None,
        }
    return shown, {"ways": ways, "link": troubles}


async def _more_than(before: int, server: Node) -> int:
    """How many probes have arrived since."""
    return (await server.echoes() or 0) - before


def _said_of(probe: Probe) -> str:
    return "answered" if probe.reached else f"no answer in {PROBE_TIMEOUT_S * 1000:.0f} ms"


async def _bytes_behind(link: Link, cluster: Cluster) -> int:
    """How far the replica is behind its master, after something was sent to it that can't have come."""
    replica, master = cluster.nodes[link.client], cluster.nodes[link.target]
    await master.ripple()
    await asyncio.sleep(PROBE_TIMEOUT_S)
    return (await master.role()).offset - (await replica.role()).offset


async def heal_links(near: str, ends: tuple[str, ...], cluster: Cluster) -> Receipt:
    """Undo what was done to these links; confirmed when each of them answers again."""
    links = [cluster.link(near, end) for end in ends]
    await asyncio.gather(*(link.heal() for link in links))
    shown = await asyncio.gather(*(_one_is_whole(link, cluster) for link in links))
    return together(dict(zip(ends, shown, strict=True)))


async def _one_is_whole(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
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
    if not all(is_awake(cluster.nodes[way.target]) for way in link.ways):
        return not troubles, {"probe_through_link_ms": None, "link": troubles or "whole"}
    probe = await link.probe(AROUND_TIMEOUT_S)
    answered_ms = ms(probe.round_trip_ns) if probe.reached else None
    return probe.reached, {"probe_through_link_ms": answered_ms, "link": troubles or "whole"}


async def _is_linked_again(link: Link, cluster: Cluster) -> bool | None:
    """Wait until the replica hears its master; None if it is down, or none any more."""
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
