"""The conductor's ends of the connections, listening sockets and pipes of real processes."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from lab.errors import UnknownOutcome
from lab.substrates.sim.network import Connection, Network, Way
from lab.substrates.virtual.machine import RealMachine

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 128
CHUNK: Final = 1 << 16
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing resets the connection."""


class Stream:
    """The conductor's end of one connection to a process."""

    def __init__(
        self,
        machine: RealMachine,
        connection: socket.socket,
        heard: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        connection.setblocking(False)
        self._machine, self._socket = machine, connection
        self._number = connection.fileno()
        self._heard, self._ended = heard, ended
        self._closed = False
        self._is_tcp = connection.family == socket.AF_INET
        self._pieces: list[bytes] = []
        self.number = machine.add(self)

    def fileno(self) -> int:
        """The descriptor; -1 if it is closed."""
        return self._number

    def ready(self) -> int:
        """Read what there is; tell of the end once."""
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            if len(data) == CHUNK:
                self._machine.more_to_read = True
            if not self._is_tcp:
                self._heard(data)
                return 0
            self._pieces.append(data)
            self._machine.gather(self)
            return len(data)
        self.hand_on()
        self._machine.forget(self)
        if self._machine.waits_for_ends:
            self._machine.give(self._close)
        else:
            self._close()
        self._ended()
        return 0

    def hand_on(self) -> None:
        """Hand on what was read since the last time, as one piece."""
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._heard(b"".join(pieces))

    def send(self, data: bytes) -> None:
        """Give bytes to the process, now or when its machine goes on."""
        self._machine.give(partial(self._send, data))

    def close(self, *, reset: bool = False) -> None:
        """Close the connection, now or when its machine goes on."""
        self._machine.give(lambda: self._close(reset=reset))

    def drop(self) -> None:
        """Let go of it at once: there is no process any more."""
        self._close()

    def hang_up(self) -> None:
        """The process is gone: tell of the end as if it had closed the connection."""
        if not self._closed:
            self.hand_on()
            self._close()
            self._ended()

    def _send(self, data: bytes) -> None:
        if not self._closed:
            try:
                sent = self._socket.send(data)
            except (BrokenPipeError, ConnectionResetError):
                return
            if sent < len(data):  # as much as the kernel keeps for one that does not read
                raise UnknownOutcome(f"a connection of {self._machine.host.name} took {sent} bytes only")

    def _close(self, *, reset: bool = False) -> None:
        if not self._closed:
            self._closed = True
            self._machine.forget(self)
            self._number = -1
            self._machine.note_closed()
            if reset:
                with contextlib.suppress(OSError):
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._socket.close()


class Pipe:
    """The conductor's end of a process's standard output."""

    def __init__(
        self, machine: RealMachine, descriptor: int, heard: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        os.set_blocking(descriptor, False)
        self._machine, self._descriptor = machine, descriptor
        self._heard, self._ended = heard, ended
        machine.add(self)

    def hang_up(self) -> None:
        """Its end is read as any other."""

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def drop(self) -> None:
        """Read it no more."""
        self._machine.forget(self)

    def ready(self) -> int:
        """Read what there is; tell of the end once."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._descriptor, CHUNK)
            if data:
                self._machine.more_to_read |= len(data) == CHUNK
                self._heard(data)
            else:
                self._machine.forget(self)
                self._ended()
        return 0


class Door:
    """Where the processes of one machine reach a link: a port of this machine that the conductor listens on.

    ``host`` is a loopback address, ``port`` 0 any port.

    What they connect and send becomes a connection of the simulated network, with its latency and faults.
    """

    def __init__(self, machine: RealMachine, network: Network, host: str = LOOPBACK, port: int = 0) -> None:
        self._machine, self._network = machine, network
        self._socket: socket.socket | None = None
        self.host, self.port = host, port
        self._way: Way | None = None
        self.open()

    def leads_to(self, way: Way) -> None:
        """Say which way begins here."""
        self._way = way

    def open(self) -> None:
        """Listen, on the same port as before."""
        if self._socket is None:
            listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((self.host, self.port))
            listening.listen(BACKLOG)
            listening.setblocking(False)
            self._socket, self.port = listening, listening.getsockname()[1]
            self._machine.add(self)

    def close(self) -> None:
        """Refuse connections."""
        if self._socket is not None:
            self._machine.forget(self)
            self._socket.close()
            self._socket = None

    drop = close

    def hang_up(self) -> None:
        """The machine is there, though its process is gone."""

    async def opened(self) -> None:
        """Open it, for a host's code."""
        await self._machine.world.outside(self.open)

    async def closed(self) -> None:
        """Close it, for a host's code."""
        await self._machine.world.outside(self.close)

    def fileno(self) -> int:
        """The descriptor."""
        return -1 if self._socket is None else self._socket.fileno()

    def ready(self) -> int:
        """Take in every connection that was made."""
        while self._socket is not None and self._way is not None:
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                break
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            NearEnd(self._machine, accepted).connect(self._network, self._way)
        return 0


class NearEnd:
    """One connection that a process has made to a link."""

    def __init__(self, machine: RealMachine, accepted: socket.socket) -> None:
        self._machine = machine
        self._unsent: list[bytes] = []
        self._connection: Connection | None = None
        self._over = False
        self._stream = Stream(machine, accepted, self._said, self._left)

    def connect(self, network: Network, way: Way) -> None:
        """Connect it to the far end."""
        network.open(way, self._machine.host.name, self._stream.send, self._ended, self._opened)

    def _opened(self, connection: Connection | None) -> None:
        if connection is None:
            self._stream.close(reset=True)
            return
        self._connection = connection
        for data in self._unsent:
            connection.send_up(data)
        self._unsent.clear()
        if self._over:
            connection.close_near()

    def _said(self, data: bytes) -> None:
        if self._connection is None:
            self._unsent.append(data)
        else:
            self._connection.send_up(data)

    def _left(self) -> None:
        self._over = True
        if self._connection is not None:
            self._connection.close_near()

    def _ended(self, reset: bool) -> None:
        self._stream.close(reset=reset)
