"""A lock on the node that is the master at the moment."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from lab.channel import Channel, NodeError
from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import NotSent, Single, SingleOptions


@dataclass(frozen=True, slots=True)
class FailoverOptions(SingleOptions):
    """``SingleOptions``, and how many replicas must have a write before it counts (``WAIT``).

    ``wait_replicas`` of 0 does not wait. ``wait_timeout_ns`` is how long ``WAIT`` waits for them.
    """

    wait_replicas: int = 0
    wait_timeout_ns: int = 100 * NS_PER_MS


class TooFewReplicas(NodeError):
    """The master executed it, and too few replicas acknowledged it in time; they may have it later."""


class Failover(Single):
    """``single`` on a master that has replicas, one of which is promoted when the master dies.

    Source: "Distributed Locks with Redis", section "Why failover-based implementations are not enough".

    It asks the nodes for their ``ROLE``, uses the first that replies master, and asks again when that one
    cannot be reached, does not answer, or has become a replica. So it tolerates the loss of a node, and
    promises mutual exclusion while no failover happens. Replication is asynchronous and ``WAIT`` is not used:
    if a master dies before the key has reached the replica, the lock is lost, and two clients may hold it.
    (``WAIT`` would make the window smaller, not close it: it reports what was replicated and undoes nothing.)
    When two nodes reply master, as after a partition, clients may use different ones.

    With ``wait_replicas`` it sends ``WAIT`` behind a grant and an extension, on the same connection: on
    another one it would say nothing about them. If fewer replicas have acknowledged a grant in time, the key
    is given back. Which replicas these are it can't choose, and another one may be promoted.
    """

    name: ClassVar[str] = "failover"
    OPTIONS = FailoverOptions
    nodes_used: ClassVar[int | None] = None
    _master: Channel | None = None

    options: FailoverOptions

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        try:
            return await super()._set(key, token, ttl_ns)
        except TooFewReplicas as error:
            await self._undo(key, token)
            raise NotSent(str(error)) from error

    async def _send(self, channel: Channel, *arguments: str | int) -> Any:
        """Send a command; behind a grant or an extension, on the same connection, WAIT."""
        needed, timeout_ms = self.options.wait_replicas, self.options.wait_timeout_ns // NS_PER_MS
        if not needed or arguments[:2] == ("EVAL", self.unlock_script):
            return await channel.call(*arguments)
        written, waited = channel.post(*arguments), channel.post("WAIT", needed, timeout_ms)
        reply = await written
        if reply and (acknowledged := await waited) < needed:
            raise TooFewReplicas(f"{acknowledged} of {needed} replicas acknowledged it in {timeout_ms} ms")
        return reply

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
