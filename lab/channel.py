"""One pipelined connection to one Redis node.

Commands leave in the order they were given and replies come back in that order, so a delete that follows a
SET on the same channel can never overtake it: an abandoned SET, however late it is executed, is executed
before the delete that was sent after it.

There is no client library in between, only a parser (hiredis): a hidden retry would change what the lock
does, a time-out belongs to the algorithm, and most of the time of a lock operation is spent here
(``benchmarks/peers.py`` compares it with the bare protocol).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol

import hiredis

from lab.addresses import Address

Reply = Any
"""``bytes``, ``int``, ``None``, ``ErrorReply``, or a list of those."""


class ErrorReply(Exception):
    """A node's error: its text, code first."""


class NodeError(Exception):
    """The command could not be sent, or had no reply, or an error reply; that ``ErrorReply`` is its cause."""


Heard = Callable[["Reply | NodeError"], None]
"""A callback that takes the reply, or why there is none. It must be quick and must not raise."""
Command = tuple[str | int | bytes, ...]
Owed = deque[tuple[Heard, float]]
"""The callbacks of commands without a reply yet, oldest first, each with the loop's time in seconds when the
command was sent."""


class Connection(Protocol):
    """One connection to a node: commands arrive in the order they were given, and so do their replies."""

    def ask(self, heard: Heard, command: Command) -> None:
        """Send a command; ``heard`` is called with its reply, or with the reason for having none."""
        ...

    def is_stale(self, after_s: float) -> bool:
        """Whether a reply has been outstanding for longer than ``after_s`` seconds."""
        ...

    def close(self, why: str) -> None:
        """Close it; every command without a reply fails with ``why``."""
        ...


class Transport(Protocol):
    """How a channel reaches its node.

    ``ended`` is called once with a connection that broke by itself, before its outstanding commands fail.
    """

    at_once: bool
    """Whether connecting takes no time: ``connect_at_once`` is used then, and otherwise ``connect``."""

    async def connect(
        self, address: Address, client_name: str | None, ended: Callable[[Connection], None]
    ) -> Connection:
        """Make a connection. Raises ``NodeError`` or ``OSError``."""
        ...

    def connect_at_once(self, address: Address, ended: Callable[[Connection], None]) -> Connection:
        """Make a connection. Raises ``NodeError``."""
        ...


class Tcp:
    """RESP over TCP, as every real server speaks it."""

    at_once = False

    async def connect(
        self, address: Address, client_name: str | None, ended: Callable[[Connection], None]
    ) -> Connection:
        """Make a connection and name it. Raises ``NodeError`` or ``OSError``."""
        connection = _RespConnection(address.name, ended)
        try:
            await connection.loop.create_connection(lambda: connection, address.host, address.port)
            if client_name is not None:
                named = connection.loop.create_future()
                connection.ask(partial(settle, named), ("CLIENT", "SETNAME", client_name))
                await named
        except BaseException:
            connection.close("not connected")
            raise
        return connection

    def connect_at_once(self, address: Address, ended: Callable[[Connection], None]) -> Connection:
        """Refuse: a handshake takes a round trip."""
        raise NotImplementedError


TCP: Final = Tcp()


