"""Error replies in the place of a node's: what stands between a link and its node if a schedule asks for it.

A command that is to be answered with an error is not sent to the node. The node gets a command in its place
that no server knows, and its refusal of that one becomes the error. So the reply has the right place among
those of a pipeline, a transaction is aborted as by any command that can't be queued, and a node that is down
or paused does not answer at all. A server refuses a command that it does not know before it shows it to
MONITOR or changes anything.

The bytes of all other commands and replies pass as they are.
"""

from __future__ import annotations

import re
from typing import Final

from lab.redis_model.parser import ProtocolError, RequestParser

_ABOUT_CONNECTIONS = """
ACL AUTH CLIENT CLUSTER COMMAND CONFIG DISCARD ECHO EXEC HELLO INFO LATENCY MEMORY MODULE MONITOR MULTI PING
PSUBSCRIBE PUBSUB PUNSUBSCRIBE QUIT RESET ROLE SCRIPT SELECT SLOWLOG SUBSCRIBE TIME UNSUBSCRIBE UNWATCH
WAIT WATCH
"""
NO_DATA: Final = frozenset(_ABOUT_CONNECTIONS.split())
"""Commands about the connection or the server. They are answered with an error only if they are named."""
SUBSCRIBES: Final = frozenset((b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE"))
UNKNOWN: Final = b"LAB-ANSWERS-"
"""How the command begins that the node gets instead; the number of the error follows. It has no dot: a name
with one might be a module's."""
_REFUSED: Final = re.compile(rb"-ERR unknown command [`']%b(\d+)[`'][^\r\n]*\r\n" % re.escape(UNKNOWN))
_REFUSAL: Final = b"-ERR unknown command"


class Answering:
    """Which commands on one link are answered with which error, for all of its connections."""

    def __init__(self) -> None:
        self.error: str | None = None
        """The error, while there is one."""
        self._commands: frozenset[str] | None = None
        self._errors: list[bytes] = []

    def begin(self, error: str, commands: frozenset[str] | None) -> None:
        """Answer these commands (upper case) with this error from now on; None: all that are about data."""
        self.error, self._commands = error, commands
        self._errors.append(b"-%b\r\n" % error.encode())

    def end(self) -> None:
        """Let every command pass again."""
        self.error = None

    def conversation(self) -> Conversation:
        """What one connection needs."""
        return Conversation(self)

    def refuses(self, name: str) -> bool:
        """Whether a command, by its name in upper case, is answered with the error now."""
        if self.error is None:
            return False
        return name not in NO_DATA if self._commands is None else name in self._commands

    def instead_of(self, command: bytes) -> bytes | None:
        """The request that the node gets in the place of this command; None: the command itself."""
        if not self.refuses(command.decode(errors="replace").upper()):
            return None
        unknown = b"%b%d" % (UNKNOWN, len(self._errors) - 1)
        return b"*1\r\n$%d\r\n%b\r\n" % (len(unknown), unknown)

    def error_for(self, refused: re.Match[bytes]) -> bytes:
        """The error in the place of this refusal by the node."""
        return self._errors[int(refused[1])]


class Conversation:
    """What is said on one connection, in both directions."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._parser: RequestParser | None = RequestParser()
        self._request = b""
        self._reply = b""
        self._expected = 0
        self.subscribes = False
        """Whether the client has subscribed to channels on it."""

    def requests(self, data: bytes) -> bytes:
        """Return what the node gets when the client has sent ``data``: whole requests only."""
        parser = self._parser
        if parser is None:
            return data
        parser.feed(data)
        self._request += data
        passed, done = [], parser.consumed
        try:
            while (request := parser.next()) is not None:
                size, done = parser.consumed - done, parser.consumed
                whole, self._request = self._request[:size], self._request[size:]
                instead = self._answering.instead_of(request[0]) if request else None
                self.subscribes |= bool(request) and request[0].upper() in SUBSCRIBES
                self._expected += instead is not None
                passed.append(whole if instead is None else instead)
        except ProtocolError:  # the node is to say so, and what follows is none of its commands
            self._parser = None
            passed.append(self._request)
        return b"".join(passed)

    def replies(self, data: bytes) -> bytes:
        """Return what the client gets when the node has sent ``data``.

        Only the beginning of a line that may become a refusal is kept until more of it has come.
        """
        if not (self._expected or self._reply):
            return data
        data, self._reply = self._reply + data, b""
        last = data.rpartition(b"\r\n")[2]
        if last and (last.startswith(_REFUSAL) or _REFUSAL.startswith(last)):
            data, self._reply = data[: -len(last)], last
        data, found = _REFUSED.subn(self._answering.error_for, data)
        self._expected -= found
        return data
