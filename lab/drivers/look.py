"""Looking at a key on the nodes themselves, whatever lies there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from lab.addresses import Address
from lab.channel import Channel


@dataclass(frozen=True, slots=True)
class Look:
    """What a node had under a key: its ``value`` if that is a string, and how many ms it has left, if any."""

    node: str
    there: bool
    value: str | None = None
    left_ms: int | None = None


class Looker:
    """Connected to some nodes, around every link."""

    def __init__(self, nodes: Sequence[Address]) -> None:
        self.nodes = nodes
        self._channels = [Channel(node, connect_timeout_s=5.0, stale_after_s=30.0) for node in nodes]

    async def look(self, key: str) -> list[Look]:
        """Look at all of them. Raises ``NodeError``."""
        return list(await asyncio.gather(*(self._look(channel, key) for channel in self._channels)))

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _look(self, channel: Channel, key: str) -> Look:
        kind, left_ms = await asyncio.gather(channel.call("TYPE", key), channel.call("PTTL", key))
        text = kind.decode() if isinstance(kind, bytes) else str(kind)
        if text == "none":
            return Look(channel.address.name, there=False)
        value = await channel.call("GET", key) if text == "string" else None
        shown = value.decode(errors="replace") if isinstance(value, bytes) else None
        return Look(channel.address.name, there=True, value=shown, left_ms=left_ms if left_ms >= 0 else None)
