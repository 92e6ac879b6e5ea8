"""One client as a process of its own, so that it can be paused, killed and given another clock.

It takes commands over stdin and answers over stdout (see ``lab.client_protocol``); end of input ends it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path

import msgspec

from lab.client.log import EventLog
from lab.client.serve import serve
from lab.client_protocol import LOADED_ID, Answer, Command, Outcome, Setup


class Pipes:
    """The connection to the lab: JSON lines over stdin and stdout."""

    def __init__(self, lines: asyncio.StreamReader) -> None:
        self._lines = lines

    @classmethod
    async def open(cls) -> Pipes:
        """Connect to stdin."""
        reader = asyncio.StreamReader(limit=1 << 20)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        return cls(reader)

    async def setup(self) -> Setup | None:
        """Wait for the first line."""
        line = await self._lines.readline()
        return msgspec.json.decode(line, type=Setup) if line else None

    async def command(self) -> Command | None:
        """Wait for the next one."""
        line = await self._lines.readline()
        return msgspec.json.decode(line, type=Command) if line else None

    def answer(self, answer: Answer) -> None:
        """Print it."""
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()

    def note(self, error: Exception) -> None:
        """Write the traceback to the client's log."""
        traceback.print_exception(error)

    def broke(self, error: Exception) -> None:
        """Write the traceback to the client's log, and exit, even if the disk with the log is full."""
        try:
            traceback.print_exception(error)
        finally:
            os._exit(1)


async def _main() -> None:
    pipes = await Pipes.open()
    pipes.answer(Answer(LOADED_ID, Outcome.OK))
    setup = await pipes.setup()
    if setup is not None:
        await serve(setup, pipes, EventLog(Path(setup.log_path)))


if __name__ == "__main__":
    asyncio.run(_main())
