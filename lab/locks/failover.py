"""A lock on the node that is the master at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lab.channel import Channel, ErrorReply, NodeError
from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import NotSent, Single, SingleOptions


@dataclass(frozen=True, slots=True)
class FailoverOptions(SingleOptions):
    """``SingleOptions``, and how many replicas must have acknowledged a key before it is a lease."""

    wait_replicas: int = 0


class Failover(Single):
    """``single`` on a master that has replicas, one of which is promoted when the master dies.

    Source: "Distributed Locks with Redis", section "Why failover-based implementations are not enough".

    It asks the nodes for their ``ROLE``, uses the first that replies master, and asks again when that one
    cannot be reached, does not answer, or has become a replica. So it tolerates the loss of a node, and
    promises mutual exclusion while no failover happens. Replication is asynchronous and ``WAIT`` is not used:
    if a master dies before the key has reached the replica, the lock is lost, and two clients may hold it.
    (``WAIT`` would make the window smaller, not close it: it reports what was replicated and undoes nothing.)
    When two nodes reply master, as after a partition, clients may use different ones.

    With ``wait_replicas`` it sends ``WAIT`` behind the ``SET``, on the same connection, and gives the key
    back if fewer replicas have acknowledged it within half of ``node_timeout``. Which replicas these are it
    can't choose, and another one may be promoted.
    """

    name: ClassVar[str] = "failover"
    OPTIONS = FailoverOptions
    nodes_used: ClassVar[int | None] = None
    _master: Channel | None = None

    options: FailoverOptions

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        wanted = self.options.wait_replicas
        if not wanted:
            return await super()._set(key, token, ttl_ns)
        channel = await self._any_master()
        wait_ms = self.options.node_timeout_ns // 2 // NS_PER_MS
        # Sent together: on another connection WAIT would say nothing about this SET.
        replies: Sequence[Any] = await asyncio.gather(
            self._in_time(channel.call("SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS)),
            self._in_time(channel.call("WAIT", wanted, wait_ms)),
            return_exceptions=True,
        )
        taken, acknowledged = replies
        for reply in replies:
            if isinstance(reply, BaseException):
                self._master = None
                refused = reply is taken and isinstance(reply.__cause__, ErrorReply)
                raise NotSent(str(reply)) if refused else reply
        if taken is None:
            return False
        if acknowledged < wanted:
            await self._undo(key, token)
            raise NotSent(f"{acknowledged} of {wanted} replicas have acknowledged it")
        return True

    async def _any_master(self) -> Channel:
        """A connected channel to the master of this moment. Raises ``NotSent``."""
        try:
            return await self._node()
        except NotSent:
            self._master = None
            return await self._node()

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
            self._master = await self._find_master()
        try:
            await self._in_time(self._master.connect())
        except NodeError as error:
            raise NotSent(str(error)) from error
        return self._master

    async def _find_master(self) -> Channel:
        """The node that replies master. Raises ``NotSent``: none does."""
        roles = await asyncio.gather(*(self._says_master(channel) for channel in self._channels))
        masters = [channel for channel, yes in zip(self._channels, roles, strict=True) if yes]
        if not masters:
            raise NotSent("no node that can be reached says that it is the master")
        return masters[0]

    async def _says_master(self, channel: Channel) -> bool:
        try:
            role = await self._in_time(channel.call("ROLE"))
        except NodeError:
            return False
        return bool(role[0] == b"master")
