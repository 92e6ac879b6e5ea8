"""One pipelined connection to one Redis node.

Commands leave in the order they were given and replies come back in that order, so a delete that
follows a SET on the same channel can never overtake it. That is why an abandoned SET needs no
bookkeeping: whatever the node does late, it does before the delete that was sent after it.

redis-py's own retries, handshake and read time-outs are off: a hidden second SET would change what
the lock does, and a time-out belongs to the algorithm.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Any

from redis.asyncio.connection import Connection
from redis.exceptions import RedisError, ResponseError

from lab.address import Address

Reply = Any


class NodeError(Exception):
    """The node could not be asked, or did not answer: its vote is unknown."""


class Channel:
    """A connection that is made when first needed and remade after it broke.

    Args:
        address: where the node is.
        connect_timeout_s: how long making a connection may take, in seconds.
        stale_after_s: a connection that owes a reply for longer than this is given up when the next
            command comes, since what is stuck behind it would be stuck as well.
        client_name: the name the node shows in its client list.
    """

    def __init__(
        self,
        address: Address,
        *,
        connect_timeout_s: float,
        stale_after_s: float,
        client_name: str | None = None,
    ) -> None:
        self.address = address
        self._connect_timeout_s = connect_timeout_s
        self._stale_after_s = stale_after_s
        self._client_name = client_name
        self._connection: Connection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[asyncio.Future[Reply], float]] = deque()
        self._turn = asyncio.Lock()

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
        async with self._turn:
            connection = await self._ready()
            loop = asyncio.get_running_loop()
            reply: asyncio.Future[Reply] = loop.create_future()
            self._waiting.append((reply, loop.time()))
            try:
                await connection.send_packed_command(connection.pack_command(*arguments), check_health=False)
            except (RedisError, OSError) as error:
                await self._drop(error)
        try:
            return await reply
        except ResponseError as error:
            raise NodeError(str(error)) from error

    def post(self, *arguments: str | int | bytes) -> asyncio.Future[Reply]:
        """Send one command, after all that were given before; what is returned ends as ``call`` would."""
        return asyncio.ensure_future(self.call(*arguments))

    async def close(self) -> None:
        """Close the connection; commands without a reply fail with ``NodeError``."""
        async with self._turn:
            await self._drop(ConnectionError("closed by the client"))

    async def _ready(self) -> Connection:
        if self._connection is not None and self._is_stale():
            await self._drop(TimeoutError("no reply for too long"))
        if self._connection is not None:
            return self._connection
        connection = Connection(
            host=self.address.host,
            port=self.address.port,
            protocol=2,
            driver_info=None,
            client_name=self._client_name,
            socket_timeout=None,
            socket_connect_timeout=self._connect_timeout_s,
            retry=None,
        )
        try:
            # The handshake (CLIENT SETNAME) is a round trip of its own that a black hole never answers.
            async with asyncio.timeout(self._connect_timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
        except (RedisError, OSError, TimeoutError) as error:
            await connection.disconnect(nowait=True)
            raise NodeError(f"cannot connect to {self.address.name}: {error}") from error
        self._connection = connection
        self._reader = asyncio.create_task(self._read_replies(connection))
        return connection

    def _is_stale(self) -> bool:
        if not self._waiting:
            return False
        return asyncio.get_running_loop().time() - self._waiting[0][1] > self._stale_after_s

    async def _read_replies(self, connection: Connection) -> None:
        while True:
            try:
                reply = await connection.read_response(timeout=math.inf, disconnect_on_error=False)
            except ResponseError as error:
                self._settle(error)
                continue
            except (RedisError, OSError) as error:
                if self._connection is connection:
                    await self._drop(error)
                return
            self._settle(reply)

    def _settle(self, reply: Reply) -> None:
        if not self._waiting:
            return
        future, _ = self._waiting.popleft()
        if future.done():
            return
        if isinstance(reply, Exception):
            _fail(future, reply)
        else:
            future.set_result(reply)

    async def _drop(self, reason: BaseException) -> None:
        connection, self._connection = self._connection, None
        reader, self._reader = self._reader, None
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        waiting, self._waiting = self._waiting, deque()
        for future, _ in waiting:
            if not future.done():
                _fail(future, NodeError(f"{self.address.name}: {reason}"))
        if connection is not None:
            await connection.disconnect(nowait=True)


def _fail(future: asyncio.Future[Reply], error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # nobody may be waiting any more; that is no error of its own
