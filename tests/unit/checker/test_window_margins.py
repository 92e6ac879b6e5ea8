"""Windows of grants at their edges: every margin on its side, and extensions that ask for other TTLs."""

from __future__ import annotations

import pytest

from checker.history.evidence import Evidence
from checker.history.operations import NEVER
from checker.history.windows import possible
from checker.properties import mutual_exclusion
from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.checker.test_windows import believed, guaranteed, possibly

EXACT = {"rho": 0.0}


def held(**params: object) -> HistoryBuilder:
    """Alice holds from 0 to 10 ms on, for a second, with a clock that does not drift."""
    return HistoryBuilder(**EXACT, **params).acquire("alice", "g", 0, 10)


def test_the_margin_of_the_lock_is_taken_off_an_extension_too() -> None:
    assert guaranteed(held(delta_ns=2 * MS).extend("alice", "g", 500, 510)) == [(0, 10, 1498)]


def test_a_lock_without_expiry_has_no_deadline_to_take_a_margin_off() -> None:
    builder = HistoryBuilder(**EXACT, delta_ns=2 * MS).acquire("alice", "g", 0, 10, ttl=None)
    assert guaranteed(builder) == [(0, 10, float("inf"))]
    assert guaranteed(builder.extend("alice/w", "g", 0, 20, ttl=None)) == [(0, 10, float("inf"))]


def test_uncertain_stamps_narrow_belief_and_widen_what_is_possible() -> None:
    builder = held(epsilon_ns=3 * MS)
    assert believed(builder) == [(0, 13, 1007)]
    assert possibly(builder) == [(0, -3, 1013)]
    endless = Evidence(HistoryBuilder(epsilon_ns=3 * MS).acquire("alice", "g", 0, 10, ttl=None).history())
    assert possible(endless.grants, endless.params).end_ns.tolist() == [NEVER]


def test_belief_follows_what_an_extension_was_told() -> None:
    reported = (
        HistoryBuilder().acquire("alice", "g", 0, 10, claimed=500).extend("alice", "g", 100, 110, claimed=300)
    )
    assert believed(reported) == [(0, 10, 410)]
    asked = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=500).extend("alice", "g", 100, 110, ttl=700)
    assert believed(asked) == [(0, 10, 810)]


def test_a_lock_promises_no_more_than_it_claims() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10, claimed=500)
    assert guaranteed(builder) == [(0, 10, 510)]
    # One that did not prolong the lease, and says until when that lasts.
    assert guaranteed(builder.extend("alice", "g", 100, 110, claimed=400)) == [(0, 10, 510)]
    builder.acquire("bob", "h", 600, 610)
    assert mutual_exclusion.overlaps(Evidence(builder.history())) == []
    unclaimed = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10).acquire("bob", "h", 600, 610)
    (found,) = mutual_exclusion.overlaps(Evidence(unclaimed.history()))
    assert "alice: guaranteed until 1.00 s (its TTL ends then at the earliest)" in found.evidence[0]


def test_what_ended_the_promise_of_a_lease_is_said() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10, claimed=500)
    builder.acquire("bob", "h", 400, 410)
    (found,) = mutual_exclusion.overlaps(Evidence(builder.history()))
    assert found.evidence[0].startswith(
        "alice: guaranteed until 0.51 s (its claim ends then at the earliest)"
    )


def test_a_claim_beyond_the_lease_promises_nothing_more() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10, claimed=5000)
    assert guaranteed(builder) == [(0, 10, 1000)]
    assert guaranteed(builder.extend("alice", "g", 100, 110, claimed=0)) == [(0, 10, 110)]


def test_an_extension_lengthens_its_own_grant_only() -> None:
    builder = held().release("alice", "g", 20, 30).acquire("bob", "h", 40, 50)
    assert possibly(builder.extend("bob", "h", 500, 510)) == [(0, 0, 30), (1, 40, 1510)]
    lost = held().acquire("bob", "h", 40, 50).extend("bob", "h", 500, 510)
    assert possibly(lost) == [(0, 0, 1010), (1, 40, 1510)]


def test_a_shorter_extension_may_still_reach_a_node_after_a_longer_one() -> None:
    builder = held().extend("alice", "g", 100, 150, ttl=200).extend("alice", "g", 150, 160)
    assert guaranteed(builder) == [(0, 10, 350)]
    assert guaranteed(builder.extend("alice", "g", 200, 210, ttl=300)) == [(0, 10, 400)]


def test_a_shorter_extension_takes_nothing_from_the_longer_one_before_it() -> None:
    builder = held().extend("alice", "g", 100, 150, ttl=2_000)
    assert guaranteed(builder) == [(0, 10, 2_100)]
    late = builder.extend("alice", "g", 2_090, 2_099, ttl=200)
    assert guaranteed(late) == [(0, 10, 2_290)]


def test_extensions_of_another_grant_take_nothing() -> None:
    builder = held().extend("alice", "g", 100, 150, ttl=200).release("alice", "g", 160, 170)
    builder.acquire("bob", "h", 200, 210).extend("bob", "h", 300, 310, ttl=2_000)
    assert guaranteed(builder) == [(0, 10, 160), (1, 210, 2_300)]


def test_a_shorter_extension_of_unknown_outcome_may_have_been_the_last() -> None:
    """It may have set the key's end to 50 after its call; before that call it changes nothing."""
    assert guaranteed(held().extend("alice", "g", 100, 110, "info", ttl=50)) == [(0, 10, 150)]


def test_a_shorter_extension_that_failed_does_not_count() -> None:
    builder = held().extend("alice", "g", 100, 300, ttl=500).extend("alice/w", "g", 200, 250)
    assert guaranteed(builder) == [(0, 10, 700)]
    assert guaranteed(builder.extend("alice", "g", 310, 320, "fail", ttl=5)) == [(0, 10, 700)]


def test_extensions_whose_order_is_open_may_all_be_shorter_than_the_lease() -> None:
    builder = held().extend("alice", "g", 20, 40, ttl=50).extend("alice/w", "g", 30, 35, ttl=50)
    assert guaranteed(builder) == [(0, 10, 80)]


@pytest.mark.parametrize("first", ["alice", "bob"])
def test_only_the_grant_whose_extensions_overlap_is_cut_short(first: str) -> None:
    second = "bob" if first == "alice" else "alice"
    builder = HistoryBuilder(**EXACT).acquire(first, "g", 0, 10).extend(first, "g", 20, 30, ttl=900)
    builder.acquire(second, "h", 2_000, 2_010, ttl=900)
    builder.extend(second, "h", 2_100, 2_300, ttl=500).extend(f"{second}/w", "h", 2_200, 2_250, ttl=900)
    assert guaranteed(builder) == [(0, 10, 920), (1, 2_010, 2_700)]
