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
        """Append one event. Raises ``OSError`` (a full disk), on which the client must end."""
        line = msgspec.json.encode(event) + b"\n"
        if self._file.write(line) != len(line):  # the last free bytes took a part of it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Recording:
    """Writes one client's operations to a sink as invoke and completion events.

    After an ``info`` the process is retired and the client goes on under a new process id, as in Jepsen: the
    old operation may still take effect. A second task of the client is a process of its own, ``alice+2``.
    """

    def __init__(
        self, client: str, sink: Sink, clock_ns: Callable[[], int] = time.monotonic_ns, *, task: int = 1
    ) -> None:
        self.client = client
        self._sink = sink
        self._clock_ns = clock_ns
        self._life = 1
        self._first = client if task == 1 else f"{client}+{task}"
        self.process = self._first
        """The current process id of this task of the client."""

    def invoke(self, f: str, **fields: Any) -> None:
        """Record that an operation is called."""
        self._write("invoke", f, fields)

    def ok(self, f: str, **fields: Any) -> None:
        """Record that it succeeded."""
        self._write("ok", f, fields)

    def fail(self, f: str, **fields: Any) -> None:
        """Record that it certainly had no effect."""
        self._write("fail", f, fields)

    def info(self, f: str, **fields: Any) -> None:
        """Record that its outcome is not known, and retire the process."""
        self._write("info", f, fields)
        self._life += 1
        self.process = f"{self._first}/{self._life}"

    def unattended(self, by: str, f: str, **fields: Any) -> None:
        """Record an operation in the background, by ``by``, whose completion is never observed."""
        self._write("invoke", f, fields, process=f"{self.process}/{by}")

    def lost(self, **fields: Any) -> None:
        """Record that the library reports, unasked, that it holds a lease no more: its belief ends.

        It is an answer of ``held`` by a process of its own, as the client may be in the middle of something.
        """
        process = f"{self.process}/report on {fields['grant_id']}"
        self._write("invoke", "held", fields, process)
        self._write("ok", "held", {**fields, "value": "no"}, process)

    def stall(self, start_ns: int, duration_ns: int) -> None:
        """Record that this process was not scheduled for so long."""
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
