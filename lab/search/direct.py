"""The direct wire: requests go over simulated links straight into the servers, without a byte of protocol.

Links, order, loss, pauses and clocks are those of the simulated network; what is left out is what clients
and servers do to turn commands into bytes and back, and the handshake of a connection. A search runs more
trials this way, and what it finds is confirmed on the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from lab.channel import Channel, Heard, NodeError, refusal, settle
from lab.channel import ErrorReply as ErrorOnTheWire
from lab.redis_model import ErrorReply, RedisModel
from lab.search.shortcuts import NO_SHORTCUT, taken
from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.network import Connection, Way
from lab.substrates.sim.node import SimNode

Request = tuple[str | int | bytes, ...]


class TrialNode(SimNode):
    """A node that starts at once, without anybody to wait for it."""

    def boot(self) -> None:
        """Start it with what its files keep."""
        self._life += 1
        self.process_id = self._process_ids()
        self._model = self.host.run(self._new_model)
        self.host.down = False
        self._arm()

    def _run_id(self) -> str:
        """Not drawn: nobody asks for it."""
        return f"{self._life:040x}"

    def keeps(self, key: bytes) -> object:
        """What it holds under a key now, without its noticing that somebody looked; None: nothing."""
        if self._model is None or self.host.down:
            return None
        keys = self._model.keys
        until_ms = keys.expires.get(key)
        if until_ms is not None and self.host.clock.wall_ns() // 1_000_000 > until_ms:
            return None
        return keys.data.get(key)

    def die(self, *, power_cut: bool) -> None:
        """End it at once; its files keep what was written, or only what was synced."""
        if self._model is not None:
            self._keep_files(self._model)
            self._drop_model(self._model)
        if power_cut:
            self._durable = self._synced
        self._go_down()

    def take_apart(self) -> None:
        """The trial is over: refer to nothing any more."""
        if self._model is not None:
            self._drop_model(self._model)
        self.host.on_resume = None
        self._ways.clear()

    def _drop_model(self, model: RedisModel) -> None:
        model.drop()
        vars(model).clear()  # its parts refer to it
        self._model = None


class DirectNode(TrialNode):
    """A node whose connections carry requests and replies as they are."""

    def accept(self, connection: Connection) -> bool:
        """Take a connection in."""
        connection.life = self._life
        return not self.host.down

    def answer(self, connection: DirectConnection, request: Request) -> None:
        """Execute one command that has arrived, and send the reply; nobody may be there to answer."""
        model = self._model
        if connection.over or self._life != connection.life or model is None or self.host.down:
            return
        reply = taken(model, request)
        if reply is NO_SHORTCUT:
            reply = model.call(*request)
        if self._persistence == "aof-everysec":
            super()._arm()
        connection.replies.carry(connection.down, 0, connection.hear, (reply,))

    def _arm(self) -> None:
        # Keys expire when they are looked at: only a file that is synced now and then needs waking.
        if self._persistence == "aof-everysec":
            super()._arm()


class DirectConnection(Connection):
    """A connection of a ``Channel`` that carries requests and replies as they are."""

    __slots__ = ("_arrives", "_loop", "_waiting", "_world", "replies", "requests")

    def __init__(self, number: int, way: Way, loop: HostLoop, channel: Channel) -> None:
        self._loop, self._waiting, self._world = loop, channel._waiting, loop.host.world
        node: DirectNode = way.listener  # type: ignore[assignment]
        self._arrives = node.answer
        self.requests, self.replies = way.requests, way.replies
        super().__init__(
            number, way, loop.host.name, _nothing, partial(loop.on_io, _ended, channel, channel._waiting)
        )

    def request(self, heard: Heard, request: Request) -> None:
        """The near end asks; ``heard`` is told the reply."""
        self._waiting.append((heard, self._world.now_ns))
        self.requests.carry(self.up, 0, self._arrives, (self, request))

    def waits_longer_than(self, limit_s: float) -> bool:
        """Whether a reply has not come for so long."""
        return bool(self._waiting) and self._world.now_ns - self._waiting[0][1] > limit_s * S_NS

    def forget(self) -> None:
        """Refer to nobody any more, nor to who waits for replies."""
        super().forget()
        self._waiting.clear()

    def hear(self, reply: Any) -> None:
        """A reply has arrived."""
        if not (self.over or self.near_closed):
            if isinstance(reply, ErrorReply):
                reply = refusal(ErrorOnTheWire(str(reply)))
            self._loop.on_reply(self._waiting, reply)


def _nothing(_: bytes) -> None:
    """No bytes ever come."""


async def _call(self: Channel, *arguments: str | int | bytes) -> Any:
    return await _post(self, *arguments)


def _post(self: Channel, *arguments: str | int | bytes) -> asyncio.Future[Any]:
    reply: asyncio.Future[Any] = asyncio.Future(loop=asyncio.get_running_loop())
    _send(self, partial(settle, reply), *arguments)
    return reply


def _send(self: Channel, heard: Heard, *arguments: str | int | bytes) -> None:
    connection: DirectConnection | None = self._connection  # type: ignore[assignment]
    if connection is None:
        loop: HostLoop = asyncio.get_running_loop()  # type: ignore[assignment]
        try:
            connection = _connected(self, loop)
        except NodeError as error:
            heard(error.with_traceback(None))  # which would lead back to who hears it
            return
    elif self._waiting and connection.waits_longer_than(self._stale_after_s):
        connection.close_near()
        _dropped(self, "no reply for too long")
        _send(self, heard, *arguments)  # over another one
        return
    connection.request(heard, arguments)


def _connected(channel: Channel, loop: HostLoop) -> DirectConnection:
    address = channel.address
    way = loop.network.way(address.host, address.port)
    if way is None:
        raise NodeError(f"cannot connect to {address.name}: no such address")
    loop.network._connections += 1
    connection = DirectConnection(loop.network._connections, way, loop, channel)
    if way.refused or not loop.network._accepted(connection):
        raise NodeError(f"cannot connect to {address.name}: refused")
    channel._connection = connection  # type: ignore[assignment]
    return connection


def _ended(channel: Channel, waiting: Any, _: bool) -> None:
    if channel._waiting is waiting:
        channel._connection = None
        _dropped(channel, "Connection reset by peer")


def _dropped(channel: Channel, why: str) -> None:
    channel._connection = None
    waiting, channel._waiting = channel._waiting, type(channel._waiting)()
    for heard, _ in waiting:
        heard(NodeError(f"{channel.address.name}: {why}"))


def _connect(self: Channel) -> asyncio.Future[None]:
    """No coroutine: one that waits for nothing would be a task of its own for whoever gathers them."""
    loop: HostLoop = asyncio.get_running_loop()  # type: ignore[assignment]
    connected = loop.create_future()
    try:
        if self._connection is None:
            _connected(self, loop)
        connected.set_result(None)
    except NodeError as error:
        connected.set_exception(error.with_traceback(None))
    return connected


async def _close(self: Channel) -> None:
    if self._connection is not None:
        self._connection.close_near()  # type: ignore[attr-defined]
        _dropped(self, "closed by the client")


@contextlib.contextmanager
def direct_wire() -> Iterator[None]:
    """Let every ``Channel`` be direct, whoever makes it; only for simulated hosts with ``DirectNode``."""
    stand_ins: dict[str, Callable[..., Any]] = {
        "call": _call,
        "post": _post,
        "send": _send,
        "connect": _connect,
        "close": _close,
    }
    before = {name: getattr(Channel, name) for name in stand_ins}
    for name, function in stand_ins.items():
        setattr(Channel, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(Channel, name, function)
