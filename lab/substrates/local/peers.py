"""The ways between the servers of one service: from each of them to each of its peers, through Toxiproxy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.base import ConnectionKind, Direction, Link, Probe, Service, Witness
from lab.substrates.local.services import HOST, Member
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
class PeerWay:
    """One proxy, in front of a port where a server can be asked."""

    client: str
    target: str
    link: ToxiproxyLink
    plan: LinkPlan

    async def probe(self, timeout_s: float) -> Probe:
        """Ask through the proxy."""
        return await self.link.probe(timeout_s)

    async def around(self, timeout_s: float) -> Probe:
        """Ask the port behind it."""
        return await self.plan.ping(self.plan.behind, timeout_s)


class PeerLink:
    """All ways between two servers, whichever of them connects to the other.

    ``ways`` are those on which an answer can be had.
    """

    def __init__(
        self, client: str, target: str, parts: Sequence[ToxiproxyLink], ways: Sequence[PeerWay]
    ) -> None:
        self.client, self.target = client, target
        self.answering = None
        self._parts = parts
        self.ways = ways
        self.address = ways[0].link.address

    def only(self, kind: ConnectionKind) -> Link:
        """Never asked: servers subscribe to nothing."""
        raise UnknownOutcome(f"there are no {kind} between servers")

    async def cut(self, direction: Direction, *, refused: bool) -> None:
        """Cut every way, in both directions."""
        await self._each(lambda part: part.cut("both", refused=refused))

    async def heal(self) -> None:
        """Mend every way."""
        await self._each(lambda part: part.heal())

    async def troubles(self) -> list[str]:
        """What is done to each of the proxies."""
        found = await asyncio.gather(*(part.troubles() for part in self._parts))
        return [
            f"{part.name} {word}" for part, words in zip(self._parts, found, strict=True) for word in words
        ]

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """Ask on every way that can be asked; the slowest answer."""
        probes = await asyncio.gather(*(way.probe(timeout_s) for way in self.ways))
        return Probe(all(probe.reached for probe in probes), max(probe.round_trip_ns for probe in probes))

    async def hold(self, direction: Direction) -> None:
        """Never asked."""
        raise self._only_cut()

    async def delay(self, by_ns: int, jitter_ns: int, direction: Direction) -> None:
        """Never asked."""
        raise self._only_cut()

    async def narrow(self, rate_kb_per_s: int, direction: Direction) -> None:
        """Never asked."""
        raise self._only_cut()

    async def reset(self) -> None:
        """Never asked."""
        raise self._only_cut()

    async def witness(self) -> Witness:
        """Never asked."""
        raise self._only_cut()

    def _only_cut(self) -> UnknownOutcome:
        return UnknownOutcome(f"the way between the servers {self.client} and {self.target} can be cut only")

    async def _each(self, do: Callable[[ToxiproxyLink], Awaitable[None]]) -> None:
        await asyncio.gather(*(do(part) for part in self._parts))


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
        asked[pair] = PeerWay(*pair, link, plan)  # the last one stays
    links: dict[tuple[str, str], Link] = {
        (near, far): PeerLink(
            near, far, [*parts[near, far], *parts[far, near]], [asked[near, far], asked[far, near]]
        )
        for near, far in parts
    }
    return Peers(links, leads)
