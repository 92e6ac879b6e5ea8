"""The near end of a simulated connection, as asyncio's protocols see it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.substrates.sim.loop import HostLoop
    from lab.substrates.sim.network import Connection

Bytes = bytes | bytearray | memoryview


class SimTransport(asyncio.Transport):
    """What has arrived waits in the "kernel" until the host's loop is stepped, as with a paused process."""

    def __init__(self, loop: HostLoop) -> None:
        super().__init__()
        self._loop = loop
        self.connection: Connection | None = None
        self._protocol: asyncio.BaseProtocol | None = None
        self._received = bytearray()
        self._end: bool | None = None
        self._notified = False
        self._closing = False
        self._reads = True

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection is there, and this protocol speaks on it."""
        self._protocol = protocol
        self._loop.transports[self] = None
        protocol.connection_made(self)
        if self._received or self._end is not None:
            self._notify()

    # From the network

    def arrived(self, data: bytes) -> None:
        """Bytes have reached this machine."""
        self._received += data
        if self._protocol is not None and not self._notified and not self._loop.is_closed():
            self._notified = True
            self._loop.at_once(self._deliver)

    def ended(self, reset: bool) -> None:
        """The far end has closed, or reset, the connection."""
        self._end = reset
        self._notify()

    def _notify(self) -> None:
        if self._protocol is not None and not self._notified and not self._loop.is_closed():
            self._notified = True
            self._loop.on_io(self._deliver)

    def _deliver(self) -> None:
        self._notified = False
        protocol = self._protocol
        if self._closing or protocol is None:
            return
        if self._end:
            self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            return
        if self._received and self._reads:
            data, self._received = bytes(self._received), bytearray()
            if isinstance(protocol, asyncio.Protocol):
                protocol.data_received(data)
        if self._end is not None and not self._received:
            if isinstance(protocol, asyncio.Protocol):
                protocol.eof_received()
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._notify_lost, error)

    def _notify_lost(self, error: Exception | None) -> None:
        self._loop.transports.pop(self, None)
        protocol = self._protocol
        if protocol is not None:
            self.forget()
            protocol.connection_lost(error)

    def forget(self) -> None:
        """Refer to the protocol no more: it has been told of the end, or nobody runs any more."""
        self._protocol = None

    # From the protocol

    def write(self, data: Bytes) -> None:
        """Send."""
        if data and not self._closing and self.connection is not None:
            self.connection.send_up(bytes(data))

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        """Send several pieces as one."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Close the connection."""
        if not self._closing:
            if self.connection is not None:
                self.connection.close_near()
            self._lose(None)

    abort = close

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    def pause_reading(self) -> None:
        """Leave what arrives in the kernel."""
        self._reads = False

    def resume_reading(self) -> None:
        """Deliver what arrived meanwhile."""
        self._reads = True
        if self._received or self._end is not None:
            self._notify()

    def is_reading(self) -> bool:
        """Whether what arrives is delivered."""
        return self._reads

    def can_write_eof(self) -> bool:
        """Half-closed connections are not simulated."""
        return False

    def get_write_buffer_size(self) -> int:
        """Everything is sent at once."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Change nothing: nothing is kept here."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Let another protocol speak."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who speaks."""
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Say who is at the ends; there is no socket."""
        if self.connection is None:
            return default
        ends = {
            "peername": (self.connection.way.listener.name, 6379),
            "sockname": (self.connection.near_name, 40_000 + self.connection.number % 20_000),
        }
        return ends.get(name, default)
