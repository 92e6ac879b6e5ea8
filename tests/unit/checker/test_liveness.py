"""Leaks and unavailability: what is held against the lock, and what is not."""

from __future__ import annotations

import pytest

from tests.unit.checker.builder import HistoryBuilder, names

CLIENTS = {"clients": ["alice", "bob", "carol"]}


def refused(
    builder: HistoryBuilder, begin: int, end: int, who: str = "bob", every: int = 100, **reported: int | None
) -> HistoryBuilder:
    for number, at in enumerate(range(begin, end, every)):
        builder.acquire(who, f"{who}-{begin}-{number}", at, at + every // 2, "fail", **reported)
    return builder


def dead_alice(**params: object) -> HistoryBuilder:
    builder = HistoryBuilder(**CLIENTS, **params).acquire("alice", "g1", 0, 10, claimed=980)
    return builder.fault("client_crash", 20, ["alice"])


def leaked(builder: HistoryBuilder) -> bool:
    return "leak" in names(builder.verdict())


def test_refusals_for_longer_than_ttl_and_grace_after_the_lease_are_a_leak() -> None:
    assert leaked(refused(dead_alice(), 100, 3_300))
    assert not leaked(refused(dead_alice(), 100, 2_900))


def test_nodes_that_keep_silent_show_no_holder() -> None:
    assert not leaked(refused(dead_alice(), 100, 9_000, refused_by=0))
    late = dead_alice().acquire("bob", "b", 9_000, 9_050, "fail", refused_by=0)
    assert not leaked(late)


def test_a_record_that_does_not_tell_who_refused_proves_no_leak() -> None:
    builder = refused(dead_alice(), 100, 9_000, refused_by=None)
    assert not leaked(builder)
    seen = builder.verdict()["deadlock_freedom"]
    assert seen.outcome == "unknown"
    assert "the record does not show that nodes refused" in seen.why


def test_one_late_refusal_is_enough_but_not_beside_another_try() -> None:
    alone = dead_alice().acquire("bob", "b", 4_000, 4_050, "fail")
    assert leaked(alone)
    contended = (
        dead_alice().acquire("bob", "b", 4_000, 4_050, "fail").acquire("carol", "c", 4_010, 4_060, "fail")
    )
    assert not leaked(contended)
    early = dead_alice().acquire("bob", "b", 2_900, 2_950, "fail")
    assert not leaked(early)


def test_a_lock_that_is_held_is_no_leak() -> None:
    builder = HistoryBuilder(**CLIENTS).acquire("alice", "g1", 0, 10, claimed=980)
    for at in range(500, 5_000, 500):
        builder.extend("alice", "g1", at, at + 10, claimed=980)
    assert not leaked(refused(builder, 100, 5_000))


def test_an_indeterminate_acquire_explains_refusals_only_for_its_ttl() -> None:
    builder = HistoryBuilder(**CLIENTS).acquire("carol", "g0", 0, 5).release("carol", "g0", 6, 7)
    builder.acquire("alice", "g1", 10, 500, "info", error="timeout")
    assert not leaked(refused(builder, 1_000, 3_400))
    assert leaked(refused(builder, 3_400, 3_800))


def test_a_message_held_in_the_network_explains_until_it_is_let_go() -> None:
    builder = HistoryBuilder(**CLIENTS).fault("hold", 5, ["alice", "A", "B", "C"], until=3_000)
    builder.acquire("alice", "g1", 10, 500, "info", error="timeout")
    assert not leaked(refused(builder, 600, 4_900))


def test_an_acquire_that_never_returned_explains_for_ever() -> None:
    builder = HistoryBuilder(**CLIENTS).acquire("alice", "g1", 0, None)
    assert not leaked(refused(builder, 100, 9_000))


def test_a_crashed_client_of_a_lock_without_expiry_leaks_it() -> None:
    builder = (
        HistoryBuilder(**CLIENTS).acquire("alice", "g1", 0, 10, ttl=None).fault("client_crash", 20, ["alice"])
    )
    for number, at in enumerate(range(100, 2_000, 100)):
        builder.acquire("bob", f"b{number}", at, at + 50, "fail", ttl=None)
    assert leaked(builder)
    held = HistoryBuilder(**CLIENTS).acquire("alice", "g1", 0, 10, ttl=None)
    for number, at in enumerate(range(100, 2_000, 100)):
        held.acquire("bob", f"b{number}", at, at + 50, "fail", ttl=None)
    assert not leaked(held)


@pytest.mark.parametrize("f", ["crash", "power_cut", "shutdown", "pause"])
def test_without_a_majority_nobody_is_blamed(f: str) -> None:
    assert not leaked(refused(dead_alice().fault(f, 50, ["A", "B", "C"]), 100, 5_000))
    assert leaked(refused(dead_alice().fault(f, 50, ["A", "B"]), 100, 5_000))


def test_a_cut_counts_for_its_client_only() -> None:
    assert not leaked(refused(dead_alice().fault("cut", 50, ["bob", "A", "B", "C"]), 100, 5_000))
    assert leaked(refused(dead_alice().fault("cut", 50, ["carol", "A", "B", "C"]), 100, 5_000))


def test_a_clock_jump_stops_nobody_and_is_blamed() -> None:
    builder = refused(
        dead_alice().fault("jump", 50, ["A", "B", "C"], breaks="bounded clock error"), 100, 5_000
    )
    (finding,) = builder.verdict().named("leak")
    assert finding.broken_assumption == (
        "assumption 'bounded clock error' was broken by the nemesis at 0.05 s (event 4)"
    )


def test_time_in_which_the_asking_client_or_the_lab_stood_still_does_not_count() -> None:
    assert not leaked(refused(dead_alice().stall("bob", 1_500, 1_500), 100, 3_500))
    assert not leaked(refused(dead_alice().stall("lab", 1_500, 1_500), 100, 3_500))
    assert leaked(refused(dead_alice().stall("carol", 1_500, 1_500), 100, 3_500))


def test_a_client_that_was_started_again_is_alive() -> None:
    builder = (
        HistoryBuilder(**CLIENTS).acquire("alice", "g1", 0, 10, ttl=None).fault("client_crash", 20, ["alice"])
    )
    builder.release("alice/2", "g1", 30, 40).acquire("alice/2", "g2", 50, 60, ttl=None)
    for number, at in enumerate(range(100, 2_000, 100)):
        builder.acquire("bob", f"b{number}", at, at + 50, "fail", ttl=None)
    assert not leaked(builder)
    assert leaked(refused(dead_alice().acquire("alice/2", "g2", 30, 40), 100, 5_000, who="alice/2"))


def wanting(**params: object) -> HistoryBuilder:
    builder = HistoryBuilder(unavailable_ns=2_000_000_000, **CLIENTS, **params)
    return builder.acquire("alice", "g1", 0, 10, claimed=980).release("alice", "g1", 20, 30)


def timeouts(builder: HistoryBuilder, begin: int, end: int) -> HistoryBuilder:
    for number, at in enumerate(range(begin, end, 100)):
        builder.acquire(f"bob/{number}", f"b{number}", at, at + 90, "info", error="timeout")
    return builder


def unavailable(builder: HistoryBuilder) -> bool:
    return "unavailable" in names(builder.verdict())


def test_a_try_that_ended_before_the_gap_does_not_lengthen_the_wait_of_a_later_one() -> None:
    """Bob asks for 1.2 s, within the grace after Alice's release; her own acquire was over long before."""
    assert not unavailable(wanting().acquire("bob", "b", 900, 2_100, "info"))
    assert not unavailable(wanting().acquire("bob", "b", 1_040, 2_100, "info"))


def test_timeouts_for_longer_than_the_bound_are_unavailability() -> None:
    assert unavailable(timeouts(wanting(), 100, 2_300))
    assert not unavailable(timeouts(wanting(), 100, 2_000))


def test_a_grant_in_between_is_availability() -> None:
    builder = timeouts(wanting(), 100, 2_300).acquire("carol", "c", 1_000, 1_010, claimed=900)
    assert not unavailable(builder.release("carol", "c", 1_020, 1_030))


def test_one_long_wait_is_demand() -> None:
    assert unavailable(wanting().acquire("bob", "b", 100, 2_500, "info"))
    assert unavailable(wanting().acquire("bob", "b", 100, 2_500, ttl=5_000, claimed=1))
    assert not unavailable(wanting().acquire("bob", "b", 100, 1_900, ttl=5_000, claimed=1))


def test_no_bound_no_unavailability() -> None:
    builder = HistoryBuilder(**CLIENTS).acquire("alice", "g1", 0, 10).release("alice", "g1", 20, 30)
    assert not unavailable(timeouts(builder, 100, 9_000))


def test_a_holder_is_not_unavailability() -> None:
    builder = wanting().acquire("alice", "g2", 40, 50, ttl=5_000, claimed=4_900)
    assert not unavailable(timeouts(builder, 100, 4_000))


def test_waits_are_not_joined_across_the_loss_of_a_majority() -> None:
    builder = timeouts(wanting(), 100, 2_600).fault("crash", 1_300, ["A", "B", "C"], until=1_400)
    assert not unavailable(builder)


def test_nobody_asked_or_nobody_could_be_served_is_unknown() -> None:
    down = HistoryBuilder(**CLIENTS).fault("crash", 0, ["A", "B", "C"])
    verdict = refused(down, 100, 300).verdict()
    assert verdict["fault_tolerance"].outcome == "unknown"
    assert "while a majority was up" in verdict["fault_tolerance"].why
    nobody = HistoryBuilder().op("alice", "read", 0, 10, version_read=0).verdict()
    assert nobody["deadlock_freedom"].outcome == "unknown"
