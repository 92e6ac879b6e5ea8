"""One ECHO on a fresh connection: the smallest proof that something is, or is not, reached.

Nobody else uses ECHO, so a node's count of them tells whether a probe arrived there.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from lab.address import Address
from lab.substrates.base import Probe


async def echo(address: Address, timeout_s: float, payload_bytes: int = 5) -> Probe:
    """Connect, ECHO, wait at most ``timeout_s`` seconds; failing to connect is an answer too."""
    payload = b"x" * payload_bytes
    question = b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (payload_bytes, payload)
    start_ns = time.monotonic_ns()
    reached = False
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(question)
                if (await reader.readuntil(b"\r\n")).startswith(b"$"):  # else an error: it is loading
                    reached = await reader.readexactly(payload_bytes) == payload
            finally:
                writer.close()
    return Probe(reached, time.monotonic_ns() - start_ns)


class OpenConnection:
    """A connection that has carried one ECHO if anybody answered, and now waits for its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def make(cls, address: Address, timeout_s: float) -> OpenConnection:
        """Connect, and send an ECHO; without an answer it is as good. Raises ``OSError``."""
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port)
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
