"""The link from one client to one target, as faults see it."""

from __future__ import annotations

from lab.addresses import Address
from lab.substrates.base import Direction, Probe, Stream
from lab.substrates.probe import OpenConnection, echo
from lab.substrates.sim.machine import Acts
from lab.substrates.sim.network import Pipe, Way


class SimLink(Acts):
    """Its two pipes, and what is done to them."""

    def __init__(self, way: Way, client: str, target: str, address: Address) -> None:
        self.client, self.target, self.address = client, target, address
        self._way = way

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

    async def reset(self) -> None:
        """Reset what is connected now."""
        await self.acting()
        self._way.break_connections(reset=True)

    async def heal(self) -> None:
        """Undo everything. Where bytes were lost, connections end; what was held arrives."""
        await self.acting()
        pipes = self._pipes("both")
        if any(pipe.trouble is not None and pipe.trouble.lost for pipe in pipes):
            self._way.break_connections(reset=False)
        for pipe in pipes:
            pipe.release()
        self._way.refused = False

    async def troubles(self) -> list[str]:
        """Look at the pipes."""
        await self.acting()
        found = [
            f"{trouble}-{stream}"
            for stream in ("replies", "requests")
            for trouble in _troubles(self._way.pipe(stream))
        ]
        return sorted(found) + (["refused"] if self._way.refused else [])

    @property
    def ways(self) -> tuple[()]:
        """None: it is one way itself."""
        return ()

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """ECHO through the link on a connection of its own."""
        return await echo(self.address, timeout_s, payload_bytes)

    async def witness(self) -> OpenConnection:
        """A connection through the link, open and idle. Raises ``UnknownOutcome``."""
        return await OpenConnection.make(self.address, f"{self.client} to {self.target}")

    def _pipes(self, direction: Direction) -> list[Pipe]:
        streams: tuple[Stream, ...] = ("requests", "replies") if direction == "both" else (direction,)
        return [self._way.pipe(stream) for stream in streams]


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
