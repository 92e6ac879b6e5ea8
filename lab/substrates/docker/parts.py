"""Nodes, clients and clocks that are containers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.servers import DEFAULT_SETTINGS, ServerSettings
from lab.substrates.base import ClockReading
from lab.substrates.docker.container import Container
from lab.substrates.docker.engine import Engine
from lab.substrates.docker.topology import MORE, clock_environment
from lab.substrates.real.client import ProcessClient
from lab.substrates.real.clock import WallClock, reading
from lab.substrates.real.disk import NodeDisk
from lab.substrates.real.node import RedisNode

if TYPE_CHECKING:
    import socket

    from docker import APIClient

WITNESS = ["/lock-lab/witness"]
STDOUT, STDERR = 1, 2
LINE_MAX = 1 << 20


class ContainerClock(WallClock):
    """The clock of one container; another one, which nobody touches, can show it as well."""

    def __init__(self, path: Path, witness: Witness) -> None:
        super().__init__(path)
        self._witness = witness

    async def witness(self) -> ClockReading:
        """Start a process with this clock and ask it for the time. Raises ``UnknownOutcome``."""
        before_ns = time.time_ns()
        shown_ns, _ = await self._witness.read(self.path.name)
        return reading(shown_ns, before_ns, time.time_ns())


class Witness:
    """Tells the time in a container that no fault touches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.where: Container | None = None

    async def read(self, clock: str | None = None) -> tuple[int, int]:
        """What the wall clock of that name and the monotonic clock show, in nanoseconds.

        Raises:
            UnknownOutcome: it could not be asked.
        """
        if self.where is None:
            raise UnknownOutcome("nobody can be asked for the time yet")
        container = self.where.id
        output = await self._engine.call(lambda api: _read_clock(api, container, clock))
        try:
            wall, monotonic = output.split()
            return int(wall), int(monotonic)
        except ValueError as error:
            raise UnknownOutcome(f"a container asked for the time said {output[:200]!r}") from error


def _read_clock(api: APIClient, container: str, clock: str | None) -> bytes:
    environment = clock_environment(clock) if clock is not None else {}
    made: dict[str, Any] = api.exec_create(container, WITNESS, environment=environment)
    output: bytes = api.exec_start(made["Id"])
    return output


class DockerNode(RedisNode[Container]):
    """A node in a container; ``address`` leads to it around every link."""

    def __init__(
        self,
        address: Address,
        container: Container,
        clock: ContainerClock | None,
        disk: NodeDisk,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> None:
        super().__init__(address, clock, disk, settings)
        self._container = container
        self._configure()

    def locate(self, host: str) -> None:
        """Learn the address, which the engine chooses when Toxiproxy's container starts."""
        self._reach(Address(self.name, host, self.address.port))

    async def start(self) -> None:
        """Start the container, or start it again, with what its files keep."""
        self._configure()
        self.child = self._container
        await self._container.start()
        await self._until_ready(self._container)

    def _configure(self) -> None:
        """A container's command never changes, so what does is read from a file."""
        master = self._replicates
        self._file.write_text(f"replicaof {master.host} {master.port}\n" if master is not None else "")

    @property
    def _file(self) -> Path:
        return self._disk.directory / MORE


class DockerClient(ProcessClient[Container]):
    """A client in a container, to which we are attached."""

    def __init__(
        self, name: str, engine: Engine, container: Container, clock: ContainerClock, log: Path
    ) -> None:
        super().__init__(name, clock)
        self._engine = engine
        self._container = container
        self._log = log
        self._attached: Any = None
        self._writer: asyncio.StreamWriter | None = None
        self._lines = asyncio.StreamReader(limit=LINE_MAX)
        self._pump: asyncio.Task[None] | None = None

    async def launch(self) -> None:
        """Attach to the container and start it; it imports what it needs while the rest comes up."""
        self._attached = await self._engine.call(self._attach)
        raw: socket.socket = self._attached._sock
        raw.setblocking(False)
        reader, self._writer = await asyncio.open_unix_connection(sock=raw, limit=LINE_MAX)
        self._pump = asyncio.create_task(self._sort(reader))
        self.child = self._container
        await self._container.start()

    def _attach(self, api: APIClient) -> Any:
        return api.attach_socket(
            self._container.id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        )

    def close(self) -> None:
        """Let go of its clock and of the connection."""
        super().close()
        if self._pump is not None:
            self._pump.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _say(self, line: bytes) -> None:
        if self._writer is None:
            raise UnknownOutcome(f"{self.name} was never started")
        self._writer.write(line)
        await self._writer.drain()

    async def _hear(self) -> bytes:
        return await self._lines.readline()

    async def _sort(self, reader: asyncio.StreamReader) -> None:
        """Take apart what the engine sends: frames of stdout, which we read, and of stderr, for the log."""
        try:
            with self._log.open("ab") as log, contextlib.suppress(asyncio.IncompleteReadError, OSError):
                while True:
                    head = await reader.readexactly(8)
                    content = await reader.readexactly(int.from_bytes(head[4:], "big"))
                    if head[0] == STDOUT:
                        self._lines.feed_data(content)
                    else:
                        log.write(content)
                        log.flush()
        finally:
            self._lines.feed_eof()
