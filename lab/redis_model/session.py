"""One connection to the server: what it sent, what it waits for, what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.redis_model.parser import ProtocolError, RequestParser
from lab.redis_model.reply import NULL_ARRAY, Reply, encode

if TYPE_CHECKING:
    from lab.redis_model.blocking import Wait
    from lab.redis_model.model import RedisModel
    from lab.redis_model.registry import Command

Argument = bytes | str | int
FROM_MASTER: Final = "master"
"""The peer of the connection on which a replica's master speaks."""


def as_bytes(arguments: tuple[Argument, ...]) -> list[bytes]:
    """Return arguments as a client would send them."""
    return [
        argument.encode()
        if isinstance(argument, str)
        else argument
        if isinstance(argument, bytes)
        else b"%d" % argument
        for argument in arguments
    ]


class Session:
    """A connection. ``push`` takes the bytes it is sent; None for one that is called without a wire.

    ``closed`` is called when the server ends it.
    """

    def __init__(
        self,
        model: RedisModel,
        number: int,
        peer: str,
        push: Callable[[bytes], None] | None,
        closed: Callable[[], None] | None = None,
    ) -> None:
        self.model = model
        self.number = number
        self.peer = peer
        self.name = b""
        self.resp3 = False
        self.is_open = True
        self.is_master = False
        """Whether this is where a replica's master speaks."""
        self.watch_failed = False
        self.watched: list[bytes] = []
        self.queue: list[tuple[Command, list[bytes]]] | None = None
        self.queue_broken = False
        self.channels: dict[bytes, None] = {}
        self.patterns: dict[bytes, None] = {}
        self.is_monitor = False
        self.replies = "on"
        """CLIENT REPLY: "on", "off", "skip" (the answer to this command), "skip next"."""
        self.wait: Wait | None = None
        self.guarded = False
        """Whether not every command may run now: a transaction is open, or it listens to channels."""
        self.written_offset = 0
        self._parser = RequestParser()
        self._push = push
        self._closed = closed
        self._out: list[bytes] = []
        self._ending = False

    @property
    def can_block(self) -> bool:
        """Whether it can wait for an answer: not without a wire."""
        return self._push is not None

    def feed(self, data: bytes) -> None:
        """Take bytes from the client and do what they ask for; answers go to ``push``."""
        if not self.is_open:
            return
        self._parser.feed(data)
        self.go_on()
        self.model.settle()

    def call(self, *arguments: Argument) -> Reply:
        """Run one command without a wire; an error is returned, not raised. Never waits."""
        reply = self.model.execute(self, as_bytes(arguments))
        self.model.settle()
        return None if reply is NULL_ARRAY else reply

    def close(self) -> None:
        """The client is gone."""
        if self.is_open:
            self._leave()

    def end(self) -> None:
        """End the connection from the server's side, once everything was sent."""
        if self._push is not None and self.is_open and not self._ending:
            self._ending = True
            self._register()

    def go_on(self) -> None:
        """Do the requests that have come, up to one that has to wait."""
        execute, parser = self.model.execute, self._parser
        while self.is_open and self.wait is None and not self._ending:
            try:
                request = parser.next()
            except ProtocolError as error:
                self.write(b"-ERR Protocol error: %b\r\n" % str(error).encode("utf-8", "replace"))
                self.end()
                return
            if request is None:
                return
            if request:
                self.answer(execute(self, request))

    def answer(self, reply: Reply) -> None:
        """Send the answer to a command, unless the client wants none."""
        if self.replies == "on":
            self.send(reply)
        elif self.replies == "skip next":
            self.replies = "skip"
        elif self.replies == "skip":
            self.replies = "on"

    def send(self, reply: Reply) -> None:
        """Send something in this connection's version of the protocol."""
        if self._push is None:
            return
        if not self._out:
            self._register()
        encode(reply, self._out, self.resp3)

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        if self._push is None:
            return
        if not self._out:
            self._register()
        self._out.append(data)

    def deliver(self) -> None:
        """Hand over what is to be sent, at the end of a round of the server's loop."""
        out, self._out = self._out, []
        if out and self._push is not None and self.is_open:
            self._push(b"".join(out))
        if self._ending and self.is_open:
            self._leave()
            if self._closed is not None:
                self._closed()

    def unwatch(self) -> None:
        """Watch no key any more."""
        watchers = self.model.keys.watchers
        for key in self.watched:
            watchers[key].remove(self)
            if not watchers[key]:
                del watchers[key]
        self.watched = []
        self.watch_failed = False

    def leave_transaction(self) -> None:
        """Forget what was queued and watched."""
        self.queue, self.queue_broken = None, False
        self.guarded = bool(self.channels or self.patterns)
        self.unwatch()

    def forget(self) -> None:
        """The server is dead: nothing comes from it any more."""
        self.is_open = False
        self._push = self._closed = None

    def _register(self) -> None:
        self.model.outbox[self] = None

    def _leave(self) -> None:
        self.is_open = False
        self.model.disconnected(self)
