"""Commands of the lab in processes of their own that need not import everything again.

Half of what a short ``lab run`` costs is Python's start and the imports. A server that has them behind it,
and no thread and no state of a run, forks a child per command (multiprocessing's "forkserver").
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, NamedTuple

PRELOADED: Final = (
    "checker.check",
    "lab.api.runs",
    "lab.cli.run",
    "lab.run.result",
    "lab.report.terminal",
    "lab.run.execution",
    "lab.scenario.load",
    "lab.substrates.local.cluster",
    "lab.batch.preload_all",
)
"""What every run imports, and what is built then; nothing here may start a thread or read a run's clock."""

TEAR_DOWN_S: Final = 30.0
"""How long an interrupted command may take to end what it started, before it is killed."""


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: the signal that killed it), and what it wrote."""

    code: int
    out: bytes
    err: str


async def call(words: Sequence[str]) -> Ended:
    """Run ``lab WORDS`` in a child of its own session, without input, to its end.

    When this is cancelled, the command is interrupted as by Ctrl-C, so that it tears down first.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with tempfile.TemporaryDirectory(prefix="lab-call-") as kept:
        out, err = Path(kept, "out"), Path(kept, "err")
        process = context.Process(target=_become, args=(tuple(words), str(out), str(err)))
        await asyncio.to_thread(process.start)  # the first one waits for the server's imports
        try:
            await _end(process)
        except asyncio.CancelledError:
            await _interrupt(process)
            raise
        finally:
            code = process.exitcode
            process.close()
        return Ended(1 if code is None else code, _read(out), _read(err).decode(errors="replace"))


def _become(words: tuple[str, ...], out: str, err: str) -> None:
    """Be ``lab WORDS``; a Ctrl-C reaches it from its caller, once, and not from the terminal as well."""
    os.setsid()
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    sys.stdout.flush()
    sys.stderr.flush()
    for number, (path, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), (out, os.O_WRONLY | os.O_CREAT), (err, os.O_WRONLY | os.O_CREAT))
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["lab", *words]
    from lab.__main__ import main

    main()


def _end_with_the_caller() -> None:
    """Be interrupted when the caller is gone: nobody would read what comes out, and it may take long."""
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os.kill(os.getpid(), signal.SIGTERM)


async def _end(process: BaseProcess) -> None:
    """Wait for its end without holding up the loop."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()


async def _interrupt(process: BaseProcess) -> None:
    """Let it tear down what it started; kill it only if it does not."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid or 0, signal.SIGINT)
        try:
            async with asyncio.timeout(TEAR_DOWN_S):
                await _end(process)
        except TimeoutError:
            process.kill()
            await _end(process)


def _read(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return b""
