"""From when sentences count: from when the cluster was up, whatever was recorded before."""

from __future__ import annotations

import pytest

from checker.history.history import History
from checker.live.judge import OTHERS_MAX, Judge
from tests.unit.checker.builder import MS, HistoryBuilder

UP_MS = 800


def overlapping(*phases: tuple[float, str]) -> HistoryBuilder:
    """Two overlapping grants, after so long a start."""
    builder = HistoryBuilder(rho=0.0)
    for at, value in phases:
        builder.lab("phase", at, value=value)
    builder.fault("jump", UP_MS + 50, ["A"], breaks="bounded clock error")
    return builder.acquire("alice", "g1", UP_MS, UP_MS + 10).acquire("bob", "g2", UP_MS + 100, UP_MS + 110)


@pytest.mark.parametrize("value", ["steps", "story"])
def test_sentences_and_numbers_count_from_when_the_cluster_is_up(value: str) -> None:
    builder = overlapping((0, "up"), (UP_MS, value))
    (found,) = builder.verdict().named("overlap")
    assert "bob: acquired at 0.11 s" in found.why
    assert found.details["start_offset_ns"] == 110 * MS
    assert "at 0.05 s" in str(found.broken_assumption)
    history = builder.history()
    assert (history.start_ns, history.zero_ns) == (0, UP_MS * MS), "the record keeps its stamps"
    assert next(history.ops.call_ns.__iter__()) == UP_MS * MS


def test_without_that_event_they_count_from_the_first_one() -> None:
    (found,) = overlapping((0, "up")).verdict().named("overlap")
    assert "bob: acquired at 0.91 s" in found.why
    assert History.from_events([]).zero_ns == 0


def test_a_history_that_is_followed_counts_from_the_same_time() -> None:
    builder = overlapping((0, "up"), (UP_MS, "steps"))
    for at in range(OTHERS_MAX):  # more than are kept: the event itself is forgotten
        builder.lab("log", UP_MS + 60 + at / OTHERS_MAX)
    judge = Judge(builder.params)
    found = [one for event in builder.events() for one in judge.feed(event)] + judge.end()
    assert [one.why for one in found] == [one.why for one in builder.verdict().named("overlap")] != []


def test_a_finding_names_the_fault_that_it_is_put_down_to() -> None:
    builder = overlapping((0, "up"), (UP_MS, "steps"))
    (found,) = builder.verdict().named("overlap")
    (fault,) = builder.history().faults
    assert found.fault == fault.index
    assert f"(event {fault.index})" in str(found.broken_assumption)
    (plain,) = (
        HistoryBuilder(rho=0.0)
        .acquire("alice", "g1", 0, 10)
        .acquire("bob", "g2", 100, 110)
        .verdict()
        .named("overlap")
    )
    assert (plain.fault, plain.broken_assumption) == (None, None)
