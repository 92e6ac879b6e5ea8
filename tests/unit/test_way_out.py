"""A server's way out: it leads by the port that is asked for, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from lab.addresses import Address
from lab.substrates.local.way_out import WayOut
from lab.substrates.real.ports import free_ports

HOST = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def way_out() -> AsyncIterator[WayOut]:
    one = WayOut()
    yield one
    await one.close()


@contextlib.asynccontextmanager
async def shouter(*, ends: bool = False) -> AsyncIterator[int]:
    """Somebody who sends back in capitals what he hears, or hangs up at once."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not ends and (heard := await reader.read(100)):
            writer.write(heard.upper())
        writer.close()

    server = await asyncio.start_server(shout, HOST, 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def asked(door: int, port: int, command: int = 1) -> tuple[int, Streams]:
    """Ask for a connection as Go and Java do; return the answer's code and the connection."""
    reader, writer = await asyncio.open_connection(HOST, door)
    writer.write(b"\x05\x02\x00\x02")
    assert await reader.readexactly(2) == b"\x05\x00"
    writer.write(bytes((5, command, 0, 1)) + socket.inet_aton("192.0.2.7") + port.to_bytes(2, "big"))
    answer = await reader.readexactly(10)
    assert answer[:1] == b"\x05"
    return answer[1], (reader, writer)


async def test_it_leads_to_what_stands_for_the_port(way_out: WayOut) -> None:
    door = await way_out.open()
    async with shouter() as asked_for, shouter() as proxy:
        way_out.lead({asked_for: Address("A", HOST, proxy)})
        code, (reader, writer) = await asked(door, asked_for)
        assert code == 0
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"
        assert writer.get_extra_info("peername")[1] == door
        writer.write_eof()
        assert await reader.read() == b"", "the end is passed on, both ways"


async def test_it_waits_until_it_knows_where_to(way_out: WayOut) -> None:
    door = await way_out.open()
    async with shouter() as port:
        waiting = asyncio.create_task(asked(door, port))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        way_out.lead({port: Address("A", HOST, port)})
        assert (await waiting)[0] == 0


async def test_nobody_else_is_reached(way_out: WayOut) -> None:
    door = await way_out.open()
    async with shouter() as port, shouter() as other:
        way_out.lead({port: Address("A", HOST, port)})
        assert (await asked(door, other))[0] == 2
        assert (await asked(door, port, command=2))[0] == 7, "nobody listens for others here"


async def test_a_server_that_does_not_listen_refuses_though_its_proxy_does_not(way_out: WayOut) -> None:
    door = await way_out.open()
    (port,) = free_ports(1)
    async with shouter(ends=True) as proxy:
        way_out.lead({port: Address("A", HOST, proxy)})
        assert (await asked(door, port))[0] == 5


async def test_a_closed_proxy_refuses(way_out: WayOut) -> None:
    door = await way_out.open()
    (closed,) = free_ports(1)
    async with shouter() as port:
        way_out.lead({port: Address("A", HOST, closed)})
        assert (await asked(door, port))[0] == 5


async def test_what_is_connected_ends_with_it(way_out: WayOut) -> None:
    door = await way_out.open()
    async with shouter() as port:
        way_out.lead({port: Address("A", HOST, port)})
        _, (reader, _) = await asked(door, port)
        await way_out.close()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
