"""The ways between the servers of one service: from each of them to each of its peers, through Toxiproxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from lab.addresses import Address
from lab.substrates.base import Link, Service
from lab.substrates.local.services import HOST, Member
from lab.substrates.peers import PeerLink, PeerWay
from lab.substrates.probe import PINGS, Ping, closes
from lab.substrates.toxiproxy import LinkPlan, ToxiproxyLink, ToxiproxyServer

PEER_PORTS: Final[dict[Service, int]] = {"etcd": 1, "zookeeper": 2, "postgres": 0}
"""How many ports a server has for its peers; the last one is where it can be asked."""
PEER_PINGS: Final[dict[Service, Ping]] = {
    "etcd": PINGS["etcd"],
    # On the port for elections it closes what begins with a version that it does not know. On the other port,
    # for learners, only the leader listens.
    "zookeeper": closes(b"\xff" * 8),
}


@dataclass(frozen=True, slots=True)
class Peers:
    """The links between the servers of a service, by both names, and which port leads into which proxy."""

    links: Mapping[tuple[str, str], Link]
    leads: Mapping[tuple[str, str], Mapping[int, Address]]


async def connect_peers(service: Service, proxy: ToxiproxyServer, members: Sequence[Member]) -> Peers:
    """Make the ways from each member to each other one."""
    plans = [
        LinkPlan(near.name, far.name, Address(far.name, HOST, port), PEER_PINGS[service], port)
        for near, far in permutations(members, 2)
        for port in far.peer_ports[: PEER_PORTS[service]]
    ]
    parts: dict[tuple[str, str], list[ToxiproxyLink]] = {}
    leads: dict[tuple[str, str], dict[int, Address]] = {}
    asked: dict[tuple[str, str], PeerWay] = {}
    for plan, link in zip(plans, await proxy.create_links(plans), strict=True):
        pair = plan.client, plan.target
        parts.setdefault(pair, []).append(link)
        leads.setdefault(pair, {})[plan.behind.port] = link.address
        asked[pair] = PeerWay(*pair, link, plan.ping, plan.behind)  # the last one stays
    links: dict[tuple[str, str], Link] = {
        (near, far): PeerLink(
            near, far, [*parts[near, far], *parts[far, near]], [asked[near, far], asked[far, near]]
        )
        for near, far in parts
    }
    return Peers(links, leads)
