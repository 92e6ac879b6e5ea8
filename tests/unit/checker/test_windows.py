"""The windows of a grant, to the nanosecond, and a brute-force oracle of what a lease allows."""

from __future__ import annotations

from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.history.events import Event
from checker.history.evidence import Evidence
from checker.history.operations import NEVER
from checker.history.windows import Segments, possible
from checker.properties import mutual_exclusion
from tests.fuzzing import examples
from tests.unit.checker.builder import MS, HistoryBuilder, names


def intervals(segments: Segments) -> list[tuple[int, float, float]]:
    return sorted(
        (int(g), s / MS, e / MS if e < NEVER else float("inf"))
        for g, s, e in zip(segments.grant, segments.start_ns, segments.end_ns, strict=True)
    )


def guaranteed(builder: HistoryBuilder) -> list[tuple[int, float, float]]:
    return intervals(Evidence(builder.history()).guaranteed)


def believed(builder: HistoryBuilder) -> list[tuple[int, float, float]]:
    return intervals(Evidence(builder.history()).believed)


def possibly(builder: HistoryBuilder) -> list[tuple[int, float, float]]:
    evidence = Evidence(builder.history())
    return intervals(possible(evidence.grants, evidence.params))


def test_guaranteed_counts_from_the_call_and_shrinks_by_drift_margin_and_uncertainty() -> None:
    builder = HistoryBuilder(rho=0.01, delta_ns=2 * MS, epsilon_ns=3 * MS).acquire("alice", "g", 100, 110)
    ((grant, start, end),) = guaranteed(builder)
    assert (grant, start) == (0, 113)
    assert end == pytest.approx(100 + 1000 * 0.99 / 1.01 - 2 - 3, abs=1e-5)


def test_guaranteed_ends_at_the_release_call_whatever_the_outcome() -> None:
    for outcome in ("ok", "fail", "info"):
        builder = HistoryBuilder().acquire("alice", "g", 0, 10).release("alice", "g", 50, 60, outcome)
        assert guaranteed(builder) == [(0, 10, 50)]


def test_an_extension_before_the_deadline_moves_it() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 999, 1005)
    assert guaranteed(builder) == [(0, 10, 1999)]


def test_an_extension_after_the_deadline_opens_a_new_segment() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 1000, 1005)
    assert guaranteed(builder) == [(0, 10, 1000), (0, 1005, 2000)]


def test_an_extension_may_shorten_a_lease() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 100, 110, ttl=50)
    assert guaranteed(builder) == [(0, 10, 150)]


def test_extensions_whose_order_is_open_count_with_the_shortest_ttl() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10)
    builder.extend("alice", "g", 100, 300, ttl=50).extend("alice/watchdog", "g", 200, 250, ttl=1000)
    assert guaranteed(builder) == [(0, 10, 150)]


def test_an_extension_of_unknown_outcome_may_shorten_a_lease_from_its_call_on() -> None:
    builder = (
        HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 100, 110, "info", ttl=50)
    )
    assert guaranteed(builder) == [(0, 10, 150)]
    builder.extend("alice/2", "g", 120, 130)  # the node may execute the shorter one last
    assert guaranteed(builder) == [(0, 10, 170)]


def test_an_extension_takes_nothing_back_that_was_guaranteed_before_its_call() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 500, 510)
    builder.extend("alice", "g", 1400, 1410, "info", ttl=20)
    assert guaranteed(builder) == [(0, 10, 1420)]
    over = (
        HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 1400, 1410, "info", ttl=20)
    )
    assert guaranteed(over) == [(0, 10, 1000)]


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_an_extension_that_did_not_succeed_guarantees_nothing(outcome: str) -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 500, 510, outcome)
    assert guaranteed(builder) == [(0, 10, 1000)]


def test_an_acquire_of_unknown_outcome_is_possible_for_ever_and_nothing_else() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 5, 10, "info")
    assert (guaranteed(builder), believed(builder)) == ([], [])
    assert possibly(builder) == [(0, 5, float("inf"))]


