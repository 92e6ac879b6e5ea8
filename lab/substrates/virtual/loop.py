"""The event loop of a simulated host that may start real processes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import IO, Any, Final

from lab.substrates.sim.host import Host, forbidden
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.network import Network
from lab.substrates.virtual.ends import Pipe
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.process import RealProcess

PIPE_NS: Final = 20_000
"""How long a line is on its way into a process, through a pipe."""
STDIN: Final = 0
STDOUT: Final = 1


class VirtualLoop(HostLoop):
    """A simulated host's loop; ``subprocess_exec`` starts a process in virtual time."""

    def __init__(self, host: Host, network: Network, machine: RealMachine) -> None:
        super().__init__(host, network)
        self.machine = machine

    async def subprocess_exec(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.SubprocessProtocol], *args: Any, **options: Any
    ) -> tuple[asyncio.SubprocessTransport, asyncio.SubprocessProtocol]:
        """Start a program whose stdin and stdout are pipes; its stderr goes to the client's log.

        Raises:
            OSError: it cannot be started.
            UnknownOutcome: it does not run under the preload library.
        """
        if (options.get("stdin"), options.get("stdout")) != (asyncio.subprocess.PIPE,) * 2:
            raise forbidden(self.host, "starts a process without pipes", "stdin and stdout as pipes")
        started: asyncio.Future[RealProcess] = self.create_future()

        def start() -> None:
            try:
                process = self.machine.start(f"client-{self.host.name}", [str(word) for word in args])
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                self.on_io(_settle, started, None, error)
            else:
                self.on_io(_settle, started, process, None)

        self.host.world.at(self.host.world.now_ns, start)
        process = await started
        protocol = protocol_factory()
        return ProcessTransport(self, protocol, process), protocol


def _settle(started: asyncio.Future[RealProcess], process: RealProcess | None, error: Any) -> None:
    if started.done():
        return
    if error is not None:
        started.set_exception(error)
    elif process is not None:
        started.set_result(process)


class ProcessTransport(asyncio.SubprocessTransport):
    """One real process, as asyncio's protocols see it."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.SubprocessProtocol, process: RealProcess) -> None:
        super().__init__()
        self._loop, self._protocol, self._process = loop, protocol, process
        self._returncode: int | None = None
        self._exited: asyncio.Future[None] = loop.create_future()
        popen = process.popen
        assert popen.stdin is not None
        assert popen.stdout is not None
        self._stdin, self._stdout = _Stdin(loop, process, popen.stdin), _Stdout()
        process.on_exit = self._on_exit
        Pipe(loop.machine, popen.stdout.fileno(), self._said, self._stdout_ended)
        protocol.connection_made(self)

    def get_pid(self) -> int:
        """The process id."""
        return self._process.popen.pid

    def get_returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        """Its standard input or output."""
        return {STDIN: self._stdin, STDOUT: self._stdout}.get(fd)

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self._returncode is not None

    def send_signal(self, signal: int) -> None:
        """Send a signal."""
        number = signal
        world = self._loop.host.world
        world.at(world.now_ns, lambda: self._loop.machine.give(lambda: self._signal(number)))

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close its input; one that stays is killed by its machine."""
        self._stdin.close()

    async def _wait(self) -> int:
        await self._exited
        assert self._returncode is not None
        return self._returncode

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.popen.send_signal(number)

    def _said(self, data: bytes) -> None:
        self._process.said += data
        self._loop.on_io(self._protocol.pipe_data_received, STDOUT, data)

    def _stdout_ended(self) -> None:
        self._loop.on_io(self._protocol.pipe_connection_lost, STDOUT, None)

    def _on_exit(self) -> None:
        if not self._loop.is_closed():
            self._loop.on_io(self._notify_exit)

    def _notify_exit(self) -> None:
        self._returncode = self._process.popen.returncode
        self._stdin.forget()
        self._protocol.process_exited()
        if not self._exited.done():
            self._exited.set_result(None)


class _Stdout(asyncio.ReadTransport):
    """The pipe out of a process; what it prints is never kept back."""

    def pause_reading(self) -> None:
        """Change nothing."""

    def resume_reading(self) -> None:
        """Change nothing."""

    def close(self) -> None:
        """Change nothing: the process's end closes it."""


class _Stdin(asyncio.WriteTransport):
    """The pipe into a process."""

    def __init__(self, loop: VirtualLoop, process: RealProcess, pipe: IO[bytes]) -> None:
        super().__init__()
        self._loop, self._process, self._pipe = loop, process, pipe
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, in order, after a moment."""
        if not self._closing:
            self._later(lambda: self._write(bytes(data)))

    def close(self) -> None:
        """End the input after what was written."""
        if not self._closing:
            self._closing = True
            self._later(self.forget)

    abort = close

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Nothing is known."""
        return default

    def forget(self) -> None:
        """Close the descriptor."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._pipe.close()

    def _later(self, act: Callable[[], None]) -> None:
        self._loop.host.world.after(PIPE_NS, self._loop.machine.give, act)

    def _write(self, data: bytes) -> None:
        if not self._pipe.closed:
            self._process.lines_given += data.count(b"\n")
            with contextlib.suppress(BrokenPipeError):  # it has ended, which its exit says
                self._pipe.write(data)
