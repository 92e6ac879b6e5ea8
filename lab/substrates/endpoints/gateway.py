"""A port on loopback, from which a client's commands go to a server that exists, as its user and by TLS.

It stands between a client and the link's proxy, in the lab's own process: so the proxy carries what the
network would carry, the certificate is checked against the server's own name, and no client, driver or proxy
is told a password. Every request is read, and one that the guard refuses is not sent: its connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from lab.addresses import Address
from lab.redis_model.parser import ProtocolError, RequestParser
from lab.substrates.endpoints.door import CHUNK, Door, Refused
from lab.substrates.endpoints.guard import Guard

HOST: Final = "127.0.0.1"


class Gateway:
    """Takes connections of ``whose`` for the server behind ``door``; ``refused`` is told in a sentence."""

    def __init__(self, door: Door, guard: Guard, whose: str, refused: Callable[[str], None]) -> None:
        self._door, self._guard, self._whose, self._refused = door, guard, whose, refused
        self._behind: Address | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, behind: Address | None = None) -> Address:
        """Listen on a free port; connections go by the proxy at ``behind``, if there is one."""
        self._behind = behind
        self._server = await asyncio.start_server(self._taken, HOST, 0)
        return Address(self._door.name, HOST, int(self._server.sockets[0].getsockname()[1]))

    async def close(self) -> None:
        """Listen no more, and end all connections."""
        if self._server is not None:
            self._server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until one end closes it."""
        try:
            with contextlib.suppress(OSError, Refused):
                way = await self._door.open(self._behind)
                try:
                    both = (
                        asyncio.ensure_future(self._requests(reader, way.writer)),
                        asyncio.ensure_future(_replies(way.reader, writer)),
                    )
                    try:
                        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        for one in both:
                            one.cancel()
                        await asyncio.gather(*both, return_exceptions=True)
                finally:
                    way.close()
        finally:
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send whole requests on, as they came, up to the first that the guard refuses."""
        parser, rest, done = RequestParser(), b"", 0
        while data := await reader.read(CHUNK):
            parser.feed(data)
            rest += data
            passed, why = [], None
            while why is None:
                try:
                    request = parser.next()
                except ProtocolError as error:
                    why = f"what it sent is no request ({error})"
                    break
                if request is None:
                    break
                if (why := self._guard.refuses(request)) is None:
                    size, done = parser.consumed - done, parser.consumed
                    passed.append(rest[:size])
                    rest = rest[size:]
            writer.write(b"".join(passed))
            await writer.drain()
            if why is not None:
                self._refused(f"{self._whose} was not let through to {self._door.name}: {why}")
                return


async def _replies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
