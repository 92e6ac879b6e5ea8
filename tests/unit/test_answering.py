"""Error replies in a node's place: what the node gets and what the client gets, in whatever pieces."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from lab.redis_model import RedisModel
from lab.redis_model.reply import pack
from lab.substrates.answering import Answering

BUSY = "BUSY Redis is busy running a script."


class Wire:
    """A connection of a client to a model of Redis, with errors in between."""

    def __init__(self, answering: Answering) -> None:
        self.server = RedisModel(
            "A",
            wall_ns=lambda: 10**18,
            monotonic_ns=lambda: 0,
            persistence="none",
            random=random.Random(1),
        )
        self.shown: list[bytes] = []
        self.server.on_command = lambda args, _: self.shown.append(args[0].upper())
        self.talk = answering.conversation()
        self.got = b""
        self.session = self.server.connect(self._hear, peer="alice:1")

    def _hear(self, data: bytes) -> None:
        self.got += self.talk.replies(data)

    def say(self, data: bytes) -> bytes:
        """Send bytes; return what the client has got since."""
        self.got = b""
        self.session.feed(self.talk.requests(data))
        return self.got


def commands(*lines: str) -> bytes:
    return b"".join(pack([word.encode() for word in line.split()]) for line in lines)


def test_a_command_gets_the_error_in_its_place_and_is_not_executed() -> None:
    answering = Answering()
    answering.begin(BUSY, frozenset({"SET"}))
    wire = Wire(answering)
    assert wire.say(commands("ECHO a", "set k v", "GET k", "ECHO b")) == (
        b"$1\r\na\r\n-BUSY Redis is busy running a script.\r\n$-1\r\n$1\r\nb\r\n"
    )
    assert wire.shown == [b"ECHO", b"GET", b"ECHO"]
    answering.end()
    assert wire.say(commands("SET k v")) == b"+OK\r\n"


def test_without_names_all_commands_on_data_get_it_and_those_on_the_connection_do_not() -> None:
    answering = Answering()
    answering.begin("OOM", None)
    wire = Wire(answering)
    assert wire.say(commands("PING", "GET k", "PUBLISH c m", "CLIENT GETNAME")) == (
        b"+PONG\r\n-OOM\r\n-OOM\r\n$-1\r\n"
    )
    answering.begin("LOADING", frozenset({"PING"}))
    assert wire.say(commands("PING", "GET k")) == b"-LOADING\r\n$-1\r\n"


def test_a_transaction_is_aborted() -> None:
    answering = Answering()
    answering.begin("OOM", frozenset({"SET"}))
    wire = Wire(answering)
    got = wire.say(commands("MULTI", "SET k v", "GET k", "EXEC", "GET k"))
    assert got.startswith(b"+OK\r\n-OOM\r\n+QUEUED\r\n-EXECABORT ")
    assert got.endswith(b"$-1\r\n")


def test_errors_that_are_still_on_their_way_stay_what_they_were() -> None:
    answering = Answering()
    answering.begin("OOM", None)
    talk = answering.conversation()
    first = talk.requests(commands("GET k"))
    answering.begin("BUSY", None)
    second = talk.requests(commands("GET k"))
    answering.end()
    assert talk.requests(commands("GET k")) == commands("GET k")
    refusals = b"".join(
        b"-ERR unknown command `%b`, with args beginning with: \r\n" % sent.split(b"\r\n")[2]
        for sent in (first, second)
    )
    assert talk.replies(refusals + b"$-1\r\n") == b"-OOM\r\n-BUSY\r\n$-1\r\n"


def test_other_refusals_and_what_is_no_request_pass_as_they_are() -> None:
    answering = Answering()
    answering.begin("OOM", frozenset({"SET"}))
    wire = Wire(answering)
    got = wire.say(commands("SET k v", "NOSUCH x"))
    assert got == b"-OOM\r\n-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n"
    assert b"Protocol error" in wire.say(b"*x\r\nSET k v\r\n")
    assert wire.talk.requests(b"anything") == b"anything"


def test_what_was_kept_is_handed_on_also_after_the_last_error() -> None:
    answering = Answering()
    answering.begin("OOM", frozenset({"SET"}))
    talk = answering.conversation()
    (name,) = talk.requests(commands("SET k v")).split(b"\r\n")[2:3]
    other = b"-ERR unknown command 'NOSUCH', with args beginning with: \r\n"
    first = talk.replies(b"-ERR unknown command '%b', with args beginning with: \r\n" % name + other[:9])
    assert first + talk.replies(other[9:]) == b"-OOM\r\n" + other


WORDS = ("SET k v", "GET k", "ECHO -ERR", "ECHO -", "NOSUCH x", "INCR n", "PING")


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), st.data())
def test_pieces_make_no_difference(lines: list[str], data: st.DataObject) -> None:
    answering = Answering()
    answering.begin("OOM", frozenset({"SET", "INCR"}))
    whole = Wire(answering).say(commands(*lines))
    assert whole.count(b"-OOM\r\n") == sum(line.startswith(("SET", "INCR")) for line in lines)

    asked, server, talk = commands(*lines), Wire(Answering()), answering.conversation()
    sent = b"".join(talk.requests(piece) for piece in cut(asked, data))
    replies = server.say(sent)
    assert b"".join(talk.replies(piece) for piece in cut(replies, data)) == whole


def cut(text: bytes, data: st.DataObject) -> list[bytes]:
    """The text in pieces."""
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]
