"""What stands in for scripts and SET on the direct wire does what they do, on random states."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

import pytest

from lab.locks.redlock import EXTEND_SCRIPT, UNLOCK_SCRIPT
from lab.redis_model import ErrorReply, RedisModel
from lab.redis_model.persistence import Persistence
from lab.redis_model.reply import Reply
from lab.redis_model.session import Argument
from lab.search.runner import run_trial, trials
from lab.search.shortcuts import NO_SHORTCUT, shortcuts, taken
from lab.search.trial import Round, Trial
from lab.store import store_script

pytestmark = pytest.mark.usefixtures("_patched")

KEY, LOG, EXECUTED, TOKENS = "resource", "log", "executed", ("one", "two", "")
STATES = 400


class Pair:
    """Two servers that have lived through the same."""

    def __init__(self, seed: int, persistence: Persistence = "aof-always") -> None:
        self.now_ns = 1_767_225_600_000_000_000
        self.scripted, self.short = (
            RedisModel(
                "A",
                wall_ns=lambda: self.now_ns,
                monotonic_ns=lambda: self.now_ns,
                persistence=persistence,
                random=Random(seed),
            )
            for _ in range(2)
        )

    def both(self, *words: str | int) -> None:
        """Let both execute a command."""
        assert self.scripted.call(*words) == self.short.call(*words)

    def compare(self, request: tuple[str | int, ...]) -> bool:
        """Whether there was a shortcut for this EVAL; it must come to what the script comes to."""
        expected = _plain(self.scripted.call(*request))
        reply = taken(self.short, request)
        was_short = reply is not NO_SHORTCUT
        if not was_short:
            reply = self.short.call(*request)
        assert _plain(reply) == expected, request
        assert self._state(self.short) == self._state(self.scripted), request
        return was_short

    @staticmethod
    def _state(model: RedisModel) -> Any:
        keys = model.keys
        data = {
            key: value if isinstance(value, bytes | dict) else list(value) for key, value in keys.data.items()
        }
        files = model.durable(power_cut=False), model.durable(power_cut=True)
        return data, keys.expires, keys.dirty, files, model.scripts, model.replication.offset


def _plain(reply: Any) -> Any:
    """With types: 1 is not True, and text is not a status."""
    if isinstance(reply, ErrorReply):
        return "error", str(reply)
    if isinstance(reply, list):
        return [_plain(item) for item in reply]
    return type(reply), reply


def test_what_a_shortcut_did_is_sent_to_replicas_too() -> None:
    pair = Pair(1)
    for model in (pair.scripted, pair.short):
        model.replication.has_stream = True
    assert pair.compare(("SET", KEY, "one", "NX", "PX", 1000))
    assert pair.compare(("EVAL", UNLOCK_SCRIPT, 1, KEY, "one"))
    assert pair.short.replication.offset > 0


def lock_request(random: Random, script: str) -> tuple[str | int, ...]:
    """A call of the unlock or extend script, sometimes a strange one."""
    arguments: list[str | int] = [random.choice(TOKENS)]
    if script == EXTEND_SCRIPT:
        arguments.append(random.choice((1, 5000, 10_000, 0, -5, "05", "x", 10**15, 10**19)))
    if random.random() < 0.1:
        arguments = random.choice(([], [*arguments, "more"], arguments[:1]))
    return ("EVAL", script, random.choice((1, 1, 1, 1, 1, 1, 1, 0, "1")), KEY, *arguments)


@pytest.mark.parametrize("script", [UNLOCK_SCRIPT, EXTEND_SCRIPT], ids=["unlock", "extend"])
def test_a_locks_script_and_its_shortcut_do_the_same(script: str) -> None:
    random = Random(script)
    short = 0
    for _ in range(STATES):
        pair = Pair(random.randrange(99))
        for _ in range(random.randrange(1, 5)):
            state = random.randrange(6)
            if state < 4:
                pair.both("SET", KEY, random.choice(TOKENS), *(("PX", 1000) if state < 2 else ()))
            elif state == 4:
                pair.both("HSET", random.choice((KEY, "other")), "a", "b")
            pair.now_ns += random.choice((0, 900_000_000, 1_001_000_000))
            short += pair.compare(lock_request(random, script))
    assert short > STATES / 2, "most of what a lock asks has to be short, or nothing was compared"


def set_request(random: Random) -> tuple[str | int, ...]:
    """A SET as locks send it, sometimes a strange one."""
    request = ("SET", KEY, random.choice(TOKENS), "NX", "PX", random.choice((1000, 5000)))
    if random.random() < 0.3:
        ttl_ms = random.choice((0, -5, "1000", "x", 10**12, 10**19))
        strange: tuple[tuple[str | int, ...], ...] = (
            (*request[:5], ttl_ms),
            (*request[:3], "XX", "PX", 1000),
            (*request[:3], "NX", "EX", 1),
            request[:5],
            request[:3],
            (*request, "GET"),
        )
        return random.choice(strange)
    return request


@pytest.mark.parametrize("persistence", get_args(Persistence))
def test_a_locks_set_and_its_shortcut_do_the_same(persistence: Persistence) -> None:
    random = Random(persistence)
    short = calls = 0
    for _ in range(STATES):
        pair = Pair(random.randrange(99), persistence)
        if random.random() < 0.2:
            pair.both("HSET", KEY, "a", "b")
        for _ in range(random.randrange(1, 6)):
            calls += 1
            short += pair.compare(set_request(random))
            pair.now_ns += random.choice((0, 900_000_000, 1_001_000_000, 5_001_000_000))
            if random.random() < 0.3:
                pair.compare(lock_request(random, UNLOCK_SCRIPT))
    assert short > calls / 2, "most of what a lock asks has to be short, or nothing was compared"


@pytest.mark.parametrize(("key", "token"), [(KEY.encode(), "one"), (KEY, b"one")])
def test_a_set_in_bytes_takes_no_shortcut(key: str | bytes, token: str | bytes) -> None:
    pair = Pair(1)
    assert not pair.compare(("SET", key, token, "NX", "PX", 1000))  # type: ignore[arg-type]


def test_what_somebody_watches_takes_no_shortcut() -> None:
    pair = Pair(1)
    seen: list[list[bytes]] = []
    pair.short.on_command = lambda command, by: seen.append(list(command))
    assert not pair.compare(("SET", KEY, "one", "NX", "PX", 1000))
    assert seen == [[b"SET", KEY.encode(), b"one", b"NX", b"PX", b"1000"]]


NUMBERS = ("", "0", "1", "7", "12", "007", "-3", "1e3", "x", "99999999999999", "100000000000000000000")
VALUES = ("alice:1", "", "é", 'a"b', "a\\b", "a/b", "line\nbreak", "\x7f", "bob:12")


def store_request(random: Random) -> tuple[str | int, ...]:
    """A call of the store's script, sometimes a strange one."""
    head = (
        "EVAL",
        store_script(),
        3,
        KEY,
        random.choice((LOG,) * 8 + (KEY,)),
        random.choice((EXECUTED,) * 9 + (KEY, LOG)),
    )
    verb = random.choice(("read", "announce", "write", "write", "write", "write"))
    if verb == "announce":
        return (*head, verb, random.choice(TOKENS))
    if verb == "read":
        return (
            *head,
            verb,
            *(random.choice(NUMBERS), random.choice("0001"))[: random.choice((2, 2, 2, 1, 0))],
        )
    value = random.choice(VALUES[:2] * 4 + VALUES)
    fence = random.choice(NUMBERS[:5] * 4 + NUMBERS)
    rest = (
        value,
        "alice-1",
        fence,
        random.choice(("", "0", "3")),
        random.choice("01"),
        random.choice(TOKENS),
    )
    return (*head, verb, *rest[: 6 if random.random() < 0.95 else random.randrange(6)])


