"""What a node's MONITOR shows, and what becomes of one that shows nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lab.addresses import Address
from lab.channel import NodeError
from lab.run.monitor import Monitor

PATIENCE_S = 30.0


@asynccontextmanager
async def node(*says: bytes) -> AsyncIterator[Address]:
    """A server that says this when it is asked to show, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readuntil(b"MONITOR\r\n")
        for piece in says:
            writer.write(piece)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address("A", *server.sockets[0].getsockname()[:2])
    finally:
        server.close()


async def shown_by(*says: bytes) -> list[tuple[float, list[str]]]:
    shown: list[tuple[float, list[str]]] = []
    async with asyncio.timeout(PATIENCE_S), node(*says) as address, Monitor(address) as monitor:
        with pytest.raises(NodeError, match="A ended the connection"):
            await _all(monitor, shown)
    return shown


async def _all(monitor: Monitor, shown: list[tuple[float, list[str]]]) -> None:
    while True:
        shown.append(await monitor.next())


async def test_commands_are_shown_in_order_with_their_times_however_they_are_cut_up() -> None:
    shown = await shown_by(
        b'+OK\r\n+1767225600.000001 [0 127.0.0.1:40001] "SET" "re',
        b'source" "token"\r\n+1767225600.5 [0 lua] "get" "resource"\r\n',
        b'+1767225601 [0 [::1]:5] "SET" "k" "say \\"hi\\" twice\\r\\n"\r\n+17672',
    )
    assert shown == [
        (1767225600.000001, ["SET", "resource", "token"]),
        (1767225600.5, ["get", "resource"]),
        (1767225601.0, ["SET", "k", 'say "hi" twice\\r\\n']),
    ]


async def test_a_script_longer_than_a_reader_usually_takes_is_shown() -> None:
    script = b"x" * 200_000
    assert await shown_by(b"+OK\r\n", b'+1.0 [0 a:1] "EVAL" "%b" "1"\r\n' % script) == [
        (1.0, ["EVAL", script.decode(), "1"])
    ]


async def test_a_token_that_ends_in_a_backslash_is_a_word_of_its_own() -> None:
    shown = await shown_by(b"+OK\r\n", rb'+1.0 [0 a:1] "SET" "k" "\x00\\" "NX" "\\\"" ""' + b"\r\n")
    assert shown == [(1.0, ["SET", "k", "\\x00\\", "NX", '\\"', ""])]


async def test_a_node_that_still_loads_is_an_error() -> None:
    async with node(b"-LOADING Redis is loading the dataset in memory\r\n") as address:
        with pytest.raises(NodeError, match="A refuses MONITOR: -LOADING"):
            async with Monitor(address):
                pass


async def test_what_is_no_command_is_an_error() -> None:
    async with node(b"+OK\r\n:5\r\n") as address, Monitor(address) as monitor:
        with pytest.raises(NodeError, match="A shows no command: :5"):
            await monitor.next()


async def test_nobody_there_is_an_error() -> None:
    async with node() as address:
        pass
    with pytest.raises(OSError, match="Connect call failed"):
        async with Monitor(address):
            pass
