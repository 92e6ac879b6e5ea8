"""The link from one machine to one node, as faults see it: simulated, with a real port at its near end."""

from __future__ import annotations

from lab.addresses import Address
from lab.substrates.base import Direction
from lab.substrates.probe import Ping, echo
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.network import Way
from lab.substrates.virtual.ends import Door


class VirtualLink(SimLink):
    """A link whose refusals are the kernel's: its port is closed."""

    def __init__(
        self, way: Way, client: str, target: str, address: Address, door: Door, ping: Ping = echo
    ) -> None:
        super().__init__(way, client, target, address, ping)
        self._door = door

    async def cut(self, direction: Direction, *, refused: bool) -> None:
        """Lose what is sent, or refuse connections."""
        await super().cut(direction, refused=refused)
        if refused:
            await self._door.closed()

    async def heal(self) -> None:
        """Undo everything."""
        await super().heal()
        await self._door.opened()
