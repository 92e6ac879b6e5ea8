"""The lines of a history that grows: from a file, or from standard input."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from checker.errors import UNREADABLE, HistoryError
from checker.formats import jsonl
from checker.formats.edn import event_of
from checker.formats.explain import explained
from checker.formats.foreign import AS_IT_IS, Reading, adapted_alone
from checker.formats.jsonl import tupled
from checker.history.events import Event, Footer, Params, Recorder

STANDARD_INPUT: Final = "-"
POLL_S: Final = 0.05
QUIET_POLLS: Final = 10
"""After so many polls without anything new, what is there is judged as it stands."""
_READ_BYTES: Final = 1 << 16
_SEEN_BYTES: Final = 1 << 12
"""So much of what was read last is compared when the file grows: a file that is cut and written again may be
longer than before when it is looked at."""
LINE_MAX: Final = 16 << 20
_HEADER: Final = b'{"history"'
_A_LINE: Final = b'{"time_ns":0,"process":"lab","type":"info","f":"phase"}\n'


def lines_of(name: str, *, wait: bool = True) -> Iterator[bytes | None]:
    """Whole lines as they appear; a file is followed for ever, standard input until it is closed.

    What standard input holds after its last newline is a line as well. None says that nothing came for a
    while, or, of a file without `wait`, that there is nothing more now.

    Raises:
        HistoryError: no such file, one that became shorter or was written anew, or a line without an end.
    """
    buffer = b""
    for data in _from_stdin() if name == STANDARD_INPUT else _from_file(Path(name), wait):
        if data is None:
            yield None
            continue
        *whole, buffer = (buffer + data).split(b"\n")
        yield from whole
        if len(buffer) > LINE_MAX:
            raise HistoryError(f"saw a line of more than {LINE_MAX >> 20} MiB", file=name)
    if buffer:
        yield buffer


def _from_stdin() -> Iterator[bytes | None]:
    number = sys.stdin.fileno()
    while True:
        if not select.select([number], [], [], POLL_S * QUIET_POLLS)[0]:
            yield None
            select.select([number], [], [])
        if not (data := os.read(number, _READ_BYTES)):
            return
        yield data


def _from_file(path: Path, wait: bool) -> Iterator[bytes | None]:
    if not path.is_file():
        raise HistoryError("no such file", file=str(path), hint="a run writes <run>/history.jsonl")
    with path.open("rb") as file:
        last, quiet = b"", 0
        while True:
            if data := file.read(_READ_BYTES):
                if os.pread(file.fileno(), len(last), file.tell() - len(data) - len(last)) != last:
                    raise _written_anew(path, "what was read of the file changed while it was followed")
                last, quiet = (last + data)[-_SEEN_BYTES:], 0
                yield data
                continue
            now = path.stat() if path.exists() else None
            if now is not None and now.st_size < file.tell():
                raise _written_anew(path, "the file became shorter while it was followed")
            if now is not None and now.st_size > file.tell() and now.st_ino != os.fstat(file.fileno()).st_ino:
                raise _written_anew(path, "the file was replaced by another while it was followed")
            quiet += 1
            if quiet == QUIET_POLLS or not wait:
                yield None
            if wait:
                time.sleep(POLL_S)


def _written_anew(path: Path, problem: str) -> HistoryError:
    return HistoryError(problem, file=str(path), hint="a history is only ever appended to")


class Reader:
    """Lines to events; `params` from the header, `footer` once it was read, `line` the last one's number.

    A history of another tool has no header: `foreign`, and `reading` says how its names are read.
    """

    def __init__(self, name: str, reading: Reading = AS_IT_IS) -> None:
        self.name = name
        self._reading = reading
        self.foreign = False
        self._header = b""
        self._decoder = msgspec.json.Decoder(Event)
        self.params: Params | None = None
        self.recorder: Recorder | None = None
        self.footer: Footer | None = None
        self.line = 0
        self._events = 0

    def read(self, line: bytes) -> Event | None:
        """The event of a line; None for the header, the footer, and an empty line.

        Raises:
            HistoryError: a line that is none of these, with its number.
        """
        self.line += 1
        if self.params is None:
            if not line.startswith(_HEADER) and line.strip():
                self.params, self.foreign = Params(), True
                return self._of_another_tool(line)
            self.params = self._first(line)
            return None
        if self.foreign:
            return self._of_another_tool(line) if line.strip() else None
        try:
            return self._decoder.decode(line)
        except UNREADABLE as error:
            if not line.strip():
                return None
            self.footer = self._last(line, error)
            return None

    def at(self, error: HistoryError) -> HistoryError:
        """The same error with file and line."""
        return HistoryError(error.problem, file=self.name, line=self.line, field=error.field, hint=error.hint)

    def _of_another_tool(self, line: bytes) -> Event | None:
        try:
            form = msgspec.json.decode(line)
            if not isinstance(form, dict):
                raise HistoryError("saw no object, expected an event")
            return event_of(adapted_alone(tupled(form), self.line, self._reading), self._position())
        except UNREADABLE as error:
            raise self.at(explained(error, line, Event)) from None
        except HistoryError as error:
            hint = error.hint or "other formats can be checked when they are whole: leave out --follow"
            raise self.at(HistoryError(error.problem, field=error.field, hint=hint)) from None

    def _position(self) -> int:
        self._events += 1
        return self._events - 1

    def _first(self, line: bytes) -> Params:
        try:
            history = jsonl.parse(line + b"\n")
        except HistoryError as error:
            raise self.at(error) from None
        if not history.has_header:
            problem = "saw no header, expected the first line of a history of the lab's own format"
            hint = "other formats can be checked when they are whole: leave out --follow"
            raise self.at(HistoryError(problem, hint=hint))
        self._header = line + b"\n"
        self.recorder = history.recorder
        return history.params

    def _last(self, line: bytes, error: Exception) -> Footer:
        try:
            return msgspec.json.decode(line, type=Footer)
        except UNREADABLE:
            pass
        try:
            jsonl.parse(self._header + line + b"\n" + _A_LINE)  # says what is wrong with the line
        except HistoryError as found:
            raise self.at(found) from None
        raise self.at(HistoryError(str(error)))
