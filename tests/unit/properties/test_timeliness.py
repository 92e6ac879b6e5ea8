"""Timeliness: a try with a time-out comes back in time, unless somebody stood still."""

from __future__ import annotations

from checker.verdict import Outcome, Property, Severity
from tests.unit.checker.builder import MS, HistoryBuilder


def tried(back: float | None, kind: str = "fail", **params: object) -> HistoryBuilder:
    builder = HistoryBuilder(stall_ns=20 * MS, wait_slack_ns=30 * MS, **params)
    builder.acquire("bob", "b", 0, 1, ttl=None)
    return builder.op("alice", "acquire", 10, back, kind, asked={"wait_ns": 100 * MS}).op(
        "bob", "read", 2_000, 2_001
    )


def test_in_time_within_the_slack_and_too_late() -> None:
    assert tried(110).verdict()[Property.TIMELINESS].outcome is Outcome.OK
    assert tried(139).verdict()[Property.TIMELINESS].outcome is Outcome.OK
    late = tried(145).verdict()
    assert late[Property.TIMELINESS].outcome is Outcome.VIOLATED
    assert late.named("late-return")[0].details["took_ns"] == 135 * MS


def test_how_it_came_back_makes_no_difference() -> None:
    assert tried(500, "info").verdict()[Property.TIMELINESS].outcome is Outcome.VIOLATED
    assert tried(500, "ok").verdict()[Property.TIMELINESS].outcome is Outcome.VIOLATED


def test_time_in_which_the_client_stood_still_does_not_count() -> None:
    builder = tried(500).stall("alice", 90, 390)
    assert builder.verdict()[Property.TIMELINESS].outcome is Outcome.OK
    other = tried(500).stall("bob", 90, 390)
    assert other.verdict()[Property.TIMELINESS].outcome is Outcome.VIOLATED


def test_a_try_that_never_came_back_is_a_warning() -> None:
    verdict = tried(None).verdict()
    assert [f.severity for f in verdict.named("late-return")] == [Severity.WARNING]


def test_without_a_time_out_nothing_is_judged() -> None:
    assert Property.TIMELINESS not in HistoryBuilder().acquire("bob", "b", 0, 1).verdict().properties
