"""A file of JSON lines that a single process appends to, and that survives whatever ends it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from lab.errors import LabError, UnknownOutcome

SYNC_EVERY_S: Final = 1.0
"""At most this much work is lost when the machine itself goes down; a killed lab loses nothing."""


class LineFile:
    """An append-only file; ``kept`` are the whole lines that it had when it was opened.

    A process that is killed leaves at most a torn last line, which is cut off when the file is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it.

        Raises:
            LabError: it cannot be written, or another process is writing it.
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
            self.kept = content[:whole].splitlines()
            self.truncate(whole)
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

    def truncate(self, size: int = 0) -> None:
        """Forget what stands behind the first ``size`` bytes."""
        os.ftruncate(self._file.fileno(), size)

    def write(self, value: object) -> None:
        """Write one line; it is on its way to the disk within a second of work.

        Raises:
            UnknownOutcome: the disk is full, or gone.
        """
        rest = memoryview(msgspec.json.encode(value) + b"\n")
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise UnknownOutcome(
                f"a result cannot be kept: {error.strerror or error}",
                where=str(self.path),
                hint="make room; --resume goes on",
            ) from error
        if time.monotonic() - self._synced_s > SYNC_EVERY_S:
            self.sync()

    def sync(self) -> None:
        """Bring everything to the disk now."""
        os.fsync(self._file.fileno())
        self._synced_s = time.monotonic()

    def close(self) -> None:
        """Bring everything to the disk and let others write."""
        with contextlib.suppress(ValueError):
            self.sync()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
