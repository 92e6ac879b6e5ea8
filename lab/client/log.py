"""A client's own event log: one write(2) per event, so that it survives the client's SIGKILL."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

Sink = Callable[[dict[str, Any]], None]


class EventLog:
    """Appends events to a file as JSON lines; the page cache keeps what a killed process wrote."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __call__(self, event: dict[str, Any]) -> None:
        """Append one event; ``OSError`` (a full disk) is the caller's to end on."""
        line = msgspec.json.encode(event) + b"\n"
        if self._file.write(line) != len(line):  # the last free bytes took a part of it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Recording:
    """One client's operations, told to a sink as invoke and completion events.

    After an ``info`` the process is retired and the client goes on under a new name, as in Jepsen: nobody
    knows whether the old operation will still take effect.
    """

    def __init__(self, client: str, sink: Sink, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.client = client
        self._sink = sink
        self._clock_ns = clock_ns
        self._life = 1
        self.process = client
        """The process id under which the client acts now."""

    def invoke(self, f: str, **fields: Any) -> None:
        """Record that an operation is called."""
        self._write("invoke", f, fields)

    def ok(self, f: str, **fields: Any) -> None:
        """Record that it succeeded."""
        self._write("ok", f, fields)

    def fail(self, f: str, **fields: Any) -> None:
        """Record that it surely had no effect."""
        self._write("fail", f, fields)

    def info(self, f: str, **fields: Any) -> None:
        """Record that nobody knows, and retire the process."""
        self._write("info", f, fields)
        self._life += 1
        self.process = f"{self.client}/{self._life}"

    def unattended(self, by: str, f: str, **fields: Any) -> None:
        """Record that something goes on for this client, by ``by``, whose end nobody will see."""
        self._write("invoke", f, fields, process=f"{self.process}/{by}")

    def stall(self, start_ns: int, duration_ns: int) -> None:
        """Record that this process stood still."""
        self._write("info", "stall", {"start_ns": start_ns, "duration_ns": duration_ns})

    def _write(self, kind: str, f: str, fields: dict[str, Any], process: str | None = None) -> None:
        event: dict[str, Any] = {
            "time_ns": self._clock_ns(),
            "process": process or self.process,
            "client": self.client,
            "type": kind,
            "f": f,
        }
        if None in fields.values():
            fields = {name: value for name, value in fields.items() if value is not None}
        event.update(fields)
        self._sink(event)
