"""One question on a fresh connection: the smallest proof that something is, or is not, reached.

A Redis is asked to ECHO. Nobody else uses ECHO, so a node's count of them tells whether a probe arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.base import Probe, Service

WITNESS_TIMEOUT_S: Final = 2.0
CHANNEL: Final = b"lock-lab:probe"
"""The channel of probes that subscribe."""
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]


class Ping(Protocol):
    """Ask whoever listens at ``address``, and wait at most ``timeout_s`` seconds; no answer is one too."""

    async def __call__(self, address: Address, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """Only a Redis sends the payload back; the others are asked without one."""
        ...


async def _probe(address: Address, timeout_s: float, payload_bytes: int = 0, *, talk: Talk) -> Probe:
    """Connect and ``talk``, which says whether it was answered; no connection, or a late answer, is a no."""
    start_ns = time.monotonic_ns()
    reached = False
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                reached = await talk(reader, writer)
            finally:
                writer.close()
    return Probe(reached, time.monotonic_ns() - start_ns)


async def echo(
    address: Address, timeout_s: float, payload_bytes: int = 5, *, subscribes: bool = False
) -> Probe:
    """Connect, ECHO, wait at most ``timeout_s`` seconds; failing to connect is an answer too.

    ``subscribes``: on a connection that has subscribed to a channel before.
    """
    payload = b"x" * payload_bytes

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if subscribes:
            await _subscribe(reader, writer, timeout_s / 2)
        writer.write(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (payload_bytes, payload))
        if not (await reader.readuntil(b"\r\n")).startswith(b"$"):  # an error: it is loading
            return False
        return await reader.readexactly(payload_bytes) == payload

    return await _probe(address, timeout_s, talk=talk)


async def _subscribe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience_s: float) -> None:
    """Subscribe to a channel; with the newer protocol other commands are executed afterwards as well.

    Without a confirmation it goes on after ``patience_s`` seconds: it may be held back, or lost.
    """
    words = (b"HELLO", b"3", b"SUBSCRIBE", CHANNEL)
    writer.write(b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % _sized(*words[:2]))
    writer.write(b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % _sized(*words[2:]))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await reader.readuntil(CHANNEL + b"\r\n:1\r\n")


def _sized(first: bytes, second: bytes) -> tuple[int, bytes, int, bytes]:
    return len(first), first, len(second), second


async def error_reply(address: Address, command: str, timeout_s: float) -> str | None:
    """Send a command without arguments; return the error that answers it, "" for another answer.

    None: no answer came in ``timeout_s`` seconds.
    """
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(b"*1\r\n$%d\r\n%b\r\n" % (len(command), command.encode()))
                line = (await reader.readuntil(b"\r\n")).decode(errors="replace")
                return line[1:].strip() if line.startswith("-") else ""
            finally:
                writer.close()
    return None


def question(words: bytes, answered: Callable[[bytes], bool]) -> Ping:
    """Return a ping that sends ``words`` and reads until ``answered`` says so, or the end."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(words)
        heard = b""
        while not answered(heard) and (more := await reader.read(4096)):
            heard += more
        return answered(heard)

    return partial(_probe, talk=talk)


def closes(words: bytes) -> Ping:
    """Return a ping that sends ``words`` to whoever is known to end the connection then."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(words)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        return True

    return partial(_probe, talk=talk)


PINGS: Final[dict[Service, Ping]] = {
    "redis": echo,
    # Each of them answers this by itself, whether or not it knows a leader.
    "etcd": question(
        b"GET /version HTTP/1.0\r\n\r\n", lambda heard: heard.partition(b"\r\n")[0].endswith(b" 200 OK")
    ),
    "zookeeper": question(b"srvr", lambda heard: b"ookeeper" in heard.lower()),
    # SSLRequest, which is answered with one letter before anybody logs in.
    "postgres": question(b"\x00\x00\x00\x08\x04\xd2\x16\x2f", lambda heard: heard[:1] in (b"S", b"N")),
}
"""How each kind of server is asked."""


class OpenConnection:
    """A connection that has carried one ECHO if anybody answered, and now waits for its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def make(cls, address: Address, ends: str, *, subscribes: bool = False) -> OpenConnection:
        """Connect, and send an ECHO; without an answer it is as good. ``ends`` says from where to where.

        ``subscribes``: on a connection that has subscribed to a channel before.

        Raises:
            UnknownOutcome: no connection could be made.
        """
        timeout_s = WITNESS_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(address.host, address.port)
        except OSError as error:
            raise UnknownOutcome(f"no connection from {ends} could be made: {error}") from error
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(timeout_s):
                if subscribes:
                    await _subscribe(reader, writer, timeout_s / 2)
                writer.write(b"ECHO probe\r\n")
                await reader.readexactly(len(b"$5\r\nprobe\r\n"))
        return cls(reader, writer)

    async def fate(self, timeout_s: float) -> str:
        """Wait for its end; "reset", "closed", or "open" if nothing happened for so long. Closes it."""
        try:
            async with asyncio.timeout(timeout_s):
                return "closed" if await self._reader.read(1) == b"" else "open"
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "open"
        finally:
            self._writer.close()
