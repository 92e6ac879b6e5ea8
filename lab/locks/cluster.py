"""A lock on a Redis Cluster."""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from lab.addresses import Address
from lab.channel import Channel, ErrorReply, NodeError
from lab.locks.base import Surroundings
from lab.locks.failover import Failover, FailoverOptions
from lab.locks.single import NotSent

SLOTS: Final = 16_384
REDIRECTIONS_MAX: Final = 5
"""So many redirections are followed for one command, as redis-cli and the libraries bound it."""


def slot_of(key: str) -> int:
    """The slot of a key: the CRC16 of what stands in its first braces, if something does, else of all."""
    _, opens, rest = key.partition("{")
    tag, closes, _ = rest.partition("}")
    return crc_hqx((tag if opens and closes and tag else key).encode(), 0) % SLOTS


class ClusterLock(Failover):
    """``single`` on the master that serves the slot of the key.

    Source: Redis documentation, "Redis cluster specification", "Redirection and resharding".

    It asks a node which master serves the slot (``CLUSTER SLOTS``), and again when that master cannot be
    reached or does not answer. A node that does not serve the slot executes nothing and names the one that
    does: ``MOVED``, which is remembered, or ``ASK`` while the slot is being moved, which is followed once,
    with ``ASKING`` before the command.

    The key is on one master, so more masters make the lock no safer than ``failover``: it tolerates the loss
    of a master, and promises mutual exclusion while no replica takes over, since replication is asynchronous.
    Moving the slot to another master keeps the key and its time to live. ``wait_replicas`` is as in
    ``failover``.
    """

    name: ClassVar[str] = "cluster"
    asks: ClassVar[str] = "cluster"

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: FailoverOptions | None = None,
        surroundings: Surroundings | None = None,
        owner: str | None = None,
    ) -> None:
        super().__init__(nodes, options, surroundings, owner)
        self._owner = owner
        self._masters: dict[tuple[str, int], Channel] = {}
        self._serving: dict[int, Channel] = {}

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.gather(super().close(), *(channel.close() for channel in self._masters.values()))

    async def _call(self, *arguments: str | int) -> Any:
        """Send a command to the master of its key; if that can't be reached, ask once more who it is.

        Raises:
            NotSent: it certainly had no effect.
            NodeError: it is unknown whether it had an effect.
        """
        slot = slot_of(str(arguments[3] if arguments[0] == "EVAL" else arguments[1]))
        try:
            return await self._follow(slot, arguments)
        except NotSent:
            if slot in self._serving:  # it was reached, and refused
                raise
            return await self._follow(slot, arguments)

    async def _follow(self, slot: int, arguments: Sequence[str | int]) -> Any:
        """Send a command, and follow redirections. Raises as ``_call``."""
        channel = self._serving.get(slot) or await self._look_up(slot)
        asking = False
        for _ in range(REDIRECTIONS_MAX + 1):
            try:
                return await self._ask(channel, arguments, asking=asking)
            except NodeError as error:
                if not isinstance(error.__cause__, ErrorReply):
                    self._serving.pop(slot, None)
                    raise
                word, *about = str(error).split()
                if word not in ("MOVED", "ASK"):
                    raise
                channel, asking = self._master_at(Address.parse(about[1])), word == "ASK"
                if not asking:
                    self._serving[slot] = channel
        raise NotSent(f"more than {REDIRECTIONS_MAX} redirections")

    async def _ask(self, channel: Channel, arguments: Sequence[str | int], *, asking: bool) -> Any:
        """Send one command to one node. Raises as ``_call``."""
        try:
            await self._in_time(channel.connect())
        except NodeError as error:
            raise NotSent(str(error)) from error
        try:
            return await self._in_time(self._send_to(channel, *arguments, asking=asking))
        except NodeError as error:
            if isinstance(error.__cause__, ErrorReply):
                raise NotSent(str(error)) from error.__cause__
            raise

    async def _send_to(self, channel: Channel, *arguments: str | int, asking: bool) -> Any:
        if asking:  # on the same connection, just before the command
            channel.post("ASKING")
        return await self._send(channel, *arguments)

    async def _look_up(self, slot: int) -> Channel:
        """The master of a slot, by the first node that replies; that one is asked first next time."""
        for node in list(self._channels):
            try:
                ranges = await self._in_time(node.call("CLUSTER", "SLOTS"))
            except NodeError:
                continue
            self._channels.remove(node)
            self._channels.insert(0, node)
            for first, last, (host, port, *_), *_ in ranges:
                if first <= slot <= last:
                    place = Address(f"{host.decode()}:{port}", host.decode(), port)
                    channel = self._serving[slot] = self._master_at(place)
                    return channel
        raise NotSent("no node that can be reached knows who serves the slot of the key")

    def _master_at(self, place: Address) -> Channel:
        """The one connection to a master that nodes name: a command must not overtake an earlier one."""
        channel = self._masters.get((place.host, place.port))
        if channel is None:
            channel = self._masters[place.host, place.port] = self._surroundings.channel(
                place,
                connect_timeout_s=self._timeout_s,
                stale_after_s=self._stale_after_s(),
                client_name=self._owner,
            )
        return channel
