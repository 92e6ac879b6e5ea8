"""Twelve findings of one kind, of which ten are listed with the true number; and what is said of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.checker.test_what_was_shown import overlapping

MANY, LISTED = 12, 10
Twice = Callable[[HistoryBuilder, str, str, float], object]


def loss(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 1, ttl=5, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 10, at + 11, ttl=5, key=key)
    builder.extend(f"{who}/1", f"{key}a", at + 20, at + 21, ttl=5, key=key)


def late(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.op(f"{who}/1", "acquire", at, at + 200, "fail", asked={"wait_ns": 10 * MS}, key=key)


def stale(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 1, ttl=5, key=key)
    builder.op(f"{who}/1", "read", at + 30, at + 31, key=key, grant_id=f"{key}a")


def believed(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 1, ttl=5, claimed=20, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 10, at + 11, ttl=5, key=key)


def held_twice(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 1, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 10, at + 11, key=key)


def lost(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 1, ttl=5, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 10, at + 40, "fail", ttl=5, key=key)


def shared_term(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 5, ttl=None, fence=3, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 1, at + 6, ttl=None, fence=3, key=key)


def earlier_term(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 5, ttl=None, fence=3, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 6, at + 7, ttl=None, fence=2, key=key)


def room(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.op(f"{who}/1", "acquire", at, at + 5, "fail", key=key, error="taken")


def overtaking(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    builder.acquire(f"{who}/1", f"{key}a", at, at + 40, ttl=None, key=key)
    builder.acquire(f"{who}b/1", f"{key}b", at + 10, at + 20, ttl=None, key=key)
    builder.release(f"{who}b/1", f"{key}b", at + 25, at + 30, key=key)


def circle(builder: HistoryBuilder, who: str, key: str, at: float) -> None:
    a, b = f"{key}x", f"{key}y"
    builder.acquire(f"{who}/1", a, at, at + 1, ttl=None, key=a)
    builder.acquire(f"{who}b/1", b, at, at + 1, ttl=None, key=b)
    builder.acquire(f"{who}/1", f"{a}2", at + 5, at + 50, "fail", ttl=None, key=b)
    builder.acquire(f"{who}b/1", f"{b}2", at + 6, at + 60, "fail", ttl=None, key=a)


CASES: dict[str, tuple[Twice, dict[str, Any]]] = {
    "overlap": (held_twice, {}),
    "leak": (lost, {"grace_ns": 10 * MS}),
    "unavailable": (lost, {"unavailable_ns": 10 * MS}),
    "continuity-loss": (loss, {}),
    "late-return": (late, {}),
    "stale-use": (stale, {}),
    "belief-overlap": (believed, {}),
    "shared-term": (shared_term, {"model": "leader-election"}),
    "term-order": (earlier_term, {"model": "leader-election"}),
    "refused-with-room": (room, {"model": "semaphore", "permits": 1, "refusals": ["taken"]}),
    "overtaken": (overtaking, {"fifo_ns": MS}),
    "deadlock": (circle, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_ten_are_listed_and_all_are_counted(name: str) -> None:
    add, params = CASES[name]
    builder = HistoryBuilder(**{"clients": [], **params})
    for number in range(MANY):
        add(builder, f"c{number:02}", f"k{number:02}", 100.0 * number)
    found = builder.verdict().named(name)
    assert [finding.details["count"] for finding in found] == [MANY] * LISTED
    keys = [f"k{number:02}" for number in range(LISTED)]
    assert [(finding.key or "")[:3] for finding in found] == keys
    for number, finding in enumerate(found):
        assert all(client.startswith(f"c{number:02}") for client in finding.clients)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("DEL k", "deleted"),
        ("unlink k", "deleted"),
        ("GETDEL k", "deleted"),
        ("SET k other", "overwrote"),
        ("GETSET k other", "overwrote"),
        ("PSETEX k 5 other", "overwrote"),
        ("SETEX k 5 other", "overwrote"),
        ("EXPIRE k 0", "set the time to live of"),
        ("PEXPIRE k 0", "set the time to live of"),
        ("PEXPIREAT k 0", "set the time to live of"),
        ("RENAME k other", "renamed"),
        ("PERSIST k", "changed"),
    ],
)
def test_what_a_command_did_to_the_key(command: str, said: str) -> None:
    builder = overlapping().look("ABC", 91, None, command, ran=90)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is not None
    word = command.split()[0].upper()
    assert f"{word} {said} the key on A, B and C at 0.08 s" in finding.cause.text


@pytest.mark.parametrize("command", ["SETNX k other", "SET k other NX PX 5", "EVAL s 1 k"])
def test_a_command_that_takes_nothing_away_is_no_cause(command: str) -> None:
    builder = overlapping().look("ABC", 91, None, command, ran=90)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is None or finding.cause.kind != "command"
