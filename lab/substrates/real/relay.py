"""A port before a node, through which the node's answers may become errors.

It lies behind the link's proxy, so that faults of the link act on errors as on any other reply. It runs in
the lab's own process, and only where a schedule asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from lab.addresses import Address
from lab.substrates.answering import Answering

HOST: Final = "127.0.0.1"
CHUNK: Final = 1 << 16


class Relay:
    """Takes connections for the node behind ``behind``, and lets ``answering`` look at what passes."""

    def __init__(self, behind: Address, answering: Answering) -> None:
        self._behind, self._answering = behind, answering
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> Address:
        """Listen on a free port of this machine; return its address."""
        self._server = await asyncio.start_server(self._taken, HOST, 0)
        return Address(self._behind.name, HOST, int(self._server.sockets[0].getsockname()[1]))

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
        """Carry the bytes of one connection until one end closes it."""
        conversation = self._answering.conversation()
        node: asyncio.StreamWriter | None = None
        try:
            with contextlib.suppress(OSError):
                said, node = await asyncio.open_connection(self._behind.host, self._behind.port)
                ways = (
                    asyncio.ensure_future(_carry(reader, node, conversation.requests)),
                    asyncio.ensure_future(_carry(said, writer, conversation.replies)),
                )
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        finally:
            writer.close()
            if node is not None:
                node.close()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passed: Callable[[bytes], bytes]
) -> None:
    while data := await reader.read(CHUNK):
        writer.write(passed(data))
        await writer.drain()
