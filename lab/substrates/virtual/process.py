"""One real process under the preload library: started as a program, or copied from one that stands still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

CHUNK: Final = 1 << 16
LAST_THREAD_S: Final = 0.0002
"""How long the last thread of a process that has ended mostly takes until the kernel is done with it.

Whoever reaps the process before spins in the kernel, on the CPU that the thread waits for: some milliseconds.
"""


class CopiedProcess:
    """A child that was not started as a program, as ``subprocess.Popen`` shows the others."""

    stdin = stdout = None

    def __init__(self) -> None:
        self.pid = 0
        """0: it is not there yet."""
        self.returncode: int | None = None
        self.has_ended = False
        """Whether it is known to have ended, also its last thread; it may not have been reaped."""

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        """Wait for its end; None if it never was there."""
        await_ends([self])
        return self._waited(0)

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None and self.pid:
            os.kill(self.pid, number)

    def _waited(self, options: int) -> int | None:
        if self.returncode is None and self.pid:
            ended, status = os.waitpid(self.pid, options)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def await_ends(copies: Sequence[CopiedProcess]) -> None:
    """Wait until the last threads of all of these are gone, so that they can be reaped."""
    running = [each for each in copies if each.returncode is None and each.pid and not each.has_ended]
    for each in running:
        os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
        each.has_ended = True
    if running:
        time.sleep(LAST_THREAD_S)


class RealProcess:
    """One process under the preload library."""

    def __init__(
        self,
        number: int,
        popen: subprocess.Popen[bytes] | CopiedProcess,
        command: Sequence[str],
        label: str,
        log: Path,
    ) -> None:
        self.command = tuple(command)
        self.number, self.popen, self.label, self.log = number, popen, label, log
        self.names_file: Path | None = None
        """Where it looks the names of servers up, if it does."""
        self.lines_given = 0
        """How many lines went into its standard input."""
        self.said = b""
        """What came out of its standard output."""
        self.expected_end = False
        """Whether an end of it is no accident."""
        self.on_exit: Callable[[], None] | None = None

    def kill_group(self) -> None:
        """SIGKILL to it and all that it started."""
        if self.popen.pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)

    def end(self) -> None:
        """End it at once, with all that it started."""
        self.kill_group()
        self.popen.wait()

    def tail(self, lines: int = 8) -> str:
        """The last lines of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


def append(log: Path, written: Path) -> None:
    """Append what a process has written to the log of its name. Raises ``OSError``."""
    to = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        source = os.open(written, os.O_RDONLY)
        try:
            while data := os.read(source, CHUNK):
                os.write(to, data)
        finally:
            os.close(source)
    finally:
        os.close(to)
