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


async def echo(address: Address, timeout_s: float, payload_bytes: int = 5) -> Probe:
    """Connect, ECHO, wait at most ``timeout_s`` seconds; failing to connect is an answer too."""
    payload = b"x" * payload_bytes

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (payload_bytes, payload))
        if not (await reader.readuntil(b"\r\n")).startswith(b"$"):  # an error: it is loading
            return False
        return await reader.readexactly(payload_bytes) == payload

    return await _probe(address, timeout_s, talk=talk)


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
    async def make(cls, address: Address, ends: str) -> OpenConnection:
        """Connect, and send an ECHO; without an answer it is as good. ``ends`` says from where to where.

        Raises:
            UnknownOutcome: no connection could be made.
        """
        timeout_s = WITNESS_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(address.host, address.port)
        except OSError as error:
            raise UnknownOutcome(f"no connection from {ends} could be made: {error}") from error
        writer.write(b"ECHO probe\r\n")
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(timeout_s):
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