def test_a_token_in_an_accepted_write_promotes_an_acquire() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10, "info")
    builder.write("alice/2", "g", 20, 30, 0, 1, token="t")
    assert guaranteed(builder) == [(0, 30, 1000)]
    assert believed(builder) == []


def test_a_write_that_was_not_accepted_promotes_nothing() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g", 0, 10, "info")
        .write("alice/2", "g", 20, 30, 0, 1, "fail", token="t")
    )
    assert guaranteed(builder) == []


def test_a_write_without_a_token_promotes_nothing() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10, "info").write("alice/2", "g", 20, 30, 0, 1)
    assert guaranteed(builder) == []


def test_the_store_log_promotes_an_acquire() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10, "info")
    builder.lab("log", 40, key="k", entries=[(1, "x", "g", None)])
    assert guaranteed(builder) == [(0, 40, 1000)]


def test_possible_lasts_to_the_end_of_release_or_lease() -> None:
    assert possibly(HistoryBuilder(rho=0.0).acquire("alice", "g", 5, 10)) == [(0, 5, 1010)]
    released = HistoryBuilder(rho=0.0).acquire("alice", "g", 5, 10).release("alice", "g", 20, 30)
    assert possibly(released) == [(0, 5, 30)]
    unsure = HistoryBuilder(rho=0.0).acquire("alice", "g", 5, 10).release("alice", "g", 20, 30, "info")
    assert possibly(unsure) == [(0, 5, 1010)]
    lost = (
        HistoryBuilder(rho=0.0)
        .acquire("alice", "g", 5, 10)
        .release("alice", "g", 20, 30, "fail", error="not-held")
    )
    assert possibly(lost) == [(0, 5, 30)]


def test_an_extension_of_unknown_outcome_lengthens_what_is_possible() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 5, 10).extend("alice", "g", 100, 110, "info")
    assert possibly(builder) == [(0, 5, float("inf"))]


def test_belief_ends_at_release_claim_failed_extension_or_death() -> None:
    start = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=500)
    assert believed(start) == [(0, 10, 510)]
    assert believed(HistoryBuilder().acquire("alice", "g", 0, 10)) == [(0, 10, 1010)]
    assert believed(start.extend("alice", "g", 100, 120, "fail")) == [(0, 10, 120)]
    dead = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=500).fault("client_crash", 200, ["alice"])
    assert believed(dead) == [(0, 10, 200)]
    released = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=500).release("alice", "g", 50, 60)
    assert believed(released) == [(0, 10, 50)]


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_an_extension_that_failed_and_ended_belief_gives_the_lease_up(outcome: str) -> None:
    start = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10)
    told = start.extend("alice", "g", 100, 120, outcome, value="no")
    assert guaranteed(told) == [(0, 10, 100)]
    assert guaranteed(told.op("alice", "held", 150, 160, grant_id="g", value="yes")) == [(0, 10, 1000)]


@pytest.mark.parametrize(("back", "value"), [(120, "yes"), (1100, "no")])
def test_an_extension_that_failed_leaves_the_lease_to_who_believes_in_it(back: int, value: str) -> None:
    """Who is told when the lease is over believed in it all the time."""
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10)
    assert guaranteed(builder.extend("alice", "g", 100, back, "fail", value=value)) == [(0, 10, 1000)]


def test_a_pause_does_not_shorten_belief() -> None:
    builder = (
        HistoryBuilder().acquire("alice", "g", 0, 10, claimed=500).fault("pause", 20, ["alice"], until=400)
    )
    assert believed(builder) == [(0, 10, 510)]


def test_a_lock_without_expiry_is_held_until_released() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10, ttl=None)
    assert guaranteed(builder) == [(0, 10, float("inf"))]


def test_many_extensions_are_one_segment() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10)
    for i in range(1, 50):
        builder.extend("alice", "g", i * 500, i * 500 + 5)
    assert guaranteed(builder) == [(0, 10, 49 * 500 + 1000)]


