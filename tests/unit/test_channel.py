"""One connection to a node: order, whatever happens to the connection, and whatever the node says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from lab.addresses import Address
from lab.channel import Channel, ErrorReply, NodeError, connect_all
from lab.redis_model.parser import RequestParser

PATIENCE_S = 30.0
Say = Callable[[list[bytes]], bytes | None]


class Node:
    """A server on loopback: ``says`` answers each command; None: it keeps silent, ``b""``: it hangs up."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.says: Say = lambda command: b"+OK\r\n"
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.address = Address("A", "127.0.0.1", 0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        parser = RequestParser()
        while data := await reader.read(1 << 16):
            parser.feed(data)
            while command := parser.next():
                self.heard.append(b" ".join(command).decode())
                answer = self.says(command)
                if answer == b"":
                    writer.close()
                    return
                writer.write(answer or b"")
        writer.close()

    async def until_heard(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.heard) < count:
                await asyncio.sleep(0.001)

    def channel(self, stale_after_s: float = 1000.0, name: str | None = None) -> Channel:
        return Channel(
            self.address, connect_timeout_s=PATIENCE_S, stale_after_s=stale_after_s, client_name=name
        )


async def test_channels_are_connected_at_once_also_where_a_node_is_not_there(node: Node) -> None:
    gone = Channel(Address("B", "127.0.0.1", 1), connect_timeout_s=PATIENCE_S, stale_after_s=1000.0)
    await connect_all([gone, node.channel(name="alice"), node.channel()])
    await node.until_heard(1)
    assert node.heard == ["CLIENT SETNAME alice"]
    assert node.connections == 2


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    it = Node()
    server = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    it.address = Address("A", *server.sockets[0].getsockname()[:2])
    yield it
    server.close()
    for writer in it.writers:
        writer.close()


async def test_commands_keep_their_order_from_before_there_is_a_connection(node: Node) -> None:
    channel = node.channel(name="alice")
    first = [channel.post("BEFORE", number) for number in range(3)]
    await asyncio.sleep(0)
    heard: list[object] = []
    channel.send(heard.append, "MEANWHILE")
    assert await first[0] == b"OK"
    later = [channel.post("AFTER", number) for number in range(3)]
    await asyncio.gather(*first, *later)
    numbers = range(3)
    assert node.heard == [
        "CLIENT SETNAME alice",
        *(f"BEFORE {n}" for n in numbers),
        "MEANWHILE",
        *(f"AFTER {n}" for n in numbers),
    ]
    assert heard == [b"OK"]
    assert node.connections == 1
    await channel.close()


async def test_nobody_overtakes_those_who_waited_for_the_connection(node: Node) -> None:
    channel = node.channel()
    waiting = [channel.post("FIRST"), channel.post("SECOND")]
    await channel.connect()  # it is there from now on, and the two have not noticed yet
    await channel.call("THIRD")
    await asyncio.gather(*waiting)
    assert node.heard == ["FIRST", "SECOND", "THIRD"]
    await channel.close()


async def test_an_error_of_the_node_is_the_cause_and_the_connection_stays(node: Node) -> None:
    channel = node.channel()
    node.says = lambda command: b"-LOADING it reads its file\r\n"
    with pytest.raises(NodeError, match="LOADING") as caught:
        await channel.call("GET", "k")
    assert isinstance(caught.value.__cause__, ErrorReply)
    node.says = lambda command: b"$-1\r\n"
    assert await channel.call("GET", "k") is None
    assert node.connections == 1
    await channel.close()


async def test_who_gave_up_gets_no_reply_and_takes_nobody_elses(node: Node) -> None:
    channel = node.channel()
    await channel.connect()
    node.says = lambda command: None
    given_up = asyncio.ensure_future(channel.call("SLOW"))
    await node.until_heard(1)
    given_up.cancel()
    node.says = lambda command: b":1\r\n:2\r\n"
    assert await channel.call("QUICK") == 2
    assert given_up.cancelled()
    await channel.close()


async def test_what_was_waited_for_fails_when_the_node_hangs_up_and_the_next_one_connects_anew(
    node: Node,
) -> None:
    channel = node.channel()
    await channel.connect()
    node.says = lambda command: b"" if command[0] == b"LAST" else None
    waiting = [channel.post("FIRST"), channel.post("LAST")]
    for reply in waiting:
        with pytest.raises(NodeError, match="closed by the server"):
            await asyncio.wait_for(reply, PATIENCE_S)
    node.says = lambda command: b":7\r\n"
    assert await channel.call("AGAIN") == 7
    assert node.connections == 2
    await channel.close()


async def test_a_connection_that_owes_a_reply_for_too_long_is_given_up(node: Node) -> None:
    channel = node.channel(stale_after_s=0.0)
    await channel.connect()
    node.says = lambda command: None
    stuck = channel.post("STUCK")
    await node.until_heard(1)
    node.says = lambda command: b":7\r\n"
    await asyncio.sleep(0.01)
    assert await channel.call("AGAIN") == 7
    with pytest.raises(NodeError, match="too long"):
        await stuck
    assert node.connections == 2
    await channel.close()


async def test_what_is_no_reply_ends_the_connection(node: Node) -> None:
    channel = node.channel()
    node.says = lambda command: b"HTTP/1.1 400 Bad Request\r\n"
    with pytest.raises(NodeError, match="Protocol error"):
        await channel.call("GET", "k")
    node.says = lambda command: b":1\r\n"
    assert await channel.call("GET", "k") == 1
    assert node.connections == 2
    await channel.close()


async def test_a_server_that_never_answers_is_said_not_to() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    channel = Channel(
        Address("A", "127.0.0.1", port), connect_timeout_s=0.2, stale_after_s=1.0, client_name="me"
    )
    with pytest.raises(NodeError, match=r"cannot connect to A: no answer within 0\.2 s"):
        await channel.connect()
    server.close()


async def test_nobody_there_is_told_to_each(node: Node) -> None:
    channel = Channel(Address("A", "127.0.0.1", 1), connect_timeout_s=PATIENCE_S, stale_after_s=1.0)
    heard: list[object] = []
    channel.send(heard.append, "PING")
    with pytest.raises(NodeError, match=r"cannot connect to A: \[Errno [0-9]+\] Connect call failed"):
        await channel.call("PING")
    assert isinstance(heard[0], NodeError)


@pytest.mark.parametrize("error", [OSError(), TimeoutError()])
async def test_an_error_without_words_is_named(error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", fails)
    channel = Channel(Address("A", "127.0.0.1", 1), connect_timeout_s=None, stale_after_s=1.0)
    with pytest.raises(NodeError, match=rf"cannot connect to A: {type(error).__name__}\(\)"):
        await channel.connect()


async def test_closing_fails_what_is_waited_for(node: Node) -> None:
    channel = node.channel()
    await channel.connect()
    node.says = lambda command: None
    reply = channel.post("GET", "k")
    await channel.close()
    with pytest.raises(NodeError, match="closed by the client"):
        await reply
