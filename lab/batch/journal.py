"""The journal of a batch: JSON lines that one process appends to, and that survive its end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from lab.batch.item import Plan
from lab.batch.row import Row
from lab.errors import LabError, UnknownOutcome

FORMAT: Final = 3
SYNC_EVERY_S: Final = 1.0
"""At most this much work is lost when the machine goes down; a killed lab loses nothing."""


class _Header(msgspec.Struct, frozen=True):
    format: int
    identity: msgspec.Raw


class Journal:
    """A file with a header, which identifies what is run, and one row for each finished run.

    So an end of the lab loses the current runs, and no others. A killed process leaves at most a truncated
    last line, which is removed when the file is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it; ``rows`` are those in it now, ``identity`` what they belong to.

        ``kept`` counts the rows, including those appended later.

        Raises:
            LabError: it cannot be written, another process is writing it, or one of its lines is damaged.
        """
        self.path = path
        self._synced_s = time.monotonic()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = path.open("a+b", buffering=0)
        except OSError as error:
            raise LabError(
                f"the results cannot be kept: {error.strerror or error}",
                where=str(path),
                expected="a file that can be written",
                hint="choose another directory with --out",
            ) from error
        try:
            self._lock()
            self._file.seek(0)
            content = self._file.read()
            whole = content.rfind(b"\n") + 1
            os.ftruncate(self._file.fileno(), whole)
            self.identity: bytes | None
            self.identity, self.rows = _read(path, content[:whole].splitlines())
            self.kept = len(self.rows)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LabError(
                "another lab is writing these results",
                where=str(self.path),
                hint="wait for its end, or choose another directory with --out",
            ) from error

    def begin(self, identity: bytes) -> None:
        """Delete the content, and write the header."""
        os.ftruncate(self._file.fileno(), 0)
        self.identity, self.rows, self.kept = identity, [], 0
        self._write(_Header(FORMAT, msgspec.Raw(identity)))

    def append(self, row: Row) -> None:
        """Append the row of a finished run; it is synced to disk within a second of work.

        Raises:
            UnknownOutcome: it cannot be written.
        """
        self._write(row)
        self.kept += 1

    def _write(self, value: object) -> None:
        rest = memoryview(msgspec.json.encode(value) + b"\n")
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise UnknownOutcome(
                f"a result cannot be kept: {error.strerror or error}",
                where=str(self.path),
                hint="make room; --resume continues",
            ) from error
        if time.monotonic() - self._synced_s > SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Sync the file to disk now."""
        os.fsync(self._file.fileno())
        self._synced_s = time.monotonic()

    def close(self) -> None:
        """Sync and close the file, which unlocks it."""
        with contextlib.suppress(ValueError, OSError):
            self.sync()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(path: Path, lines: list[bytes]) -> tuple[bytes | None, list[Row]]:
    """The content of a file: nothing, or a header and rows."""
    if not lines:
        return None, []
    at = 0
    rows: list[Row] = []
    try:
        header = msgspec.json.decode(lines[0], type=_Header)
        decoder = msgspec.json.Decoder(Row)
        for at, line in enumerate(lines[1:], 1):  # noqa: B007 - the error names the line
            rows.append(decoder.decode(line))
    except msgspec.DecodeError as error:
        raise LabError(
            f"this is no line of results: {error}",
            where=f"{path}:{at + 1}",
            hint="the file was changed: remove the line, or start again",
        ) from error
    if header.format != FORMAT:
        raise LabError(
            f"results of format {header.format}",
            where=f"{path}:1",
            expected=f"format {FORMAT}",
            hint="start again, or use the version of the lab that wrote it",
        )
    return bytes(header.identity), rows


def plan_in(journal: Journal) -> Plan:
    """The plan in the header of a journal.

    Raises:
        LabError: its header is no plan, or it has a row of no item in it.
    """
    try:
        plan = msgspec.json.decode(journal.identity or b"", type=Plan)
    except msgspec.DecodeError as error:
        raise LabError(
            f"this is no suite: {error}", where=f"{journal.path}:1", hint="begin a new one"
        ) from error
    known = {item.id for item in plan.items}
    for at, row in enumerate(journal.rows, 2):
        if row.item not in known:
            raise LabError(f"a run of {row.item!r}, which is not in this suite", where=f"{journal.path}:{at}")
    return plan


def read_plan(path: Path) -> tuple[Plan, list[Row]] | None:
    """The plan and the rows in a file that others may be writing; None if it is damaged, or has none."""
    try:
        content = path.read_bytes()
        identity, rows = _read(path, content[: content.rfind(b"\n") + 1].splitlines())
        return msgspec.json.decode(identity or b"", type=Plan), rows
    except (OSError, LabError, msgspec.DecodeError):
        return None
