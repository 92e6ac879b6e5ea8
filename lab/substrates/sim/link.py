"""The link from one client to one target, as faults see it."""

from __future__ import annotations

from lab.addresses import Address
from lab.substrates.answering import Answering
from lab.substrates.base import ConnectionKind, Direction, Probe, Stream
from lab.substrates.probe import OpenConnection, Ping, echo
from lab.substrates.sim.machine import Acts
from lab.substrates.sim.network import STREAMS, Pipe, Way


class SimLink(Acts):
    """Its two pipes, and what is done to them."""

    def __init__(self, way: Way, client: str, target: str, address: Address, ping: Ping = echo) -> None:
        self.client, self.target, self.address = client, target, address
        self._way, self._ping = way, ping

    @property
    def name(self) -> str:
        """That of its way."""
        return self._way.name

    @property
    def requests(self) -> Pipe:
        """What the near end sends."""
        return self._way.requests

    @property
    def answering(self) -> Answering | None:
        """What answers commands with errors at the far end of the link."""
        return self._way.answering

    async def cut(self, direction: Direction, *, refused: bool) -> None:
        """Lose what is sent; ``refused`` also ends what is connected and lets nobody connect."""
        await self.acting()
        if refused:
            self._way.refused = True
            self._way.break_connections(reset=False)
            return
        for pipe in self._pipes(direction):
            pipe.suffer(lost=True)

    async def hold(self, direction: Direction) -> None:
        """Keep what is sent until the link is healed."""
        await self.acting()
        for pipe in self._pipes(direction):
            pipe.suffer(held=True)

    async def delay(self, by_ns: int, jitter_ns: int, direction: Direction) -> None:
        """Let everything take so much longer."""
        await self.acting()
        for pipe in self._pipes(direction):
            pipe.suffer(delay_ns=by_ns, jitter_ns=jitter_ns)

    async def narrow(self, rate_kb_per_s: int, direction: Direction) -> None:
        """Let no more than that pass."""
        await self.acting()
        for pipe in self._pipes(direction):
            pipe.suffer(rate_bytes_per_s=rate_kb_per_s * 1000)

    def only(self, kind: ConnectionKind) -> SimLink:
        """The same link, of which acts and probes concern the connections of one kind."""
        return LinkOfOneKind(self._way, self.client, self.target, self.address, kind)

    async def reset(self) -> None:
        """Reset what is connected now."""
        await self.acting()
        self._way.break_connections(reset=True)

    async def heal(self) -> None:
        """Undo everything. Where bytes were lost, connections end; what was held arrives."""
        await self.acting()
        way = self._way
        for kind in way.kinds:
            pipes = [way.pipe(stream, kind) for stream in STREAMS]
            if any(pipe.trouble is not None and pipe.trouble.lost for pipe in pipes):
                way.break_connections(reset=False, kind=kind)
            for pipe in pipes:
                pipe.release()
        self._way.refused = False
        if self._way.answering is not None:
            self._way.answering.end()

    async def troubles(self) -> list[str]:
        """Look at the pipes."""
        await self.acting()
        found = [
            f"{trouble}-{stream}" + (" of subscriptions" if kind == "subscription" else "")
            for kind in self._kinds
            for stream in STREAMS
            for trouble in _troubles(self._way.pipe(stream, kind))
        ]
        if (answering := self._way.answering) is not None and answering.error is not None:
            found.append(f"answers {answering.error}")
        return sorted(found) + (["refused"] if self._way.refused else [])

    @property
    def ways(self) -> tuple[()]:
        """None: it is one way itself."""
        return ()

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """Ask through the link on a connection of its own."""
        return await self._ping(self.address, timeout_s, payload_bytes)

    async def witness(self) -> OpenConnection:
        """A connection through the link, open and idle. Raises ``UnknownOutcome``."""
        return await OpenConnection.make(self.address, f"{self.client} to {self.target}")

    @property
    def _kinds(self) -> tuple[ConnectionKind, ...]:
        """The kinds of connections that it acts on."""
        return self._way.kinds

    def _pipes(self, direction: Direction) -> list[Pipe]:
        streams: tuple[Stream, ...] = STREAMS if direction == "both" else (direction,)
        return [self._way.pipe(stream, kind) for kind in self._kinds for stream in streams]


class LinkOfOneKind(SimLink):
    """A link of which acts and probes concern the connections of one kind."""

    def __init__(self, way: Way, client: str, target: str, address: Address, kind: ConnectionKind) -> None:
        super().__init__(way, client, target, address)
        self._kind: ConnectionKind = kind

    @property
    def _kinds(self) -> tuple[ConnectionKind, ...]:
        return (self._kind,)

    async def reset(self) -> None:
        """Reset what is connected now, of this kind."""
        await self.acting()
        self._way.break_connections(reset=True, kind=self._kind)

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """ECHO through the link on a connection of its own, of this kind."""
        return await echo(self.address, timeout_s, payload_bytes, subscribes=self._kind == "subscription")

    async def witness(self) -> OpenConnection:
        """A connection of this kind through the link, open and idle. Raises ``UnknownOutcome``."""
        subscribes = self._kind == "subscription"
        return await OpenConnection.make(
            self.address, f"{self.client} to {self.target}", subscribes=subscribes
        )


def _troubles(pipe: Pipe) -> list[str]:
    trouble = pipe.trouble
    if trouble is None:
        return []
    return [
        word
        for word, is_so in (
            ("cut", trouble.lost),
            ("hold", trouble.held),
            ("delay", trouble.delay_ns or trouble.jitter_ns),
            ("bandwidth", trouble.rate_bytes_per_s is not None),
        )
        if is_so
    ]
