"""All links between two servers, whichever of them connects to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Protocol

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.base import ConnectionKind, Direction, Link, Probe, Witness
from lab.substrates.probe import Ping


class Part(Link, Protocol):
    """A link in one direction, with a name of its own."""

    @property
    def name(self) -> str:
        """What it is called where its troubles are told."""


@dataclass(frozen=True, slots=True)
class PeerWay:
    """One link to a port where a server can be asked; ``behind`` is that port itself."""

    client: str
    target: str
    link: Part
    ping: Ping
    behind: Address

    async def probe(self, timeout_s: float) -> Probe:
        """Ask over the link."""
        return await self.link.probe(timeout_s)

    async def around(self, timeout_s: float) -> Probe:
        """Ask the port behind it."""
        return await self.ping(self.behind, timeout_s)


class PeerLink:
    """All ways between two servers, whichever of them connects to the other.

    ``ways`` are those on which an answer can be had.
    """

    def __init__(self, client: str, target: str, parts: Sequence[Part], ways: Sequence[PeerWay]) -> None:
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
        """What is done to each of the links."""
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

    async def _each(self, do: Callable[[Part], Awaitable[None]]) -> None:
        await asyncio.gather(*(do(part) for part in self._parts))


def links_between(
    servers: Sequence[str], ways: Mapping[tuple[str, str], PeerWay]
) -> dict[tuple[str, str], PeerLink]:
    """The links between any two of these servers, by both names, of the ways that there are."""
    links = {}
    for near, far in permutations(servers, 2):
        both = [ways[pair] for pair in ((near, far), (far, near)) if pair in ways]
        links[near, far] = PeerLink(near, far, [way.link for way in both], both)
    return links
