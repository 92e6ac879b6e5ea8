"""A lock on the node that is the master at the moment."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from lab.channel import Channel, NodeError
from lab.locks.single import NotSent, Single


class Failover(Single):
    """``single`` on a master that has replicas, one of which is promoted when the master dies.

    Source: "Distributed Locks with Redis", section "Why failover-based implementations are not enough".

    It asks the nodes for their ``ROLE``, uses the first that replies master, and asks again when that one
    cannot be reached, does not answer, or has become a replica. So it tolerates the loss of a node, and
    promises mutual exclusion while no failover happens. Replication is asynchronous and ``WAIT`` is not used:
    if a master dies before the key has reached the replica, the lock is lost, and two clients may hold it.
    (``WAIT`` would make the window smaller, not close it: it reports what was replicated and undoes nothing.)
    When two nodes reply master, as after a partition, clients may use different ones.
    """

    name: ClassVar[str] = "failover"
    nodes_used: ClassVar[int | None] = None
    _master: Channel | None = None

    async def _call(self, *arguments: str | int) -> Any:
        """Ask the master; if it certainly did nothing, ask the master of that moment once more."""
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
