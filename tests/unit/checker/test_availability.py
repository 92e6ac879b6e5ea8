"""Leaks, refusals and unavailability at the edge of each condition; `test_liveness.py` has the cases."""

from __future__ import annotations

import pytest

from checker.history.evidence import Interval
from checker.properties.availability import covers, merged, total, within
from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.checker.test_liveness import CLIENTS, dead_alice, leaked, refused, unavailable, wanting

NS = 1e-6


def crashed(**params: object) -> HistoryBuilder:
    """Alice's lease is over at 1010 ms; a leak takes refusals of more than 2000 ms after that."""
    return dead_alice(rho=0.0, **params)


def tried(builder: HistoryBuilder, *times: tuple[int, int], who: str = "bob") -> HistoryBuilder:
    for call, back in times:
        builder.acquire(who, f"{who}-{call}", call, back, "fail", error="held")
    return builder


def test_a_leak_is_longer_than_ttl_and_grace_not_as_long() -> None:
    assert not leaked(tried(crashed(), (1_100, 1_150), (1_900, 1_950), (2_700, 3_100)))
    assert leaked(tried(crashed(), (1_100, 1_150), (1_900, 1_950), (2_700, 3_101)))


def test_the_longest_lease_that_was_asked_for_counts_also_if_it_was_an_extension() -> None:
    def builder(until: int) -> HistoryBuilder:
        base = (
            HistoryBuilder(rho=0.0, **CLIENTS)
            .acquire("alice", "g1", 0, 10)
            .extend("alice", "g1", 20, 30, ttl=3_000)
        )
        return refused(base.release("alice", "g1", 40, 50), 100, until)

    assert not leaked(builder(3_900))
    assert leaked(builder(4_400))


def test_a_refusal_that_came_back_after_somebody_else_had_asked_proves_nothing() -> None:
    builder = tried(crashed(), *((at, at + 50) for at in range(1_100, 3_000, 100)), (3_050, 3_400))
    assert leaked(builder)
    assert not leaked(builder.acquire("carol", "c", 3_060, 3_070, claimed=900))


def test_tries_at_another_key_stand_beside_nobody() -> None:
    builder = tried(crashed(), (4_000, 4_050)).acquire("carol", "c", 4_010, 4_020, key="l")
    assert leaked(builder)


def test_a_late_refusal_is_enough_after_an_early_one() -> None:
    assert leaked(tried(crashed(), (2_000, 2_050), (4_000, 4_050)))


def test_a_single_late_refusal_counts_without_the_time_in_which_its_client_stood_still() -> None:
    assert not leaked(tried(crashed(), (3_500, 3_550)).stall("bob", 1_500, 1_500))
    assert leaked(tried(crashed(), (3_500, 3_550)).stall("bob", 1_500, 100))
    assert not leaked(tried(crashed(), (4_000, 4_400)).stall("bob", 4_100, 200))
    assert leaked(tried(crashed(), (4_000, 4_400)).stall("carol", 4_100, 200))


def test_several_standstills_of_one_client_count_together() -> None:
    builder = refused(crashed(), 1_100, 3_500)
    assert leaked(builder.stall("bob", 1_500, 100))
    assert leaked(builder.stall("bob", 1_700, 100))
    assert not leaked(builder.stall("lab", 2_000, 400))


def test_a_standstill_before_the_refusals_changes_nothing() -> None:
    assert not leaked(refused(crashed(), 1_100, 3_100).stall("bob", 30, 1_000))


def test_a_restart_is_over_once_it_is_confirmed() -> None:
    assert leaked(refused(dead_alice().fault("restart", 50, ["A", "B", "C"]), 100, 5_000))
    unsure = dead_alice().fault("restart", 50, ["A", "B", "C"], receipt=False)
    assert not leaked(refused(unsure, 100, 5_000))


def test_a_fault_that_names_nobody_may_have_hit_everybody() -> None:
    assert not leaked(refused(dead_alice().fault("partition", 50, []), 100, 5_000))
    assert leaked(refused(dead_alice().fault("partition", 50, ["alice", "bob"]), 100, 5_000))
    assert leaked(refused(dead_alice().fault("client_crash", 50, []), 100, 5_000)), "of clients, not nodes"


@pytest.mark.parametrize("gap_ns", [0, 2])
def test_intervals(gap_ns: int) -> None:
    parts = [Interval(0, 10), Interval(5, 12), Interval(14, 30), Interval(30, 40), Interval(43, 50)]
    joined = [Interval(0, 40)] if gap_ns else [Interval(0, 12), Interval(14, 40)]
    assert merged(reversed(parts), gap_ns) == [*joined, Interval(43, 50)]
    assert within(10, 30, parts) == [Interval(10, 12), Interval(14, 30)]
    assert total(within(10, 30, parts)) == 18
    assert covers(14, 30, parts)
    assert not covers(13, 30, parts)