# -- the oracle: could nodes and a recorder whose clocks err by ρ have given these grants? -------------------

TTL, RHO = 12, 1 / 3
SHORTEST, LONGEST = 6.0, 24.0  # TTL·(1−ρ)/(1+ρ) and TTL·(1+ρ)/(1−ρ): two clocks may err
Span = tuple[int, int]


class Grant(NamedTuple):
    """An acquire, at most one successful extension, and the call of a release that never returned."""

    acquire: Span
    extend: Span | None = None
    release: int | None = None


def instants(span: Span) -> list[float]:
    return [float(x) for x in np.arange(span[0], span[1] + 0.5, 0.5)]


def ways(grant: Grant) -> list[tuple[float, float]]:
    """From when to when the key may have been there: every instant of every call, on a grid of halves.

    A key lasts as short as it may, except that an extension must find it, so until then as long as it may. A
    release takes effect at once, which leaves most room for others.
    """
    found = []
    for begin in instants(grant.acquire):
        ends = [begin + SHORTEST]
        if grant.extend is not None:
            ends = [x + SHORTEST for x in instants(grant.extend) if x < begin + LONGEST]
        found += [
            (begin, end if grant.release is None else min(end, max(grant.release, begin))) for end in ends
        ]
    return found


def feasible(grants: list[Grant]) -> bool:
    """Whether nodes that keep keys for their TTL, by clocks that err, could have given these grants."""
    return any(
        all(a[1] <= b[0] for a, b in pairwise(sorted(chosen))) for chosen in product(*map(ways, grants))
    )


def reported(grants: list[Grant]) -> set[str]:
    builder = HistoryBuilder(rho=RHO)
    for i, grant in enumerate(grants):
        builder.acquire(f"c{i}", f"g{i}", *grant.acquire, ttl=TTL)
        if grant.extend is not None:
            builder.extend(f"c{i}", f"g{i}", *grant.extend, ttl=TTL)
        if grant.release is not None:
            builder.release(f"c{i}", f"g{i}", grant.release, None)
    return names(builder.verdict())


@st.composite
def some_grants(draw: st.DrawFn) -> list[Grant]:
    grants = []
    for _ in range(draw(st.integers(2, 3))):
        call = draw(st.integers(0, 14))
        at = back = call + draw(st.integers(1, 4))
        extend = None
        if draw(st.booleans()):
            begin = back + draw(st.integers(0, 8))
            extend = (begin, begin + draw(st.integers(1, 3)))
            at = extend[1]
        grants.append(Grant((call, back), extend, draw(st.none() | st.integers(at, at + 6))))
    return grants


@pytest.mark.full
@settings(max_examples=examples(600), deadline=None)
@given(some_grants())
def test_no_execution_explains_what_is_called_a_violation(grants: list[Grant]) -> None:
    accused = reported(grants) & {"overlap", "continuity-loss"}
    assert not (accused and feasible(grants))


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 12), st.integers(1, 4), st.integers(1, 4))
def test_for_two_grants_the_windows_are_exact(second: int, first_takes: int, second_takes: int) -> None:
    """With two unreleased grants the test is complete as well: no overlap means feasible."""
    grants = [Grant((0, first_takes)), Grant((second, second + second_takes))]
    assert ("overlap" in reported(grants)) == (not feasible(grants))


@pytest.mark.full
def test_the_oracle_meets_both_answers() -> None:
    seen: set[str | bool] = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(some_grants())
    def explore(grants: list[Grant]) -> None:
        seen.update(reported(grants) & {"overlap", "continuity-loss"})
        seen.add(feasible(grants))

    explore()
    assert seen == {"overlap", "continuity-loss", True, False}


