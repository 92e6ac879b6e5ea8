"""Requests out of bytes: arrays of bulk strings, and inline commands, however they are cut into pieces."""

from __future__ import annotations

from typing import Final

BULK_BYTES_MAX: Final = 512 * 1024 * 1024
ARGUMENTS_MAX: Final = 1024 * 1024
INLINE_BYTES_MAX: Final = 64 * 1024
_SIZES: Final = [b"$%d" % size for size in range(8192)]
"""How the sizes of most words are written."""


class ProtocolError(Exception):
    """What came is no request; the server says so and closes the connection."""


class RequestParser:
    """Takes bytes with ``feed`` and gives whole requests with ``next``.

    ``consumed`` counts the bytes of the requests that were given so far.
    """

    __slots__ = ("_data", "_position", "consumed")

    def __init__(self) -> None:
        self._data = b""
        self._position = 0
        self.consumed = 0

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self._data = self._data[self._position :] + data if self._position < len(self._data) else data
        self._position = 0

    def take(self, size: int) -> bytes | None:
        """Return the next ``size`` bytes as they are; None while there are fewer."""
        if len(self._data) - self._position < size:
            return None
        taken = self._data[self._position : self._position + size]
        self._position += size
        return taken

    def line(self) -> bytes | None:
        """Return the next line without its end; None while it is not whole."""
        end = self._data.find(b"\r\n", self._position)
        if end < 0:
            return None
        taken = self._data[self._position : end]
        self._position = end + 2
        return taken

    def next(self) -> list[bytes] | None:
        """Return the next request, None while it is not whole; an empty one means nothing.

        Raises ``ProtocolError``.
        """
        start = self._position
        if start >= len(self._data):
            return None
        if start == 0 and (whole := _single(self._data)) is not None:
            self._position = len(self._data)
            self.consumed += self._position
            return whole
        request = self._array() if self._data[start] == 42 else self._inline()  # 42: an asterisk
        if request is None:
            self._position = start
            return None
        self.consumed += self._position - start
        return request

    def _array(self) -> list[bytes] | None:
        data = self._data
        header = self.line()
        if header is None:
            return None
        count = _number(header[1:], -1, ARGUMENTS_MAX, "invalid multibulk length")
        request = []
        at = self._position
        for _ in range(count):
            end = data.find(b"\r\n", at)
            if end < 0:
                if at < len(data) and data[at] != 36:
                    raise ProtocolError(f"expected '$', got '{chr(data[at])}'")
                return None
            if data[at] != 36:  # 36: a dollar sign
                raise ProtocolError(f"expected '$', got '{chr(data[at])}'")
            size = _number(data[at + 1 : end], 0, BULK_BYTES_MAX, "invalid bulk length")
            at = end + 2 + size + 2
            if at > len(data):
                return None
            request.append(data[end + 2 : at - 2])
        self._position = at
        return request

    def _inline(self) -> list[bytes] | None:
        end = self._data.find(b"\n", self._position)
        if end < 0:
            if len(self._data) - self._position > INLINE_BYTES_MAX:
                raise ProtocolError("too big inline request")
            return None
        words = self._data[self._position : end].split()
        self._position = end + 1
        if any(b'"' in word or b"'" in word for word in words):
            raise ProtocolError("unbalanced quotes in request")  # quoting is not simulated
        return words


def _single(data: bytes) -> list[bytes] | None:
    """Read data that is one whole request, as nearly all is; None if it is anything else."""
    header, *parts = data.split(b"\r\n")
    if len(parts) % 2 == 0 or header != b"*%d" % (len(parts) // 2) or parts[-1]:
        return None
    words = parts[1::2]
    try:
        return words if parts[:-1:2] == list(map(_SIZES.__getitem__, map(len, words))) else None
    except IndexError:  # a long word
        return None


def _number(text: bytes, least: int, most: int, complaint: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise ProtocolError(complaint) from None
    if not least <= value <= most:
        raise ProtocolError(complaint)
    return value
