"""What a driver may say: every line is an answer, an event, or an error that helps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.drivers.messages import (
    Answer,
    DriverBroken,
    Extended,
    Failed,
    Granted,
    Held,
    Hello,
    Lost,
    Op,
    WallTime,
    read_line,
)

ASKED: dict[int, Op] = {
    1: "hello",
    2: "open",
    3: "acquire",
    4: "extend",
    5: "release",
    6: "held",
    7: "clock",
}


def read(message: Any) -> Answer | Lost | None:
    text = message if isinstance(message, str) else json.dumps(message)
    return read_line("./mine", text.encode() + b"\n", ASKED)


HELLO = {"id": 1, "ok": True, "lib": "x", "version": "1", "caps": ["extend"]}
GRANT = {"id": 3, "ok": True, "lease": "h1"}


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (HELLO, Hello("x", "1", ("extend",))),
        (
            {**HELLO, "node_key": "lock:{key}", "ttl_step_ms": 1000},
            Hello("x", "1", ("extend",), "lock:{key}", 1000),
        ),
        ({**HELLO, "permits": 3}, Hello("x", "1", ("extend",), permits=3)),
        (GRANT, Granted("h1")),
        (
            {**GRANT, "token": "t", "claimed_ms": -3, "fence": 2**63 - 1, "more": {}},
            Granted("h1", "t", -3, 2**63 - 1),
        ),
        ({"id": 4, "ok": True, "claimed_ms": 9.5}, Extended(9.5)),
        ({"id": 6, "ok": True, "held": None}, Held(None)),
        ({"id": 7, "ok": True, "wall_ms": 1.5}, WallTime(1.5)),
        (
            {"id": 3, "ok": False, "kind": "refused", "error": "E", "message": "m", "silent": True},
            Failed("refused", "E", "m", silent=True),
        ),
    ],
)
def test_answers(message: dict[str, Any], what: Any) -> None:
    assert read(message) == Answer(message["id"], what)


def test_events() -> None:
    assert read({"event": "lost", "lease": "h1"}) == Lost("h1")
    assert read({"event": "moon rises"}) is None


@pytest.mark.parametrize(
    ("message", "seen", "expected"),
    [
        ("Listening on port 3000", "no JSON", "one JSON object per line"),
        ("[1]", "no JSON object", "an answer"),
        ({"ok": True}, "without an id", "1 (hello), 2 (open)"),
        ({"id": 9, "ok": True}, "an answer to 9, which nobody asked", "the id of a command"),
        ({"id": True, "ok": True}, "which nobody asked", "the id of a command"),
        ({"id": 2}, "an answer to open without ok", '"ok":true'),
        ({"id": 3, "ok": True}, "missing required field `lease`", '"lease":"h1"'),
        ({**GRANT, "lease": ""}, "`lease` is empty", '"lease":"h1"'),
        ({**GRANT, "claimed_ms": "9 s"}, "$.claimed_ms", '"claimed_ms":9898'),
        ({**GRANT, "fence": 2**63}, "too large", '"fence":null'),
        ({**GRANT, "fence": 1.5}, "$.fence", '"fence":null'),
        ({**HELLO, "caps": ["extned"]}, "unknown capability 'extned'", '"caps":'),
        ({**HELLO, "node_key": "lock"}, "`node_key` without {key}", '"lib":'),
        ({**HELLO, "ttl_step_ms": 0}, "below 1", '"lib":'),
        ({**HELLO, "permits": 0}, "`permits` below 1", '"lib":'),
        ({**HELLO, "permits": 1 << 40}, "`permits` is too large", '"lib":'),
        ({**HELLO, "permits": 2, "caps": ["read-write"]}, "of a lock that readers share", '"lib":'),
        ({"id": 3, "ok": False, "error": "E", "message": ""}, "`kind`", '"kind":"refused"'),
        (
            {"id": 3, "ok": False, "kind": "no", "error": "E", "message": ""},
            "$.kind",
            '"kind":"refused"',
        ),
        ({"event": "lost"}, "without its lease", '"event":"lost"'),
    ],
)
def test_whatever_is_no_message_is_shown_with_the_driver_and_what_was_expected(
    message: Any, seen: str, expected: str
) -> None:
    with pytest.raises(DriverBroken) as caught:
        read(message)
    error = caught.value
    assert seen in error.seen
    assert error.where == "driver './mine'"
    assert expected in str(error.expected)
    shown = message if isinstance(message, str) else json.dumps(message)
    assert repr(shown) in error.seen


def test_a_line_that_stops_in_the_middle_is_told_as_such() -> None:
    with pytest.raises(DriverBroken, match="in the middle of a line"):
        read_line("./mine", b'{"id":1', ASKED)


def test_long_errors_are_cut() -> None:
    assert len(Failed("error", "E", "x" * 10_000).words) == 200
