"""The lines of a history that grows: from a file, or from standard input."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from checker.errors import UNREADABLE, HistoryError
from checker.formats import jsonl
from checker.history.events import Event, Footer, Params

STANDARD_INPUT: Final = "-"
POLL_S: Final = 0.05
_READ_BYTES: Final = 1 << 16
LINE_MAX: Final = 16 << 20
_A_LINE: Final = b'{"time_ns":0,"process":"lab","type":"info","f":"phase"}\n'


def lines_of(name: str) -> Iterator[bytes]:
    """Whole lines as they appear; a file is followed for ever, standard input until it is closed.

    What standard input holds after its last newline is a line as well.

    Raises:
        HistoryError: no such file, one that became shorter, or a line without an end.
    """
    buffer = b""
    for data in _from_stdin() if name == STANDARD_INPUT else _from_file(Path(name)):
        *whole, buffer = (buffer + data).split(b"\n")
        yield from whole
        if len(buffer) > LINE_MAX:
            raise HistoryError(f"saw a line of more than {LINE_MAX >> 20} MiB", file=name)
    if buffer:
        yield buffer


def _from_stdin() -> Iterator[bytes]:
    while data := os.read(sys.stdin.fileno(), _READ_BYTES):
        yield data


def _from_file(path: Path) -> Iterator[bytes]:
    if not path.is_file():
        raise HistoryError("no such file", file=str(path), hint="a run writes <run>/history.jsonl")
    with path.open("rb") as file:
        while True:
            if data := file.read(_READ_BYTES):
                yield data
            elif path.exists() and path.stat().st_size < file.tell():
                raise HistoryError(
                    "the file became shorter while it was followed",
                    file=str(path),
                    hint="a history is only ever appended to",
                )
            else:
                time.sleep(POLL_S)


class Reader:
    """Lines to events; `params` from the header, `footer` once it was read, `line` the last one's number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._header = b""
        self._decoder = msgspec.json.Decoder(Event)
        self.params: Params | None = None
        self.footer: Footer | None = None
        self.line = 0

    def read(self, line: bytes) -> Event | None:
        """The event of a line; None for the header, the footer, and an empty line.

        Raises:
            HistoryError: a line that is none of these, with its number.
        """
        self.line += 1
        if self.params is None:
            self.params = self._first(line)
            return None
        try:
            return self._decoder.decode(line)
        except UNREADABLE as error:
            if not line.strip():
                return None
            self.footer = self._last(line, error)
            return None

    def at(self, error: HistoryError) -> HistoryError:
        """The same error with file and line."""
        return HistoryError(
            error.problem, file=self._name, line=self.line, field=error.field, hint=error.hint
        )

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
