"""The measures of liveness, on histories whose numbers can be told by hand (times in milliseconds)."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from lab.analysis.metrics import Measures, measure
from lab.report.terminal import print_measures
from tests.unit.checker.builder import MS, HistoryBuilder


def measured(builder: HistoryBuilder) -> Measures:
    return measure(builder.history())


def test_attempts_and_latency() -> None:
    builder = HistoryBuilder().acquire("alice", "a1", 0, 10).release("alice", "a1", 20, 21)
    builder.acquire("bob", "b1", 5, 8, "fail").acquire("bob", "b2", 12, 18, "fail")
    builder.acquire("bob", "b3", 30, 60).release("bob", "b3", 70, 71)
    builder.acquire("alice", "a2", 40, 45, "fail").acquire("alice", "a3", 80, 90, "info")
    found = measured(builder)
    assert (found.attempts, found.grants, found.refused, found.unknown) == (6, 2, 3, 1)
    assert found.acquire_ns is not None
    assert (found.acquire_ns.p50, found.acquire_ns.max) == (20 * MS, 30 * MS)
    assert found.tries is not None
    assert (found.tries.mean, found.tries.max) == (2, 3), "alice at once, bob at the third attempt"


def test_attempts_are_counted_per_client_and_begin_anew_after_a_grant() -> None:
    builder = HistoryBuilder()
    for at, (who, how) in enumerate(
        [
            ("alice", "fail"),
            ("bob", "fail"),
            ("alice", "ok"),
            ("alice", "fail"),
            ("alice", "ok"),
            ("bob", "ok"),
        ]
    ):
        builder.acquire(who, f"g{at}", 10 * at, 10 * at + 5, how)
    found = measured(builder)
    assert found.tries is not None
    assert (found.tries.p50, found.tries.max, found.tries.mean) == (2, 2, 2)


def test_windows_tell_grants_demand_and_silence() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10).release("alice", "a", 20, 21)
    builder.acquire("bob", "b", 600, 1600, "fail")  # demand in the second, third and fourth window
    builder.acquire("bob", "b2", 2600, 2610)
    found = measured(builder)
    assert found.windows == "#...-#"
    assert found.available == pytest.approx(2 / 5)


def test_a_grant_counts_in_the_window_in_which_it_comes() -> None:
    assert measured(HistoryBuilder().acquire("alice", "a", 0, 1200)).windows == "..#"


def test_the_longest_gap_counts_only_while_a_majority_is_reachable() -> None:
    builder = HistoryBuilder(clients=["alice"]).acquire("alice", "a", 0, 10).release("alice", "a", 20, 21)
    builder.acquire("alice", "a2", 1000, 1010).release("alice", "a2", 1020, 1021)
    assert measured(builder).longest_gap_ns == 1000 * MS
    builder.fault("cut", 100, ["alice", "A", "B", "C"], until=700)
    assert measured(builder).longest_gap_ns == 400 * MS
    # Another client could be served all the while, so it counts again.
    builder.acquire("bob", "b", 300, 310, "fail")
    assert measured(builder).longest_gap_ns == 1000 * MS


def test_a_lock_that_never_comes_back_is_a_gap_too() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10)
    builder.acquire("bob", "b", 5000, 5010, "fail")
    assert measured(builder).longest_gap_ns == 5000 * MS


def test_how_long_after_a_heal() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10).release("alice", "a", 20, 21)
    builder.fault("cut", 30, ["alice", "A", "B", "C"], until=500)
    builder.acquire("bob", "b", 510, 530).release("bob", "b", 540, 541)
    builder.acquire("alice", "a2", 600, 620).release("alice", "a2", 630, 631)
    builder.fault("pause", 700, ["bob"], until=800)
    first, last = measured(builder).heals
    assert (first.any_client_ns, first.hit_client_ns) == (30 * MS, 120 * MS)
    assert (last.any_client_ns, last.hit_client_ns) == (None, None)


def test_a_holder_that_is_cut_off_costs_the_rest_of_its_lease() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10, ttl=1000)
    builder.fault("cut", 15, ["alice", "A", "B", "C", "D", "E"], until=500)
    builder.release("alice", "a", 30, 80, "info")
    builder.acquire("bob", "b", 200, 210, "fail").acquire("bob", "b2", 1005, 1010)
    builder.release("bob", "b2", 1020, 1021)
    builder.acquire("alice", "a2", 1030, 1040)
    (penalty,) = measured(builder).penalties
    assert (penalty.client, penalty.fault.f, penalty.ttl_ns) == ("alice", "cut", 1000 * MS)
    assert (penalty.from_grant_ns, penalty.from_fault_ns) == (1000 * MS, 995 * MS)


def test_what_is_usual_is_told_beside_what_a_fault_costs() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10, ttl=1000)
    builder.fault("cut", 15, ["alice", "A", "B", "C", "D", "E"], until=500)
    builder.release("alice", "a", 30, 80, "info").acquire("bob", "b", 1005, 1010).release(
        "bob", "b", 1020, 1021
    )
    builder.acquire("alice", "a2", 1030, 1040)
    measures = measured(builder)
    assert measures.handover_ns is not None
    assert measures.handover_ns.max == 30 * MS, (
        "from bob's grant to alice's; her own first one was never given back"
    )
    console = Console(record=True, width=400, file=io.StringIO())
    print_measures(console, measures)
    reported = console.export_text()
    assert "after a grant that was released the next one came within 30.0 ms (median)" in reported
    assert "1 grant could not be released because of a fault; the next one came 1000 ms (median)" in reported
    assert "with a TTL of 1000 ms: each cost 970 ms more than usual (median)" in reported


def test_whoever_gives_the_lock_back_costs_nothing() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10)
    builder.fault("cut", 15, ["alice", "A"], until=500)
    builder.release("alice", "a", 30, 32).acquire("bob", "b", 40, 50)
    assert measured(builder).penalties == ()


def test_no_fault_no_penalty() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10).release("alice", "a", 20, 70, "info")
    builder.fault("cut", 15, ["bob", "A"], until=500)
    builder.acquire("bob", "b", 1200, 1210)
    assert measured(builder).penalties == ()


def test_keys_are_measured_apart() -> None:
    builder = HistoryBuilder()
    for at in range(0, 1000, 100):
        builder.acquire("alice", f"a{at}", at, at + 5, key="x").release(
            "alice", f"a{at}", at + 10, at + 11, key="x"
        )
    builder.acquire("bob", "b", 0, 5, key="y").release("bob", "b", 10, 11, key="y")
    builder.acquire("bob", "b2", 800, 805, key="y")
    assert measured(builder).longest_gap_ns == 800 * MS


def test_an_empty_history_has_empty_measures() -> None:
    found = measured(HistoryBuilder())
    assert (found.attempts, found.windows, found.available, found.longest_gap_ns) == (0, "", None, 0)
    assert found.acquire_ns is found.tries is found.penalty_ns is None
    json.dumps(found.to_dict())


def test_the_json_form_is_in_milliseconds() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10)
    builder.fault("cut", 15, ["alice", "A", "B", "C"], until=500)
    builder.release("alice", "a", 30, 80, "info").acquire("bob", "b", 1000, 1040)
    kept = json.loads(json.dumps(measured(builder).to_dict()))
    assert kept["acquire_ms"] == {"p50": 25.0, "p99": 39.7, "max": 40.0, "mean": 25.0}
    assert kept["penalties"][0]["from_grant_ms"] == 1030.0
    assert kept["heals"][0]["after_ms"] == 540.0
    assert kept["availability"]["windows"] == "#-#"
