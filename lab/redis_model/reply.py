"""What a command answers, and how that looks on the wire in RESP2 and RESP3.

Replies are ordinary Python objects, so that a caller without a wire can use them as they are: ``bytes``,
``int``, ``None`` and lists of those. What the wire has to tell apart are subclasses of these.

Source: the Redis serialization protocol specification, versions 2 and 3.
"""

from __future__ import annotations

from typing import Any, Final


class RedisError(Exception):
    """A command that fails; its text is the error reply, code first."""


class ErrorReply:
    """An error, as an answer. Two are equal if they say the same."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"ErrorReply({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorReply) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


class Status(bytes):
    """A simple string, such as OK."""

    __slots__ = ()


class Verbatim(bytes):
    """Plain text for people (INFO); a bulk string in RESP2."""

    __slots__ = ()


class Score(bytes):
    """A number that may have a fraction; a bulk string in RESP2."""

    __slots__ = ()


class Members(list[Any]):
    """The members of a set, in no order; an array in RESP2."""

    __slots__ = ()


class Map(list[Any]):
    """Names and values in turn; flat in RESP2."""

    __slots__ = ()


class Push(list[Any]):
    """What nobody asked for: messages of channels; an array in RESP2."""

    __slots__ = ()


class Several(list[Any]):
    """Answers one after the other to one command: SUBSCRIBE to many channels."""

    __slots__ = ()


class _NoReply:
    """Stands for no answer at all, now or ever."""


class _NullArray:
    """The absent array: EXEC that was aborted, BLPOP that ran out of time. None without a wire."""


Reply = bytes | int | None | list[Any] | ErrorReply | _NoReply | _NullArray

OK: Final = Status(b"OK")
QUEUED: Final = Status(b"QUEUED")
PONG: Final = Status(b"PONG")
NO_REPLY: Final = _NoReply()
NULL_ARRAY: Final = _NullArray()


def encode(reply: Reply, out: list[bytes], resp3: bool) -> None:
    """Append the bytes of a reply to ``out``. Raises ``TypeError`` for what is no reply."""
    if isinstance(reply, bytes):
        _encode_text(reply, out, resp3)
    elif isinstance(reply, int):
        out.append(b":%d\r\n" % reply)
    elif reply is None:
        out.append(b"_\r\n" if resp3 else b"$-1\r\n")
    elif isinstance(reply, ErrorReply):
        out.append(b"-%b\r\n" % _one_line(reply.text))
    elif isinstance(reply, list):
        _encode_many(reply, out, resp3)
    elif reply is NULL_ARRAY:
        out.append(b"_\r\n" if resp3 else b"*-1\r\n")
    elif reply is not NO_REPLY:
        raise TypeError(f"not a reply: {reply!r}")


def _encode_text(reply: bytes, out: list[bytes], resp3: bool) -> None:
    kind = type(reply)
    if kind is Status:
        out.append(b"+%b\r\n" % reply)
    elif kind is Score and resp3:
        out.append(b",%b\r\n" % reply)
    elif kind is Verbatim and resp3:
        out.append(b"=%d\r\ntxt:%b\r\n" % (len(reply) + 4, reply))
    else:
        out.append(b"$%d\r\n%b\r\n" % (len(reply), reply))


def _encode_many(reply: list[Any], out: list[bytes], resp3: bool) -> None:
    kind = type(reply)
    if kind is Several:
        for item in reply:
            encode(item, out, resp3)
        return
    count = len(reply)
    if not resp3:
        out.append(b"*%d\r\n" % count)
    elif kind is Map:
        out.append(b"%%%d\r\n" % (count // 2))
    else:
        out.append({Push: b">%d\r\n", Members: b"~%d\r\n"}.get(kind, b"*%d\r\n") % count)
    for item in reply:
        encode(item, out, resp3)


def _one_line(text: str) -> bytes:
    return text.replace("\r", " ").replace("\n", " ").encode("utf-8", "surrogateescape")


def pack(arguments: list[bytes]) -> bytes:
    """Return a command as a client would send it: what the append-only file and replicas get."""
    return b"*%d\r\n%b" % (
        len(arguments),
        b"".join([b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments]),
    )
