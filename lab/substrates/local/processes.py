"""Child processes of a local run: started without a shell, in groups of their own, watched until they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from lab.leftovers import RUN_VARIABLE

PORTS = range(10_000, 30_000)
"""Below the range from which the kernel takes ports for outgoing connections, which come and go."""


def free_ports(count: int) -> list[int]:
    """Return distinct ports nobody listens on right now, drawn at random so that two labs rarely meet."""
    drawn: list[int] = []
    while len(drawn) < count:
        port = secrets.choice(PORTS)
        if port not in drawn and is_port_free(port):
            drawn.append(port)
    return drawn


def is_port_free(port: int) -> bool:
    """Tell whether a listener could be put on this loopback port now."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def reserved(port: int) -> Iterator[None]:
    """Keep a port from being given to anybody who asks for a free one, while nobody listens on it.

    A server that names the port can still listen there, even before this ends: both sockets allow reuse, and
    this one never listens. A port that is taken already is left alone.
    """
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
        yield


class Child:
    """One child process and its log file.

    ``expected_end`` is set by whoever ends it on purpose; an end that nobody expected fails the run.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name, self.process, self.log = name, process, log
        self.expected_end = False

    @property
    def pid(self) -> int:
        """The process id, which is also its process group's."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.returncode is None

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; a group that is gone is no error."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def tail(self, lines: int = 5) -> str:
        """Return the last lines of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


class Nursery:
    """All children of one run. ``failed`` completes with a sentence when one ends that should not."""

    def __init__(self, run_id: str, log_dir: Path, failed: asyncio.Future[str]) -> None:
        self._run_id = run_id
        self._log_dir = log_dir
        self._failed = failed
        self._children: list[Child] = []
        self._watchers: set[asyncio.Task[None]] = set()

    async def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        talks: bool = False,
        directory: Path | None = None,
    ) -> Child:
        """Start a process. With ``talks`` its stdin and stdout are pipes to us; stderr goes to its log."""
        log = self._log_dir / f"{name}.log"
        with log.open("ab") as sink:
            process = await asyncio.create_subprocess_exec(
                *map(str, command),
                stdin=asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if talks else _descriptor(sink),
                stderr=_descriptor(sink),
                env={**os.environ, **(environment or {}), RUN_VARIABLE: self._run_id},
                cwd=directory,
                start_new_session=True,
                limit=1 << 20,
            )
        child = Child(name, process, log)
        self._children.append(child)
        watcher = asyncio.create_task(self._watch(child))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return child

    async def _watch(self, child: Child) -> None:
        code = await child.process.wait()
        if not child.expected_end and not self._failed.done():
            tail = child.tail()
            self._failed.set_result(
                f"{child.name} ended by itself ({_in_words(code)})"
                + (f"; its log ends:\n{tail}" if tail else "")
            )

    async def stop_all(self) -> None:
        """End every child at once and reap it; what was stopped by a signal is ended as well."""
        for child in self._children:
            child.expected_end = True
            if child.running:
                child.signal_group(signal.SIGKILL)
        await asyncio.gather(*(child.process.wait() for child in self._children))
        await asyncio.gather(*self._watchers)


def _descriptor(sink: IO[bytes]) -> int:
    return sink.fileno()


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
