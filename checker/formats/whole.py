"""Files that are there as a whole or not at all, whatever happens while they are written.

A file is written under another name beside it, synced to the disk and then renamed: a full disk or a process
that is killed leaves what was there before, or nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written, which has its name only once all is written and synced.

    A device or a pipe is written as it is, and a link stays one.

    Raises:
        OSError: it cannot be written; `filename` is its path. What was there before still is.
    """
    with _named(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        path = Path(os.path.realpath(path))
        partial = path.with_name(f".{path.name[:200]}-{secrets.token_hex(4)}.partial")
        try:
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file, a text in UTF-8. Raises ``OSError`` as `whole_file` does."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors say which file could not be written: those of writing, syncing and closing do not."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
