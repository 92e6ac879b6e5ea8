"""A server's way to its peers: a SOCKS port of its own, which leads to each of them by a link of its own.

Servers of one service agree where each of them is reached: an address is the same for all who use it, so a
proxy in front of it could not tell who comes. But etcd (Go's net/http) and ZooKeeper (Java's Socket) both
connect through a SOCKS proxy when they are told to, and each of them is told of another one. So whoever comes
in here is known, and so is whom he asks for, and he is led into the Toxiproxy proxy of that pair.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from typing import Final

from lab.addresses import Address
from lab.substrates.real.ports import is_port_free

HOST: Final = "127.0.0.1"
CHUNK: Final = 65_536
VERSION: Final = 5
CONNECT: Final = 1
IP_V4: Final = 1
DONE, NOT_ALLOWED, REFUSED, NOT_SUPPORTED = 0, 2, 5, 7
"""What is answered to who asks for a connection (RFC 1928, section 6)."""


class WayOut:
    """The SOCKS 5 server (RFC 1928) of one member: CONNECT to an IPv4 address, without authentication.

    Only the port that is asked for says who is meant. Who comes before ``lead`` was called waits for it.
    """

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._leads: dict[int, Address] = {}
        self._led = asyncio.Event()
        self._guests: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Listen on loopback; return the port."""
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def lead(self, to: Mapping[int, Address]) -> None:
        """Say where those are led who ask for these ports, besides those that were named before."""
        self._leads |= to
        self._led.set()

    async def close(self) -> None:
        """Stop listening, and end what is connected."""
        if self._server is not None:
            self._server.close()
        for guest in self._guests:
            guest.cancel()
        await asyncio.gather(*self._guests, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guest = asyncio.current_task()
        assert guest is not None
        self._guests.add(guest)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._lead_in(reader, writer)
        except asyncio.CancelledError:
            pass  # nobody waits for it, and asyncio would call it an error
        finally:
            writer.transport.abort()
            self._guests.discard(guest)

    async def _lead_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(bytes((VERSION, 0)))  # no authentication
        _, command, _, kind = await reader.readexactly(4)
        if command != CONNECT or kind != IP_V4:
            writer.write(_reply(NOT_SUPPORTED))
            await writer.drain()
            return
        asked = await reader.readexactly(4 + 2)
        port = int.from_bytes(asked[4:], "big")
        await self._led.wait()
        there = self._leads.get(port)
        if there is None:
            writer.write(_reply(NOT_ALLOWED))
            await writer.drain()
            return
        try:
            # Toxiproxy takes a connection before it has one itself. A leader that ZooKeeper has just elected
            # may not listen yet: a refusal is tried again, but not what looks like a leader that hung up.
            if is_port_free(port):
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection(there.host, there.port)
        except OSError:
            writer.write(_reply(REFUSED))
            await writer.drain()
            return
        writer.write(_reply(DONE))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, far_writer))
                both.create_task(_pass_on(far_reader, writer))
        except* OSError:
            pass
        finally:
            far_writer.transport.abort()


def _reply(code: int) -> bytes:
    return bytes((VERSION, code, 0, IP_V4)) + socket.inet_aton("0.0.0.0") + b"\0\0"


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, and then that it ended."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
