"""One Redis server that is not the lab's: what it can be asked, and nothing that would change it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.errors import UnknownOutcome
from lab.redis_model.persistence import Disk
from lab.servers import Server
from lab.substrates.asked import AskedNode
from lab.substrates.base import ClockReading, Role
from lab.substrates.local.processes import Child
from lab.substrates.real.clock import reading
from lab.substrates.real.machine import RealMachine
from lab.substrates.real.node import ANSWER_TIMEOUT_S


class EndpointNode(AskedNode, RealMachine[Child]):
    """A server; ``address`` is a port of the lab's, from which it is reached around every proxy."""

    known_offset = 0

    def __init__(self, address: Address, server: Server) -> None:
        super().__init__(address.name, None)
        self.address = address
        self._server = server
        self._control = Channel(address, connect_timeout_s=2.0, stale_after_s=10.0)

    @property
    def alive(self) -> bool:
        """Whether it runs: yes, since the run ends when it does not answer."""
        return True

    def states(self) -> dict[int, str]:
        """None: its processes are on another machine."""
        return {}

    async def ask(self, *arguments: str | int) -> object:
        """Send one command on the lab's own connection. Raises ``UnknownOutcome``."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._control.call(*arguments)
        except (NodeError, TimeoutError) as error:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: {error}") from error

    async def echoes(self) -> None:  # type: ignore[override]  # the protocol has int | None
        """None: others may use ECHO as well, and INFO may be forbidden."""
        return

    async def server(self) -> Server:
        """What it said when it was entered."""
        return self._server

    async def role(self) -> Role:
        """A master, since the run ends when it is none; what its replicas have is not asked."""
        return Role("master", 0, linked=False)

    async def read_clock(self) -> ClockReading:
        """Ask for TIME."""
        before_ns = time.time_ns()
        node_ns = await self.now_ns()
        return reading(node_ns, before_ns, time.time_ns())

    async def close(self) -> None:
        """Let go of it."""
        await self._control.close()

    def stopwatch(self, *, monotonic: bool = False) -> Callable[[], int]:
        """Refuse: nobody measures how long it is down."""
        raise self._not_ours("measured while it is down")

    async def start(self) -> None:
        """Refuse."""
        raise self._not_ours("started")

    async def shut_down(self) -> int | None:
        """Refuse."""
        raise self._not_ours("shut down")

    async def lose_unsynced(self) -> Disk:
        """Refuse."""
        raise self._not_ours("cut off from its power")

    async def disk(self) -> Disk:
        """Refuse: its files are on another machine."""
        raise self._not_ours("asked for its files")

    async def stall_disk(self, stalls: bool) -> None:
        """Refuse."""
        raise self._not_ours("kept from its disk")

    async def held_syncs(self) -> int:
        """Refuse."""
        raise self._not_ours("asked for its syncs")

    def _not_ours(self, done: str) -> UnknownOutcome:
        return UnknownOutcome(f"{self.name} is not a server of the lab, and is not {done}")
