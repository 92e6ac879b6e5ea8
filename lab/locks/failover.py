"""A lock on whichever node is the master right now."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from lab.channel import Channel, NodeError
from lab.locks.single import NotSent, Single


class Failover(Single):
    """``single`` on a master that has replicas, one of which is promoted when the master dies.

    Source: "Distributed Locks with Redis", section "Why failover-based implementations are not enough".

    It asks the nodes for their ``ROLE``, uses the first that says master, and looks again when that one
    cannot be reached, does not answer, or has become a replica. So it survives the loss of a node, and
    promises mutual exclusion while no failover happens. Replication is asynchronous and ``WAIT`` is not used:
    a master that dies before the key has reached the replica takes the lock with it, and two clients hold
    it. (``WAIT`` would narrow the gap, not close it: it tells what was replicated and takes nothing back.)
    When two nodes say master, as after a partition, clients may disagree about which one counts.
    """

    name: ClassVar[str] = "failover"
    nodes_used: ClassVar[int | None] = None
    _master: Channel | None = None

    async def _call(self, *arguments: str | int) -> Any:
        """Ask the master; if it surely did nothing, ask once more whoever is the master then."""
        try:
            return await self._ask_master(*arguments)
        except NotSent:
            return await self._ask_master(*arguments)

    async def _ask_master(self, *arguments: str | int) -> Any:
        try:
            return await super()._call(*arguments)
        except NodeError:
            self._master = None
            raise

    async def _node(self) -> Channel:
        if self._master is None:
            roles = await asyncio.gather(*(self._says_master(channel) for channel in self._channels))
            masters = [channel for channel, yes in zip(self._channels, roles, strict=True) if yes]
            if not masters:
                raise NotSent("no node that can be reached says that it is the master")
            self._master = masters[0]
        try:
            await self._in_time(self._master.connect())
        except NodeError as error:
            raise NotSent(str(error)) from error
        return self._master

    async def _says_master(self, channel: Channel) -> bool:
        try:
            role = await self._in_time(channel.call("ROLE"))
        except NodeError:
            return False
        return bool(role[0] == b"master")