class Channel:
    """A connection that is made when first needed and remade after it broke.

    Args:
        address: where the node is.
        connect_timeout_s: how long making a connection may take, in seconds; None waits for ever.
        stale_after_s: a connection with a reply outstanding for longer than this is given up at the next
            command, which would have to wait behind it.
        client_name: the name the node shows in its client list.
        transport: how the node is reached.
    """

    def __init__(
        self,
        address: Address,
        *,
        connect_timeout_s: float | None,
        stale_after_s: float,
        client_name: str | None = None,
        transport: Transport = TCP,
    ) -> None:
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._stale_after_s = stale_after_s
        self._client_name = client_name
        self._transport = transport
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._queued = 0
        """How many commands wait for a connection; the next one has to wait behind them."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection; that the node answers on it is not said."""
        return self._connection is not None

    def connect(self) -> Awaitable[None]:
        """Connect now, so that the first command need not; await it. Raises ``NodeError``."""
        if not self._transport.at_once:
            return self._connect()
        # A future and no coroutine: `asyncio.gather` would make a task for each coroutine.
        connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            if self._connection is None:
                self._connect_at_once()
            connected.set_result(None)
        except NodeError as error:
            connected.set_exception(error.with_traceback(None))
            connected.exception()  # marks it as retrieved, for who does not wait for it
        return connected

    async def call(self, *arguments: str | int | bytes) -> Reply:
        """Send one command and return its reply.

        Cancelling the call leaves the command where it is; its reply is read and dropped.

        Raises:
            NodeError: no connection, a connection that broke, or an error reply.
        """
        return await self.post(*arguments)

    def post(self, *arguments: str | int | bytes) -> asyncio.Future[Reply]:
        """Send one command, after all that were given before; the future ends as ``call`` would."""
        if not self._transport.at_once and not self._is_ready():
            return self._queue(arguments)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.send(partial(settle, reply), *arguments)
        return reply

    def send(self, heard: Heard, *arguments: str | int | bytes) -> None:
        """The same with a callback, called in the turn of the loop in which the reply arrives."""
        connection = self._connection
        if connection is not None and not self._queued and not connection.is_stale(self._stale_after_s):
            connection.ask(heard, arguments)
        elif self._transport.at_once:
            self._send_anew(heard, arguments)
        else:
            self._queue(arguments).add_done_callback(partial(_pass_on, heard))

    async def close(self) -> None:
        """Close the connection; commands without a reply fail with ``NodeError``."""
        async with self._turn:
            self._drop("closed by the client")

    def _is_ready(self) -> bool:
        connection = self._connection
        return connection is not None and not self._queued and not connection.is_stale(self._stale_after_s)

    def _queue(self, arguments: Command) -> asyncio.Future[Reply]:
        self._queued += 1
        call = asyncio.ensure_future(self._call_in_turn(arguments))
        call.add_done_callback(self._left_the_queue)
        return call

    async def _call_in_turn(self, arguments: Command) -> Reply:
        async with self._turn:
            connection = await self._ready()
            reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            connection.ask(partial(settle, reply), arguments)
        return await reply

    def _left_the_queue(self, _: object) -> None:
        self._queued -= 1

    async def _connect(self) -> None:
        async with self._turn:
            await self._ready()

    async def _ready(self) -> Connection:
        if self._connection is not None and self._connection.is_stale(self._stale_after_s):
            self._drop("no reply for too long")
        if self._connection is not None:
            return self._connection
        try:
            # The handshake (CLIENT SETNAME) is a round trip too, and gets no answer through a cut link.
            async with asyncio.timeout(self._connect_timeout_s):
                connection = await self._transport.connect(self.address, self._client_name, self._ended)
        except (NodeError, OSError, TimeoutError) as error:
            late = isinstance(error, TimeoutError) and self._connect_timeout_s is not None
            why = str(error) or (f"no answer within {self._connect_timeout_s:g} s" if late else repr(error))
            raise NodeError(f"cannot connect to {self.address.name}: {why}") from error
        self._connection = connection
        return connection

    def _send_anew(self, heard: Heard, arguments: Command) -> None:
        """Send over a new connection, which needs no time to be made."""
        self._drop("no reply for too long")
        try:
            connection = self._connect_at_once()
        except NodeError as error:
            heard(error.with_traceback(None))  # its frames would make a reference cycle with the callback
            return
        connection.ask(heard, arguments)

    def _connect_at_once(self) -> Connection:
        self._connection = self._transport.connect_at_once(self.address, self._ended)
        return self._connection

    def _ended(self, connection: Connection) -> None:
        """The connection broke, or what arrives on it is not the protocol."""
        if connection is self._connection:
            self._connection = None

    def _drop(self, why: str) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(why)


async def connect_all(channels: Iterable[Channel]) -> None:
    """Connect channels at once; those whose node cannot be reached are left as they are."""
    connecting = [channel.connect() for channel in channels]
    waiting = [each for each in connecting if not (isinstance(each, asyncio.Future) and each.done())]
    if waiting:
        await asyncio.gather(*waiting, return_exceptions=True)


def _packed(command: Command) -> bytes:
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub knows one word only
    return packed


class _RespConnection(asyncio.Protocol):
    """The bytes of one connection."""

    _write: Callable[[bytes], None]

    def __init__(self, name: str, ended: Callable[[Connection], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self._time = self.loop.time
        self._name = name
        self._waiting: Owed = deque()
        self._ended = ended
        self._reader = hiredis.Reader(replyError=ErrorReply)
        self._transport: asyncio.Transport | None = None
        self._over = False

    def ask(self, heard: Heard, command: Command) -> None:
        self._waiting.append((heard, self._time()))
        self._write(_packed(command))

    def is_stale(self, after_s: float) -> bool:
        return bool(self._waiting) and self._time() - self._waiting[0][1] > after_s

    def close(self, why: str) -> None:
        """Close it; what arrives from now on is ignored."""
        self._over = True
        fail_all(self._waiting, f"{self._name}: {why}")
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._write = transport, transport.write
        if self._over:
            transport.close()

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:  # False: the rest has not arrived yet
                if not self._waiting:
                    self._end(f"a reply without a command: {str(reply)[:80]}")
                    return
                heard, _ = self._waiting.popleft()
                heard(refusal(reply) if isinstance(reply, ErrorReply) else reply)
        except hiredis.ProtocolError as error:
            self._end(str(error))

    def eof_received(self) -> None:
        self._end("closed by the server")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc or "closed"))

    def _end(self, why: str) -> None:
        if not self._over:
            self._ended(self)
            self.close(why)


def fail_all(waiting: Owed, why: str) -> None:
    """Tell everybody who waits for a reply why there is none."""
    while waiting:
        waiting.popleft()[0](NodeError(why))


def settle(future: asyncio.Future[Reply], reply: Reply | NodeError) -> None:
    """Complete a future with a reply, unless it was cancelled."""
    if future.done():
        return
    if isinstance(reply, NodeError):
        future.set_exception(reply)
        future.exception()  # marks it as retrieved: a result that is never awaited must not be logged
    else:
        future.set_result(reply)


def _pass_on(heard: Heard, call: asyncio.Future[Reply]) -> None:
    if call.cancelled():
        heard(NodeError("not sent any more"))
    else:
        heard(call.exception() or call.result())


def refusal(reply: ErrorReply) -> NodeError:
    """Return what is raised for a node's error."""
    error = NodeError(str(reply))
    error.__cause__ = reply
    return error
