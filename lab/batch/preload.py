"""Child processes that start with all imports done.

Half of the cost of a short run is Python's start and the imports. A server process without threads and
without the state of a run does them once, and forks a child per worker (multiprocessing's "forkserver").
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, ForkServerContext
from pathlib import Path
from types import ModuleType
from typing import Final

PRELOADED: Final = "lab.batch.preloaded"
"""Imports what every run needs; nothing there may start a thread or read a run's clock."""
TEAR_DOWN_S: Final = 30.0
"""How long an interrupted child may take to end what it started, before it is killed."""
COLLECT_AFTER: Final = 50_000
"""The first threshold of the garbage collector, in objects; with Python's 700 it would run very often."""


class Died(Exception):
    """A process ended by itself; the text says how."""


class Child:
    """A process that calls a function of a module with a pipe to its parent, in a session of its own.

    It has no input and no terminal; its stderr is kept for the case that it dies.

    Args:
        function: what it calls, with the pipe and the ``arguments``.
        forked: made of this process, which should have no other threads then, and not of the server.
    """

    def __init__(self, function: Callable[..., None], *arguments: object, forked: bool = False) -> None:
        self._forked = forked
        context: ForkContext | ForkServerContext = ForkContext() if forked else ForkServerContext()
        context.set_forkserver_preload([PRELOADED])
        kept, name = tempfile.mkstemp(prefix="lab-child-")
        self._kept, self._stderr = os.fdopen(kept, "rb"), Path(name)
        self._pipe, self._theirs = context.Pipe()
        self._process = context.Process(
            target=_run_child, args=(self._theirs, str(self._stderr), function, arguments), daemon=True
        )

    def begin(self) -> None:
        """Start it, and wait until there is a process. Raises ``OSError`` if none can be started."""
        main = sys.modules["__main__"]
        if not self._forked:
            # Each child would import the main module of this process again, which may take a second (as that
            # of a Dask worker does); what children do is in other modules.
            sys.modules["__main__"] = ModuleType("__main__")
        try:
            self._process.start()
        finally:
            sys.modules["__main__"] = main
            self._theirs.close()

    @property
    def pid(self) -> int:
        """Its process id; 0 before it has begun."""
        return self._process.pid or 0

    def fileno(self) -> int:
        """The descriptor that can be read when there is a message, or when it has ended."""
        return self._pipe.fileno()

    def take(self) -> bytes:
        """The next message from it, which is waited for. Raises ``Died``."""
        try:
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise self._died() from None

    def give(self, line: bytes) -> None:
        """Send it something. Raises ``Died``."""
        try:
            self._pipe.send_bytes(line)
        except OSError:
            raise self._died() from None

    def _died(self) -> Died:
        self._process.join()
        code = self._process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        lines = self._kept.read().decode(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        return Died(f"{how}, its last line: {last}" if last else how)

    def stop(self) -> None:
        """Interrupt it as by Ctrl-C, so that it tears down what it started; without waiting."""
        if self._process.is_alive():
            os.kill(self.pid, signal.SIGINT)

    def end(self, within_s: float = 0.0) -> bool:
        """Send no more, wait until it has ended, kill it if it takes longer, and release what it used.

        Whether it ended by itself, and without an error.
        """
        self._pipe.close()
        well = False
        if self._process.pid is not None:
            self._process.join(within_s)
            well = self._process.exitcode == 0
            self._process.kill()
            self._process.join()
            self._process.close()
        self._kept.close()
        self._stderr.unlink(missing_ok=True)  # of a child that never began
        return well


def _run_child(
    pipe: Connection, stderr: str, function: Callable[..., None], arguments: tuple[object, ...]
) -> None:
    """Call the function; a Ctrl-C reaches it once, from its caller, and not from the terminal as well."""
    os.setsid()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    Path(stderr).unlink()  # the caller has it open: nothing stays behind, however the two of them end
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, opened in enumerate((nothing, nothing, kept)):
        os.dup2(opened, number)
    function(pipe, *arguments)


def _end_with_the_caller() -> None:
    """End this process when the caller has ended, as by Ctrl-C: its result would be lost."""
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(TEAR_DOWN_S)
    os.kill(os.getpid(), signal.SIGKILL)
