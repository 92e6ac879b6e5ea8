"""The digest of a binary file inside the file: of all its bytes, with the digest's own digits as zeros.

A Parquet file keeps it among its metadata, so that other tools read the file as ever. What is sealed and
agrees is what this package wrote, bit for bit, and may be given to a reader that trusts its input.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from pathlib import Path
from typing import Final

KEY: Final = "lock-lab.sha256"
_DIGITS: Final = 64
BLANK: Final = "0" * _DIGITS
"""What the writer gives as the value of `KEY`; `seal` replaces it."""
_MARK: Final = KEY.encode() + b"\x18" + bytes([_DIGITS])
"""The key, and how Thrift's compact protocol begins a string of 64 bytes in the next field."""
_END: Final = b"PAR1"
_PIECE: Final = 1 << 20


def seal(path: Path) -> None:
    """Write the digest into a file.

    Raises:
        ValueError: there is no one place for it.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        at = _place(data)
        if at is None or data[at : at + _DIGITS] != BLANK.encode():
            raise ValueError(f"no place for the digest in {path}")
        data[at : at + _DIGITS] = _digest(data, at).encode()


def is_sealed(path: Path) -> bool | None:
    """Whether the digest in a file agrees with its bytes; None if there is none."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = _place(data)
            return None if at is None else data[at : at + _DIGITS] == _digest(data, at).encode()


def footer_of(path: Path) -> bytes | None:
    """The footer of a Parquet file; None if it is none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size < 12 or file.read(4) != _END:
            return None
        file.seek(size - 8)
        length, end = struct.unpack("<I4s", file.read(8))
        if end != _END or length > size - 12:
            return None
        file.seek(size - 8 - length)
        return file.read(length)


def _place(data: mmap.mmap) -> int | None:
    """Where the digits begin, if there is one such place in the footer."""
    if len(data) < 12 or data[-4:] != _END:
        return None
    (length,) = struct.unpack("<I", data[-8:-4])
    first = data.find(_MARK, max(0, len(data) - 8 - length))
    if first < 0 or data.find(_MARK, first + 1) >= 0 or first + len(_MARK) + _DIGITS > len(data):
        return None
    return first + len(_MARK)


def _digest(data: mmap.mmap, at: int) -> str:
    digest = hashlib.sha256()
    with memoryview(data) as view:
        for begin, end in ((0, at), (at + _DIGITS, len(data))):
            for piece in range(begin, end, _PIECE):
                with view[piece : min(end, piece + _PIECE)] as some:
                    digest.update(some)
            if end == at:
                digest.update(BLANK.encode())
    return digest.hexdigest()