@pytest.mark.parametrize(("called", "leak"), [(3_015, False), (3_016, True)])
def test_a_lease_may_be_over_later_by_as_much_as_stamps_are_uncertain(called: int, leak: bool) -> None:
    assert leaked(tried(crashed(epsilon_ns=5 * MS), (called, called + 50))) == leak


@pytest.mark.parametrize(("called", "leak"), [(2_055, False), (2_056, True)])
def test_a_release_may_be_over_later_by_as_much_as_stamps_are_uncertain(called: int, leak: bool) -> None:
    builder = HistoryBuilder(rho=0.0, epsilon_ns=5 * MS, **CLIENTS).acquire("alice", "g1", 0, 10)
    assert leaked(tried(builder.release("alice", "g1", 20, 50), (called, called + 50))) == leak


def test_a_lock_without_expiry_whose_acquire_timed_out_is_leaked() -> None:
    builder = HistoryBuilder(**CLIENTS).acquire("carol", "g0", 0, 1, ttl=None).release("carol", "g0", 2, 3)
    builder.acquire("alice", "g1", 10, 500, "info", ttl=None, error="timeout")
    for at in range(600, 2_000, 100):
        builder.acquire("bob", f"b{at}", at, at + 50, "fail", ttl=None)
    assert leaked(builder)


def timed_out() -> HistoryBuilder:
    """Alice's acquire explains refusals until 1500 ms, longer only if her message was held back."""
    builder = HistoryBuilder(rho=0.0, **CLIENTS).acquire("carol", "g0", 0, 1).release("carol", "g0", 2, 3)
    return builder.acquire("alice", "g1", 10, 500, "info", error="timeout")


def test_only_what_held_back_the_clients_own_message_explains_refusals() -> None:
    assert leaked(refused(timed_out(), 1_600, 4_000))
    assert not leaked(refused(timed_out().fault("hold", 5, ["alice", "A"], until=2_000), 1_600, 4_000))
    assert leaked(refused(timed_out().fault("hold", 5, ["carol", "A"], until=2_000), 1_600, 4_000))
    assert leaked(refused(timed_out().fault("hold", 5, ["alice", "A"], until=600), 1_700, 4_000))
    assert leaked(refused(timed_out().fault("hold", 5, ["alice", "A"], until=300), 1_700, 4_000))
    assert leaked(refused(timed_out().fault("hold", 600, ["alice", "A"]), 1_600, 4_000))


def test_a_leak_of_the_second_key() -> None:
    builder = (
        HistoryBuilder(**CLIENTS).acquire("bob", "g0", 0, 5, key="k").acquire("carol", "g1", 6, 10, key="l")
    )
    builder.fault("client_crash", 20, ["carol"])
    for at in range(1_100, 3_400, 100):
        builder.acquire("bob", f"b{at}", at, at + 50, "fail", key="l")
    assert [f.key for f in builder.verdict().named("leak")] == ["l"]


def test_faults_of_different_nodes_add_up() -> None:
    builder = dead_alice().fault("crash", 50, ["A", "B"]).fault("crash", 60, ["C"])
    assert not leaked(refused(builder, 100, 5_000))
    assert leaked(refused(dead_alice().fault("crash", 50, ["A"]).fault("crash", 60, ["B"]), 100, 5_000))


@pytest.mark.parametrize("quorum", [None, 3])
def test_without_the_number_of_nodes_a_majority_is_not_known(quorum: int | None) -> None:
    builder = refused(dead_alice(nodes=None, quorum=quorum).fault("crash", 50, ["A"]), 100, 5_000)
    verdict = builder.verdict()["deadlock_freedom"]
    assert (verdict.outcome, verdict.findings) == ("ok", ())


def test_a_client_may_be_killed_twice() -> None:
    builder = crashed().release("alice/2", "g1", 1_100, 1_110).acquire("alice/2", "g2", 1_200, 1_210)
    assert leaked(refused(builder.fault("client_crash", 1_300, ["alice"]), 2_300, 4_500))


def test_grants_and_questions_while_no_majority_was_up_prove_nothing() -> None:
    def down() -> HistoryBuilder:
        return HistoryBuilder(**CLIENTS).fault("crash", 0, ["A", "B", "C"], until=100)

    granted = tried(down().acquire("alice", "g1", 20, 30, ttl=5), (200, 210)).verdict()["fault_tolerance"]
    assert granted.outcome == "unknown"
    assert granted.why == "no client was granted the lock while a majority was up"
    cut = tried(down().fault("cut", 90, ["bob", "A", "B", "C"]), (200, 210))
    asked = (
        tried(cut, (20, 30), who="alice").acquire("carol", "g1", 40, 50, ttl=5).verdict()["fault_tolerance"]
    )
    assert asked.why == "no client asked for the lock while a majority was up"


def test_waiting_as_long_as_the_bound_is_not_unavailability() -> None:
    assert not unavailable(wanting().acquire("bob", "b", 1_100, 3_100, "info"))
    assert unavailable(wanting().acquire("bob", "b", 1_100, 3_100 + NS, "info"))
