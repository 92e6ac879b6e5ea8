"""Deadlock among clients: circles of waits that were surely there, and none that were not."""

from __future__ import annotations

import pytest

from checker.verdict import Outcome, Property, Severity
from tests.unit.checker.builder import MS, HistoryBuilder

DEADLOCK = Property.DEADLOCK_FREEDOM


def circle(
    size: int, *, ttl: float | None = None, until: float | None = 900, **params: object
) -> HistoryBuilder:
    names = ["alice", "bob", "carol", "dave"][:size]
    builder = HistoryBuilder(clients=names, **params)
    for at, who in enumerate(names):
        builder.acquire(who, who, at, at + 0.5, ttl=ttl, key=f"lock of {who}")
    for at, who in enumerate(names):
        wanted = f"lock of {names[(at + 1) % size]}"
        builder.acquire(who, f"{who} again", 100 + at, until, "fail", ttl=ttl, key=wanted)
    return builder.op("alice/2", "read", 1_000, 1_001)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_circle_is_found_with_all_who_wait(size: int) -> None:
    (finding,) = circle(size).verdict().named("deadlock")
    assert len(finding.clients) == size
    assert finding.severity is Severity.WARNING
    assert finding.details["lasted_ns"] == round((900 - (100 + size - 1)) * MS)


def test_a_circle_that_never_ends_lasts_to_the_end_of_the_record() -> None:
    (finding,) = circle(2, until=None).verdict().named("deadlock")
    assert finding.details["lasted_ns"] == round((1_001 - 101) * MS)


def test_leases_end_a_circle() -> None:
    (finding,) = circle(2, ttl=300).verdict().named("deadlock")
    assert finding.details["lasted_ns"] < 200 * MS


def test_a_lock_that_breaks_deadlocks_must_do_so_in_time() -> None:
    kept = circle(2, breaks_deadlocks=True, grace_ns=850 * MS).verdict()
    assert kept.named("deadlock")[0].severity is Severity.WARNING
    broken = circle(2, breaks_deadlocks=True, grace_ns=100 * MS).verdict()
    assert broken[DEADLOCK].outcome is Outcome.VIOLATED


def test_locks_taken_in_one_order_make_no_circle() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "a1", 0, 1, ttl=None, key="x")
        .acquire("alice", "a2", 2, 3, ttl=None, key="y")
    )
    builder.acquire("bob", "b1", 4, 900, "fail", ttl=None, key="x").op("bob", "read", 950, 951)
    assert builder.verdict().named("deadlock") == ()


def test_a_lock_given_back_before_the_other_waits_makes_no_circle() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "a1", 0, 1, ttl=None, key="x")
        .acquire("bob", "b1", 0, 1, ttl=None, key="y")
    )
    builder.acquire("alice", "a2", 10, 90, "fail", ttl=None, key="y").op(
        "alice", "release", 95, 96, key="x", grant_id="a1"
    )
    builder.acquire("bob", "b2", 91, 200, ttl=None, key="x")
    assert builder.verdict().named("deadlock") == ()


def test_a_circle_of_unknown_grants_is_no_circle() -> None:
    builder = HistoryBuilder().acquire("alice", "a1", 0, 1, ttl=None, key="x")
    builder.acquire("bob", "b1", 0, 1, "info", ttl=None, key="y")
    builder.acquire("alice", "a2", 10, 90, "fail", ttl=None, key="y")
    builder.acquire("bob/1", "b2", 10, 90, "fail", ttl=None, key="x")
    assert builder.verdict().named("deadlock") == ()