def test_a_session_ends_by_itself_when_its_client_is_killed_and_a_lease_does_not() -> None:
    for ttl, end in ((None, 60), (1000, 1000)):
        builder = (
            HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10, ttl=ttl).fault("client_crash", 60, ["alice"])
        )
        assert guaranteed(builder) == [(0, 10, end)]
        assert believed(builder) == [(0, 10, 60)]
        later = builder.acquire("alice", "h", 70, 80, ttl=ttl, key="l")
        later.release("alice", "h", 90, 95, key="l")
        assert guaranteed(later) == [(0, 10, end), (1, 80, 90)]
    mixed = (
        HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10, ttl=None).acquire("alice", "h", 20, 30, key="l")
    )
    mixed.acquire("bob", "i", 40, 50, ttl=None, key="m")
    mixed.fault("client-crash", 60, ["alice"]).fault("client_crash", 55, ["alice"]).fault(
        "crash", 51, ["bob"]
    )
    assert guaranteed(mixed) == [(0, 10, 55), (1, 30, 1020), (2, 50, 51)]


def test_an_answer_counts_only_if_it_was_given_and_is_about_a_grant() -> None:
    def answered(type: str, grant: str, value: str = "no") -> HistoryBuilder:
        builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10, claimed=500)
        return builder.op("alice", "held", 100, 110, type, grant_id=grant, value=value)

    assert believed(answered("ok", "g")) == [(0, 10, 110)]
    for type, grant in (("fail", "g"), ("info", "g"), ("ok", "other")):
        assert believed(answered(type, grant)) == [(0, 10, 510)]
    assert believed(answered("ok", "g", "perhaps")) == [(0, 10, 510)]
    assert believed(
        HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).op("bob", "held", 20, 30, value="no")
    ) == [(0, 10, 1010)]


def test_what_a_client_believes_that_lost_an_extension() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10, claimed=500)
    builder.extend("alice", "g", 100, 110, "info", value="no")
    assert believed(builder) == [(0, 10, 110)]


def test_an_extension_that_failed_prolongs_nothing_and_another_does() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10)
    assert possibly(builder.extend("alice", "g", 20, 30, "fail", ttl=5000)) == [(0, 0, 1010)]
    assert possibly(builder.extend("alice", "g", 40, 50, ttl=2000)) == [(0, 0, 2050)]
    assert possibly(builder.extend("alice", "g", 60, 70, "info")) == [(0, 0, float("inf"))]


def test_extensions_of_unknown_outcome_among_certain_ones() -> None:
    """The second may have set the end back to 500; what follows is of the others alone."""
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).extend("alice", "g", 100, 110)
    builder.acquire("bob", "h", 0, 10, key="l").extend("bob", "h", 100, 110, key="l")
    builder.extend("alice", "g", 200, 210, "info", ttl=300)
    assert guaranteed(builder) == [(0, 10, 500), (1, 10, 1100)]


def test_windows_of_a_long_history_are_counted_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checker.history.evidence.KEPT_MAX", 1)
    evidence = Evidence(
        HistoryBuilder().acquire("alice", "g", 0, 10).acquire("bob", "h", 0, 10, key="l").history()
    )
    assert (len(evidence.guaranteed), len(evidence.believed)) == (2, 2)
    assert {"guaranteed", "believed"} <= set(vars(evidence))
    mutual_exclusion.check(evidence)
    assert not {"guaranteed", "believed"} & set(vars(evidence))


def test_who_stood_still_and_when() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10).fault("pause", 20, ["alice", "bob"], until=30)
    builder.fault("stop", 5, ["alice"]).fault("cut", 6, ["alice"]).stall("alice", 1, 2).stall("bob", 3, 4)
    healing = Event(
        time_ns=40 * MS, process="nemesis", type="invoke", f="pause", targets=["alice"], heals="x"
    )
    builder._events.append(healing)
    evidence = Evidence(builder.stall("lab", 7, 2).history())
    spans = {name: [(i.start_ns, i.end_ns) for i in found] for name, found in evidence.pauses().items()}
    assert spans == {"alice": [(5 * MS, NEVER), (20 * MS, 30 * MS)], "bob": [(20 * MS, 30 * MS)]}
    still = [(i.start_ns // MS, i.end_ns // MS) for i in evidence.standstills(("bob", "lab"))]
    assert still == [(3, 7), (7, 9), (20, 30)]
