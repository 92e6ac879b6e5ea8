"""The commands that a node executes, as its MONITOR shows them."""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import Final

from lab.addresses import Address
from lab.channel import NodeError

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The longest line for one command: scripts are shown whole."""
_SHOWN: Final = re.compile(r"\+(?P<stamp_s>[0-9.]+) \[[0-9]+ .*?\] (?P<words>.*)", re.DOTALL)
_WORD: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPED: Final = re.compile(r'\\(["\\])')


class Monitor:
    """A connection on which a node shows every command from now on; use it with ``async with``.

    Entering raises ``OSError`` if the connection fails, and ``NodeError`` if MONITOR is not accepted (yet).
    """

    def __init__(self, node: Address) -> None:
        self._node = node

    async def __aenter__(self) -> Monitor:
        self._reader, self._writer = await asyncio.open_connection(
            self._node.host, self._node.port, limit=LINE_BYTES_MAX
        )
        try:
            self._writer.write(b"*1\r\n$7\r\nMONITOR\r\n")
            answer = await self._line()
            if answer != "+OK":
                raise NodeError(f"{self._node.name} refuses MONITOR: {answer[:80]}")
        except BaseException:
            self._writer.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()

    async def next(self) -> tuple[float, list[str]]:
        """Return when the next command ran, in seconds by the node's wall clock, and its words.

        Bytes that cannot be printed stay as the node shows them: ``\\x00``.

        Raises:
            OSError: the connection broke.
            NodeError: the node closed it, or the line shows no command.
        """
        line = await self._line()
        shown = _SHOWN.fullmatch(line)
        if shown is None:
            raise NodeError(f"{self._node.name} shows no command: {line[:80]}")
        return float(shown["stamp_s"]), [_ESCAPED.sub(r"\1", word) for word in _WORD.findall(shown["words"])]

    async def _line(self) -> str:
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            raise NodeError(f"{self._node.name} ended the connection") from error
        except asyncio.LimitOverrunError as error:
            raise NodeError(
                f"{self._node.name} shows a command of more than {LINE_BYTES_MAX} bytes"
            ) from error
        return line.decode(errors="replace").removesuffix("\r\n")
