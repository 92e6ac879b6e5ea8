"""A store that does not answer: an error in time, and nothing that waits behind it."""

from __future__ import annotations

import asyncio

import pytest

from lab.redis_model.parser import RequestParser
from lab.store import StoreClient, StoreError

ANSWER = b"*4\r\n:1\r\n:7\r\n$3\r\nbob\r\n$0\r\n\r\n"


async def test_after_a_timeout_the_next_question_does_not_wait_behind_the_first() -> None:
    asked: list[list[bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = RequestParser()
        while data := await reader.read(1 << 16):
            parser.feed(data)
            while command := parser.next():
                asked.append(command)
                evals = sum(each[0] == b"EVAL" for each in asked)
                if command[0] != b"EVAL":
                    writer.write(b"+OK\r\n")
                elif evals > 1:  # the first is never answered
                    writer.write(ANSWER)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with StoreClient(host, port, checks_fences=False, timeout_s=0.3) as store:
        with pytest.raises(StoreError, match=r"store: no answer within 0\.3 s"):
            await store.read("k")
        stored = await store.read("k")
    assert (stored.version, stored.value) == (7, "bob")
    assert [command[0] for command in asked] == [b"CLIENT", b"EVAL", b"CLIENT", b"EVAL"], "another connection"
    server.close()


async def test_an_error_of_the_store_is_an_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(b"-LOADING Redis is loading the dataset in memory\r\n")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with StoreClient(host, port, checks_fences=False, timeout_s=30.0) as store:
        with pytest.raises(StoreError, match="LOADING"):
            await store.connect()
    server.close()
