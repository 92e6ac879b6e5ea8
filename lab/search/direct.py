"""The direct wire: requests go over simulated links straight into the servers, without a byte of protocol.

Links, order, loss, pauses and clocks are those of the simulated network; what is left out is what clients
and servers do to turn commands into bytes and back, and the handshake of a connection. A search runs more
trials this way, and what it finds is confirmed on the wire.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from lab.addresses import Address
from lab.channel import Command, Heard, NodeError, Owed, fail_all, refusal
from lab.channel import ErrorReply as ErrorOnTheWire
from lab.redis_model import ErrorReply
from lab.search.cluster import TrialNode
from lab.search.shortcuts import NO_SHORTCUT, taken
from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.network import Connection, Way

OF_A_CONNECTION: Final = frozenset(
    {
        "WATCH", "UNWATCH", "MULTI", "EXEC", "DISCARD", "SELECT",
        "CLIENT", "HELLO", "AUTH", "RESET", "QUIT", "MONITOR",
        "WAIT", "WAITAOF", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE",
        "PUNSUBSCRIBE", "SUNSUBSCRIBE", "BLPOP", "BRPOP", "BLMOVE", "BLMPOP",
        "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "XREAD", "XREADGROUP",
    }
)  # fmt: skip
"""Commands that block, or whose effect is on the connection that they come over."""


class NeedsConnection(Exception):
    """A lock sent such a command: the direct wire has no connections that could wait or remember."""


class DirectNode(TrialNode):
    """A node whose connections carry requests and replies as they are, where a ``Channel`` makes them.

    Whatever connects in another way (somebody's own lock may) speaks the protocol as always.
    """

    def accept(self, connection: Connection) -> bool:
        """Take a connection in."""
        if not isinstance(connection, DirectConnection):
            return super().accept(connection)
        connection.life = self._life
        return not self.host.down

    def answer(self, connection: DirectConnection, request: Command) -> None:
        """Execute one command that has arrived, and send the reply; nobody may be there to answer.

        Raises ``NeedsConnection``.
        """
        model = self._model
        if connection.over or self._life != connection.life or model is None or self.host.down:
            return
        answering = connection.way.answering
        if answering is not None and answering.refuses(_name_of(request)):
            error = ErrorReply(answering.error or "")
            connection.replies.carry(connection.down, 0, connection.hear, (error,))
            return
        if self.log is not None:
            self.log.asker, self.log.message = connection.near_name, request
        reply = taken(model, request)
        if reply is NO_SHORTCUT:
            if _name_of(request) in OF_A_CONNECTION:
                raise NeedsConnection
            reply = model.call(*request)
        if self.log is not None:
            self.log.end(self.name, model)
        self._arm()
        connection.replies.carry(connection.down, 0, connection.hear, (reply,))

    def _arm(self) -> None:
        # Keys expire when they are looked at: only a file that is synced now and then needs waking, or who
        # waits on a connection of another kind, or replicates.
        if self._persistence == "aof-everysec" or self._sessions or self._replicates is not None:
            super()._arm()


class DirectConnection(Connection):
    """A connection of a ``Channel`` that carries requests and replies as they are."""

    __slots__ = ("_arrives", "_channel_ended", "_loop", "_name", "_waiting", "_world", "replies", "requests")

    def __init__(self, way: Way, loop: HostLoop, name: str, ended: Callable[[Any], None]) -> None:
        self._loop, self._world, self._name = loop, loop.host.world, name
        self._waiting: Owed = deque()
        self._channel_ended = ended
        node: DirectNode = way.listener  # type: ignore[assignment]
        self._arrives = node.answer
        self.requests, self.replies = way.requests, way.replies
        super().__init__(loop.network.next_number(), way, loop.host.name, _nothing, _nothing)

    def ask(self, heard: Heard, command: Command) -> None:
        """The near end asks; ``heard`` is told the reply."""
        self._waiting.append((heard, self._world.now_ns))
        self.requests.carry(self.up, 0, self._arrives, (self, command))

    def is_stale(self, after_s: float) -> bool:
        """Whether a reply has not come for so long."""
        waiting = self._waiting
        return bool(waiting) and self._world.now_ns - waiting[0][1] > after_s * S_NS

    def close(self, why: str) -> None:
        """The near end closes it."""
        self.close_near()
        self._channel_ended = _nothing
        fail_all(self._waiting, f"{self._name}: {why}")

    def forget(self) -> None:
        """Refer to nobody any more, nor to who waits for replies."""
        super().forget()
        self._channel_ended = _nothing
        self._waiting.clear()

    def hear(self, reply: Any) -> None:
        """A reply has arrived."""
        if not (self.over or self.near_closed):
            if isinstance(reply, ErrorReply):
                reply = refusal(ErrorOnTheWire(str(reply)))
            self._loop.on_reply(self._waiting, reply)

    def _notify_near(self, reset: bool) -> None:
        if not self.near_closed:
            self.near_closed = True
            self._loop.on_io(self._ended)

    def _ended(self) -> None:
        channel_ended, self._channel_ended = self._channel_ended, _nothing
        channel_ended(self)
        fail_all(self._waiting, f"{self._name}: Connection reset by peer")


def _name_of(request: Command) -> str:
    name = request[0]
    return (name.decode(errors="replace") if isinstance(name, bytes) else str(name)).upper()


def _nothing(_: object) -> None:
    """No bytes ever come, and nobody is told of an end."""


class DirectWire:
    """The transport for channels on simulated hosts whose nodes are ``DirectNode``."""

    at_once = True

    def connect_at_once(self, address: Address, ended: Callable[[Any], None]) -> DirectConnection:
        """Connect the running host. Raises ``NodeError``."""
        loop: HostLoop = asyncio.get_running_loop()  # type: ignore[assignment]
        way = loop.network.way(address.host, address.port)
        if way is None:
            raise NodeError(f"cannot connect to {address.name}: no such address")
        connection = DirectConnection(way, loop, address.name, ended)
        if way.refused or not loop.network.accepted(connection):
            raise NodeError(f"cannot connect to {address.name}: refused")
        return connection

    async def connect(
        self, address: Address, client_name: str | None, ended: Callable[[Any], None]
    ) -> DirectConnection:
        """The same: nothing is waited for."""
        return self.connect_at_once(address, ended)


DIRECT: Final = DirectWire()
