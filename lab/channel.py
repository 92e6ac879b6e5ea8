"""One pipelined connection to one Redis node.

Commands leave in the order they were given and replies come back in that order, so a delete that
follows a SET on the same channel can never overtake it. That is why an abandoned SET needs no
bookkeeping: whatever the node does late, it does before the delete that was sent after it.

There is no client library in between, only its parser (hiredis): a hidden retry would change what the lock
does, a time-out belongs to the algorithm, and a lock that asks five nodes twice is made of this and little
else (``benchmarks/peers.py`` holds it to the bare protocol).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import hiredis

from lab.addresses import Address

Reply = Any
"""``bytes``, ``int``, ``None``, ``ErrorReply``, or a list of those."""


class ErrorReply(Exception):
    """A node's error: its text, code first."""


class NodeError(Exception):
    """The node could not be asked, or did not answer: its vote is unknown.

    Where it did answer, with an error, the cause is that ``ErrorReply``.
    """


Heard = Callable[["Reply | NodeError"], None]
"""Takes a reply, or why there is none, in the middle of things: it must be quick, and must not raise."""
Owed = deque[tuple[Heard, float]]
"""Who waits for replies, oldest first, and since when by the loop's clock, in seconds."""


class Channel:
    """A connection that is made when first needed and remade after it broke.

    Args:
        address: where the node is.
        connect_timeout_s: how long making a connection may take, in seconds; None waits for ever.
        stale_after_s: a connection that owes a reply for longer than this is given up when the next
            command comes, since what is stuck behind it would be stuck as well.
        client_name: the name the node shows in its client list.
    """

    def __init__(
        self,
        address: Address,
        *,
        connect_timeout_s: float | None,
        stale_after_s: float,
        client_name: str | None = None,
    ) -> None:
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._stale_after_s = stale_after_s
        self._client_name = client_name
        self._connection: _Connection | None = None
        self._waiting: Owed = deque()
        self._turn = asyncio.Lock()
        self._queued = 0
        """How many commands that had to wait for a connection are still on their way: the next one goes
        behind them."""

    async def connect(self) -> None:
        """Connect now, so that the first command need not. Raises ``NodeError``."""
        async with self._turn:
            await self._ready()

    async def call(self, *arguments: str | int | bytes) -> Reply:
        """Send one command and return its reply.

        Cancelling the call leaves the command where it is; its reply is read and dropped.

        Raises:
            NodeError: no connection, a connection that broke, or an error reply.
        """
        return await self.post(*arguments)

    def post(self, *arguments: str | int | bytes) -> asyncio.Future[Reply]:
        """Send one command, after all that were given before; what is returned ends as ``call`` would."""
        connection = self._connection
        if connection is None or self._must_queue():
            return self._queue(arguments)
        return self._ask(connection, arguments)

    def send(self, heard: Heard, *arguments: str | int | bytes) -> None:
        """The same for those in a hurry: ``heard`` is told in the very turn in which a reply comes."""
        connection = self._connection
        if connection is None or self._must_queue():
            self._queue(arguments).add_done_callback(partial(_pass_on, heard))
        else:
            self._waiting.append((heard, connection.time()))
            connection.write(_packed(arguments))

    async def close(self) -> None:
        """Close the connection; commands without a reply fail with ``NodeError``."""
        async with self._turn:
            self._drop("closed by the client")

    def _must_queue(self) -> bool:
        return bool(self._queued or (self._waiting and self._is_stale()) or self._turn.locked())

    def _queue(self, arguments: tuple[str | int | bytes, ...]) -> asyncio.Future[Reply]:
        self._queued += 1
        call = asyncio.ensure_future(self._call_in_turn(arguments))
        call.add_done_callback(self._left_the_queue)
        return call

    async def _call_in_turn(self, arguments: tuple[str | int | bytes, ...]) -> Reply:
        async with self._turn:
            reply = self._ask(await self._ready(), arguments)
        return await reply

    def _left_the_queue(self, _: object) -> None:
        self._queued -= 1

    def _ask(
        self, connection: _Connection, arguments: tuple[str | int | bytes, ...]
    ) -> asyncio.Future[Reply]:
        reply: asyncio.Future[Reply] = connection.loop.create_future()
        self._waiting.append((partial(settle, reply), connection.time()))
        connection.write(_packed(arguments))
        return reply

    async def _ready(self) -> _Connection:
        if self._connection is not None and self._is_stale():
            self._drop("no reply for too long")
        if self._connection is not None:
            return self._connection
        connection = _Connection(self._waiting, self._ended)
        try:
            # The handshake (CLIENT SETNAME) is a round trip of its own that a black hole never answers.
            async with asyncio.timeout(self._connect_timeout_s):
                await self._shake_hands(connection)
        except BaseException as error:
            connection.close()
            self._waiting = deque()
            if isinstance(error, (NodeError, OSError, TimeoutError)):
                late = isinstance(error, TimeoutError) and self._connect_timeout_s is not None
                why = str(error) or (
                    f"no answer within {self._connect_timeout_s:g} s" if late else repr(error)
                )
                raise NodeError(f"cannot connect to {self.address.name}: {why}") from error
            raise
        self._connection = connection
        return connection

    async def _shake_hands(self, connection: _Connection) -> None:
        await connection.loop.create_connection(lambda: connection, self.address.host, self.address.port)
        if self._client_name is not None:
            await self._ask(connection, ("CLIENT", "SETNAME", self._client_name))

    def _is_stale(self) -> bool:
        if not self._waiting:
            return False
        return asyncio.get_running_loop().time() - self._waiting[0][1] > self._stale_after_s

    def _ended(self, connection: _Connection, why: str) -> None:
        """The connection has broken, or cannot be understood any more."""
        if connection.waiting is self._waiting:
            self._drop(why)

    def _drop(self, why: str) -> None:
        connection, self._connection = self._connection, None
        waiting, self._waiting = self._waiting, deque()
        for heard, _ in waiting:
            heard(NodeError(f"{self.address.name}: {why}"))
        if connection is not None:
            connection.close()


def _packed(command: tuple[str | int | bytes, ...]) -> bytes:
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]  # its stub knows one word only
    return packed


class _Connection(asyncio.Protocol):
    """The bytes of one connection; tells once, by ``ended``, that it broke."""

    write: Callable[[bytes], None]

    def __init__(self, waiting: Owed, ended: Callable[[_Connection, str], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.time = self.loop.time
        self.waiting = waiting
        self._ended = ended
        self._reader = hiredis.Reader(replyError=ErrorReply)
        self._transport: asyncio.Transport | None = None
        self._over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.write = transport, transport.write
        if self._over:
            transport.close()

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:  # what it says when the rest has not come yet
                if not self.waiting:
                    self._end(f"a reply that nobody asked for: {str(reply)[:80]}")
                    return
                heard, _ = self.waiting.popleft()
                heard(refusal(reply) if isinstance(reply, ErrorReply) else reply)
        except hiredis.ProtocolError as error:
            self._end(str(error))

    def eof_received(self) -> None:
        self._end("closed by the server")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc or "closed"))

    def close(self) -> None:
        """Close it; what comes of it from now on is nobody's business."""
        self._over = True
        if self._transport is not None:
            self._transport.close()

    def _end(self, why: str) -> None:
        if not self._over:
            self.close()
            self._ended(self, why)


def settle(future: asyncio.Future[Reply], reply: Reply | NodeError) -> None:
    """End a future with what was heard, unless nobody wants it any more."""
    if future.done():
        return
    if isinstance(reply, NodeError):
        future.set_exception(reply)
        future.exception()  # nobody may be waiting any more; that is no error of its own
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
