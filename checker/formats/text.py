"""The text of a history, wherever it is (a plain file, a gzip file, memory), and never more than is allowed.

Everything is read from front to back in pieces, so that work and memory are linear in the size, which is
bounded before a reader sees the text.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from checker.errors import HistoryError

PIECE_BYTES: Final = 1 << 20
"""Small enough that decoded events stay in the processor's cache until their columns are filled."""
_END_BYTES: Final = 64
_HELD_MAX: Final = 64
"""After so many blank pieces what stood before them is no longer taken for the last line."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most `max_size` bytes, unpacked: that of the file `path`, else `data`."""

    path: Path | None = None
    packed: bool = False
    data: bytes = b""
    max_size: int = 2**63

    @property
    def plain_path(self) -> Path | None:
        """The file that holds these bytes as they are, if there is one."""
        return None if self.packed else self.path

    def pieces(self) -> Iterator[bytes]:
        """The bytes, in order.

        Raises:
            HistoryError: more than is allowed, or a damaged gzip file.
            OSError: the file cannot be read.
        """
        if self.path is None:
            require_size(len(self.data), self.max_size)
            yield from (self.data[at : at + PIECE_BYTES] for at in range(0, len(self.data), PIECE_BYTES))
            return
        with self.path.open("rb") as file:
            if not self.packed:
                yield from self._bounded(file)
                return
            try:
                with gzip.open(file) as stream:
                    yield from self._bounded(stream)
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                reason = str(error) or type(error).__name__
                raise HistoryError(
                    f"this is no whole gzip file: {reason[:1].lower()}{reason[1:]}",
                    hint="`gzip --test` says the same of it: get the file once more",
                ) from error

    def _bounded(self, stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
        size = 0
        while piece := stream.read(PIECE_BYTES):
            size += len(piece)
            require_size(size, self.max_size)
            yield piece

    def blocks(self) -> Iterator[bytes]:
        """The bytes as blocks of whole lines, about `PIECE_BYTES` each; the last line may lack its end."""
        rest: list[bytes] = []
        for piece in self.pieces():
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield b"".join([*rest, piece[:cut]])
                rest = []
            if cut < len(piece):
                rest.append(piece[cut:])
        if rest:
            yield b"".join(rest)

    def whole(self) -> bytes:
        """All bytes at once; raises as `pieces`."""
        return self.data if self.path is None else b"".join(self.pieces())

    def decoded(self) -> str:
        """All of it as characters.

        Raises:
            HistoryError: bytes that are no UTF-8, with their line; and as `pieces`.
        """
        data = self.whole()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise HistoryError(
                f"saw the bytes {data[error.start : error.start + 4]!r}, expected UTF-8",
                line=data.count(b"\n", 0, error.start) + 1,
                hint="convert the file to UTF-8, or get it once more",
            ) from None


class Lines:
    """The lines of a text but the last one that is not blank, which says whether the text is whole."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.tail = b""
        """The last line that is not blank and what follows it; known once `blocks` has ended."""

    def blocks(self) -> Iterator[bytes]:
        """All lines before the last, as blocks of whole lines, about `PIECE_BYTES` each."""
        held: list[bytes] = []
        ended, blank = False, 0  # whether a line ends in what is held; how many pieces of it are blank
        for piece in self._text.pieces():
            end = _blank_from(piece)
            blank = 0 if end else blank + 1
            cut = piece.rfind(b"\n", 0, end or (len(piece) if blank > _HELD_MAX else 0)) + 1
            if cut:
                yield b"".join([*held, memoryview(piece)[:cut]])
                held, ended, blank = [], False, 0
            elif end and ended:
                before = b"".join(held)
                last = before.rfind(b"\n") + 1
                yield before[:last]
                held, ended = [before[last:]], False
            held.append(piece[cut:])
            ended = ended or b"\n" in held[-1]
        self.tail = b"".join(held)


def _blank_from(piece: bytes) -> int:
    """Where the blanks at the end of a piece begin, if there are any."""
    short = piece[-_END_BYTES:].rstrip()
    return len(piece) - _END_BYTES + len(short) if short and len(piece) > _END_BYTES else len(piece.rstrip())


def require_size(size: int, allowed: int) -> None:
    """Raises `HistoryError`: a history of more bytes than are allowed."""
    if size > allowed:
        raise HistoryError(
            f"saw more than {size_text(allowed)} of text, which is the most that is read",
            hint="if the file is what it should be: allow more with --max-size (or load(…, max_size=…))",
        )


_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def size_text(size: int) -> str:
    """A number of bytes in words."""
    unit = next(u for u in reversed(_UNITS) if size >= _UNITS[u] or u == "B")
    return f"{size / _UNITS[unit]:.3g} {unit}"


def size_of(text: str) -> int:
    """A number of bytes from words such as "500MiB", "2G" or "1048576"; decimal units count as binary ones.

    Raises:
        HistoryError: no such number.
    """
    number = text.strip().rstrip("iIbBkKmMgGtT")
    unit = text.strip()[len(number) :].lower().removesuffix("b").removesuffix("i")
    scale = {name[0].lower(): size for name, size in _UNITS.items() if size > 1} | {"": 1}
    try:
        size = int(float(number) * scale[unit])
    except (ValueError, OverflowError, KeyError):
        size = 0
    if size < 1:
        raise HistoryError(
            f"saw {text!r}, expected a number of bytes, such as 500MiB or 2GiB", field="max-size"
        )
    return size