def test_the_stores_script_and_its_shortcut_do_the_same() -> None:
    random = Random(6)
    short = 0
    calls = 0
    for _ in range(STATES):
        pair = Pair(random.randrange(99))
        if random.random() < 0.1:
            pair.both(
                *random.choice(
                    (
                        ("SET", KEY, "text"),
                        ("SET", LOG, "text"),
                        ("SET", EXECUTED, "text"),
                        ("RPUSH", KEY, "text"),
                    )
                )
            )
        if random.random() < 0.3:
            field = random.choice(("version", "fence", "value", "token"))
            pair.both("HSET", random.choice((KEY, KEY, "other")), field, random.choice(NUMBERS))
        for _ in range(random.randrange(1, 8)):
            calls += 1
            short += pair.compare(store_request(random))
    assert short > calls / 3, "most of what a client asks has to be short, or nothing was compared"


def test_all_that_a_trial_of_redlock_asks_takes_a_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_by: list[bool] = []

    def counted(model: RedisModel, request: tuple[Argument, ...]) -> Reply:
        reply = taken(model, request)
        taken_by.append(reply is not NO_SHORTCUT)
        return reply

    monkeypatch.setattr("lab.search.direct.taken", counted)
    with trials():
        run_trial(Trial("redlock", {"alice": (Round(0, 1_000_000),), "bob": (Round(0, 1_000_000),)}))
    assert taken_by
    assert all(taken_by)


def test_no_script_of_anybody_else_is_taken_for_one_of_these() -> None:
    pair = Pair(1)
    assert not pair.compare(("EVAL", "return 5", 0))
    assert set(shortcuts()) == {UNLOCK_SCRIPT, EXTEND_SCRIPT, store_script()}
