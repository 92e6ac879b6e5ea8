"""The single writer of a history.

During a run, every writer appends to a log of its own under ``events/``, which survives a SIGKILL of the
writer. At its end, the recorder merges them by time into ``history.jsonl``, atomically and with a footer
(count and digest) that proves it complete. A run whose lab was killed has logs and no history; ``recover``
merges them without a footer, so that no check takes the history for a complete one.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from checker.formats.jsonl import footer_line
from checker.formats.whole import whole_file, write_whole
from checker.history.completeness import stated
from lab.client.log import EventLog
from lab.errors import ELSEWHERE, UnknownOutcome, cannot_write

HISTORY = "history.jsonl"
_HEADER = "header.json"
IN_MEMORY_BYTES_MAX: Final = 1 << 24
"""Larger logs are not read as a whole to be merged."""

Event = dict[str, Any]


class Recorder:
    """Writes the events of the lab itself, and merges all logs at the end.

    Args:
        directory: the run's directory.
        params: the ``params`` of the history's header.
        clock_ns: the one monotonic clock of the run.

    Raises:
        LabError: nothing can be written there.
    """

    def __init__(
        self, directory: Path, params: dict[str, Any], clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._directory = directory
        self._events = directory / "events"
        self._params = params
        self._clock_ns = clock_ns
        try:
            self._events.mkdir()
            write_whole(self._events / _HEADER, msgspec.json.encode(params))
            self._log = EventLog(self._events / "lab.jsonl")
        except OSError as error:
            raise cannot_write("the history", error, hint=ELSEWHERE) from error
        self._lost: OSError | None = None
        self.on_loss: Callable[[], None] = _nothing
        """Called once when an event could not be written, which makes the run unknown."""

    @property
    def client_logs(self) -> Path:
        """The directory in which clients append to their files."""
        return self._events

    def client_log(self, client: str) -> Path:
        """Return the file of a client's operations."""
        return self._events / f"client-{client}.jsonl"

    def now_ns(self) -> int:
        """Return the time on the history's clock."""
        return self._clock_ns()

    def write(self, process: str, kind: str, f: str, *, time_ns: int | None = None, **fields: Any) -> None:
        """Append an event of the lab (process nemesis, lab or node), stamped now or ``time_ns``."""
        event: Event = {
            "time_ns": self._clock_ns() if time_ns is None else time_ns,
            "process": process,
            "type": kind,
            "f": f,
        }
        event.update((name, value) for name, value in fields.items() if value is not None)
        if self._lost is not None:
            return
        try:
            self._log(event)
        except OSError as error:  # a full disk must not prevent the teardown
            self._lost = error
            self.on_loss()

    def finish(self) -> Path:
        """Merge all logs into the history, flush it to the disk, and return its path.

        Raises:
            UnknownOutcome: events were lost, or there is no room for the history. The logs are kept.
        """
        self._log.close()
        try:
            if self._lost is not None:
                raise self._lost
            path = _merge(self._directory, self._params, complete=True)
        except OSError as error:
            raise UnknownOutcome(
                f"the history cannot be written: {error.strerror or error}",
                where=str(self._directory),
                expected="room for it on the disk",
                hint=f"make room, or {ELSEWHERE}; `lab check` reads what was kept",
            ) from error
        for log in self._events.iterdir():
            log.unlink()
        self._events.rmdir()
        return path


def _nothing() -> None:
    """The default of ``on_loss``."""


def recover(directory: Path) -> Path | None:
    """Make a history from the logs of a run whose lab was killed; None if there are none.

    It has no footer: events may be missing, so no check of it can pass.
    """
    events = directory / "events"
    if not events.is_dir():
        return None
    try:
        params = msgspec.json.decode((events / _HEADER).read_bytes())
    except (OSError, msgspec.DecodeError):
        params = {}
    return _merge(directory, params, complete=False)


class _Stamp(msgspec.Struct):
    """The only field of an event that merging needs."""

    time_ns: int


def _merge(directory: Path, params: dict[str, Any], *, complete: bool) -> Path:
    """Merge all logs by time: in memory, or, if they are large, with only the places of the lines there."""
    logs = sorted((directory / "events").glob("*.jsonl"))
    path = directory / HISTORY
    with contextlib.ExitStack() as stack, whole_file(path) as sink:
        sources: list[IO[bytes]] = [stack.enter_context(log.open("rb")) for log in logs]
        if sum(os.fstat(source.fileno()).st_size for source in sources) <= IN_MEMORY_BYTES_MAX:
            sources = [io.BytesIO(source.read()) for source in sources]
        places = [
            (stamp, writer, offset, length)
            for writer, source in enumerate(sources)
            for stamp, offset, length in _places(source)
        ]
        places.sort()
        digest = hashlib.sha256()

        def put(line: bytes) -> None:
            digest.update(line)
            sink.write(line)

        put(msgspec.json.encode({"history": 1, "params": params}) + b"\n")
        for index, (_, writer, offset, length) in enumerate(places):
            sources[writer].seek(offset)
            # The index goes before the event's own fields; a line is an object that is never empty.
            put(b'{"index":%d,' % index + sources[writer].read(length)[1:])
        if complete:
            sink.write(footer_line(len(places), stated(digest)))
    return path


def _places(log: IO[bytes]) -> Iterable[tuple[int, int, int]]:
    """Yield time, offset and length of each line; one truncated by a SIGKILL is left out."""
    decoder = msgspec.json.Decoder(_Stamp)
    offset = 0
    for line in log:
        if line.endswith(b"\n"):
            yield decoder.decode(line).time_ns, offset, len(line)
        offset += len(line)
