"""Fairness: the order of requests, where it is promised, and the longest wait."""

from __future__ import annotations

import numpy as np

from checker.history.evidence import Evidence
from checker.properties.fairness import overtaken, starvation
from checker.verdict import Outcome, Property
from tests.unit.checker.builder import MS, HistoryBuilder


def queue(**params: object) -> HistoryBuilder:
    builder = HistoryBuilder(clients=["alice", "bob", "carol"], fifo_ns=5 * MS, **params)
    return builder.acquire("carol", "c", 0, 1, ttl=None).op("carol", "release", 50, 52, grant_id="c")


def test_a_later_request_that_is_granted_first_is_overtaking() -> None:
    builder = queue().acquire("alice", "a", 10, 90, ttl=None)
    builder.acquire("bob", "b", 20, 53, ttl=None).op("bob", "release", 60, 61, grant_id="b")
    verdict = builder.verdict()
    assert verdict[Property.FAIRNESS].outcome is Outcome.VIOLATED
    (finding,) = verdict.named("overtaken")
    assert finding.clients == ("alice", "bob")
    assert finding.details["overtaken_by"] == 1


def test_requests_that_may_have_been_queued_in_either_order_are_not() -> None:
    builder = queue().acquire("alice", "a", 10, 90, ttl=None)
    builder.acquire("bob", "b", 14, 53, ttl=None).op("bob", "release", 60, 61, grant_id="b")
    assert builder.verdict()[Property.FAIRNESS].outcome is Outcome.OK


def test_a_reply_that_came_after_the_lease_says_nothing_about_the_order() -> None:
    builder = queue().acquire(
        "alice", "a", 10, 700, ttl=200
    )  # may have been granted, and over, before Bob asked
    builder.acquire("bob", "b", 500, 501, ttl=None).op("bob", "release", 510, 511, grant_id="b")
    assert builder.verdict()[Property.FAIRNESS].outcome is not Outcome.VIOLATED


def test_an_order_that_nobody_promised_is_not_judged() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 10, 90, ttl=None)
    builder.acquire("bob", "b", 20, 53, ttl=None).op("bob", "release", 60, 61, grant_id="b")
    assert Property.FAIRNESS not in builder.verdict().properties


def test_without_two_that_wait_nothing_is_known() -> None:
    assert queue().verdict()[Property.FAIRNESS].outcome is Outcome.UNKNOWN


def test_the_longest_wait_and_who_passed_by() -> None:
    builder = queue().acquire("alice", "a", 10, 90, ttl=None)
    builder.acquire("bob", "b", 20, 53, ttl=None).op("bob", "release", 60, 61, grant_id="b")
    wait = starvation(Evidence(builder.history()))
    assert wait is not None
    assert (wait.client, wait.waited_ns, wait.passed) == ("alice", 80 * MS, 1)


def test_only_what_surely_came_first_is_counted() -> None:
    """Twelve pairs whose returns lie within the clocks' error hid the one that does not, and were counted."""
    builder = HistoryBuilder(clients=["alice", "bob"], fifo_ns=MS, epsilon_ns=MS, model="owner-mutex")
    for number in range(13):
        begin, apart = 100 * number, 1 if number < 12 else 20
        builder.acquire(f"alice/{number}", f"a{number}", begin, begin + 40 + apart, ttl=None)
        builder.acquire(f"bob/{number}", f"b{number}", begin + 30, begin + 40, ttl=None)
        for who in "ab":
            process = f"{'alice' if who == 'a' else 'bob'}/{number}"
            builder.release(process, f"{who}{number}", begin + 70, begin + 71)
    evidence = Evidence(builder.history(), "owner-mutex")
    (finding,) = overtaken(evidence, np.arange(len(evidence.grants.row)))
    assert "count" not in finding.details
    assert finding.details["waited_ns"] == 60 * MS
