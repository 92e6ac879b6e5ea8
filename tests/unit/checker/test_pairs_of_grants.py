"""Processes that do not alternate, versions that run ahead, and a refused try of another key."""

from __future__ import annotations

import pytest

from checker.errors import HistoryError
from checker.history.events import Event, Params
from checker.history.evidence import Evidence
from checker.history.history import History
from checker.live.judge import Judge
from checker.properties.fairness import starvation
from checker.verdict import Outcome, Property, Severity
from tests.unit.checker.builder import MS, HistoryBuilder


def event(process: str, type: str, at: int) -> Event:
    return Event(time_ns=at * MS, process=process, type=type, f="acquire", key="k")  # type: ignore[arg-type]


def test_a_completion_of_another_process_completes_nothing() -> None:
    events = [event("alice", "invoke", 0), event("bob", "ok", 1)]
    with pytest.raises(HistoryError, match="completes what it never invoked: bob acquire"):
        History.from_events(events, Params())


def test_a_process_that_invokes_twice_is_named() -> None:
    events = [event("alice", "invoke", 0), event("bob", "invoke", 1), event("bob", "invoke", 2)]
    with pytest.raises(HistoryError, match="invokes again before its completion: bob acquire"):
        History.from_events(events, Params())


def test_a_write_based_on_a_version_that_came_later_is_a_contradiction_of_its_own_key() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 1).acquire("alice", "b", 2, 3, key="l")
    builder.write("alice", "a", 4, 5, 0, 1).write("alice", "a", 6, 7, 3, 2).write("alice", "a", 8, 9, 2, 3)
    builder.write("alice", "b", 10, 11, 0, 1, key="l").write("alice", "b", 12, 13, 1, 2, key="l")
    verdict = builder.verdict()
    assert verdict[Property.RESOURCE].outcome is Outcome.VIOLATED
    assert {f.key for f in verdict[Property.RESOURCE].violations} == {"k"}


def test_the_wait_that_is_told_is_the_longest_and_counts_those_that_passed_on_its_key() -> None:
    builder = HistoryBuilder(fifo_ns=500 * MS).acquire("alice", "a", 0, 90, ttl=None, key="k")
    builder.acquire("bob", "b", 1, 2, ttl=None, key="l").acquire("carol", "c", 5, 50, ttl=None, key="k")
    builder.acquire("dave", "d", 80, 95, ttl=None, key="k").acquire("erin", "e", 10, 20, "info", key="k")
    wait = starvation(Evidence(builder.history()))
    assert wait is not None
    assert (wait.client, wait.key, wait.waited_ns, wait.passed) == ("alice", "k", 90 * MS, 1)


def test_a_try_that_never_came_back_is_explained_by_a_client_that_was_killed() -> None:
    def tried(*killed: str, at: float = 20) -> Severity:
        builder = HistoryBuilder(wait_slack_ns=10 * MS).acquire("bob", "b", 0, 1)
        builder.op("alice", "acquire", 10, None, asked={"wait_ns": 10 * MS})
        for name in killed:
            builder.fault("client-crash", at, [name])
        (finding,) = builder.op("bob", "read", 500, 501).verdict().named("late-return")
        return finding.severity

    assert tried() is Severity.WARNING
    assert tried("bob") is Severity.WARNING
    assert tried("alice") is Severity.INFORMATION
    assert tried("alice", at=5) is Severity.WARNING


def test_a_write_that_replaced_a_blind_one_unseen_is_a_cycle() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 1).acquire("bob", "b", 2, 3, key="l")
    builder.write("alice", "a", 4, 5, None, 1).write("alice", "a", 6, 7, 0, 2)
    (finding,) = builder.verdict().named("cycle")
    assert {edge["kind"] for edge in finding.details["edges"]} >= {"rw"}
    assert finding.witnesses == (5, 7)


def test_a_release_that_nothing_came_before_says_so() -> None:
    builder = HistoryBuilder(model="mutex").op("alice", "release", 0, 1).op("alice", "acquire", 2, 3)
    (finding,) = builder.verdict().named("not-linearizable")
    assert finding.why.endswith("needs the lock to be held, but no acquire called by 1 ms can have taken it.")


def test_a_fault_that_is_injected_twice_lacks_the_first_receipt() -> None:
    judge = Judge(HistoryBuilder().params)
    for at, (kind, f) in enumerate(
        (("invoke", "crash"), ("invoke", "crash"), ("ok", "crash"), ("info", "jump"))
    ):
        judge.feed(Event(time_ns=at, process="nemesis", type=kind, f=f))  # type: ignore[arg-type]
    assert list(judge.doubts.reasons()) == ["no receipt for crash (event 0)"]
    judge.feed(Event(time_ns=9, process="nemesis", type="invoke", f="jump"))
    judge.feed(Event(time_ns=10, process="nemesis", type="info", f="jump"))
    assert list(judge.doubts.reasons())[1:] == ["no receipt for jump (event 4)"]
