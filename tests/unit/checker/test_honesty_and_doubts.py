"""Lease honesty, standstills and reasons to doubt, at the edge of each condition."""

from __future__ import annotations

from typing import Any

import pytest

from checker.history.evidence import Evidence
from tests.unit.checker.builder import MS, HistoryBuilder

NS = 1e-6
RETRIES: dict[str, Any] = {"rho": 0.0, "stall_ns": 0}
EXACT: dict[str, Any] = {**RETRIES, "single_attempt": True}


def honesty(builder: HistoryBuilder) -> str:
    return builder.verdict()["lease_honesty"].outcome


def liars(builder: HistoryBuilder) -> list[tuple[str, str]]:
    found = builder.verdict().named("false-validity")
    return [(f.clients[0], str(f.severity)) for f in found]


@pytest.mark.parametrize(("params", "claimed"), [(EXACT, 995), (RETRIES, 1_005)])
def test_a_claim_may_be_longer_by_as_much_as_stamps_are_uncertain(
    params: dict[str, Any], claimed: float
) -> None:
    def builder(claimed: float) -> HistoryBuilder:
        return HistoryBuilder(**params, epsilon_ns=5 * MS).acquire("alice", "g", 0, 10, claimed=claimed)

    assert honesty(builder(claimed)) == "ok"
    assert honesty(builder(claimed + NS)) == "violated"


def test_a_claim_may_be_stamped_late_by_a_pause_that_nobody_noticed() -> None:
    def builder(claimed: float) -> HistoryBuilder:
        return HistoryBuilder(**{**EXACT, "stall_ns": 50 * MS}).acquire("alice", "g", 0, 60, claimed=claimed)

    assert honesty(builder(990)) == "ok"
    assert honesty(builder(990 + NS)) == "violated"


def test_extensions_are_claims() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10, claimed=900)
    assert honesty(builder.extend("alice", "g", 500, 510, claimed=991)) == "violated"


def asked(at: int, claimed: int, who: str = "alice", grant: str = "g") -> dict[str, Any]:
    return {
        "who": who,
        "f": "held",
        "call": at,
        "back": at + 10,
        "grant_id": grant,
        "claimed_ns": claimed * MS,
    }


def test_no_time_left_is_no_claim() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10, claimed=900)
    assert honesty(builder.op(**asked(1_500, 0))) == "ok"


def test_held_counts_from_the_return_of_the_grant_as_nodes_do() -> None:
    """A node that was asked late keeps the key until 1,400 ms, and says so: that is no lie."""

    def builder(claimed: int, **params: Any) -> HistoryBuilder:
        slow = HistoryBuilder(**{**EXACT, **params}).acquire("alice", "g", 0, 400, claimed=500, attempt_ns=0)
        return slow.op(**asked(500, claimed))

    assert honesty(builder(901)) == "ok"  # a millisecond for the node's rounding
    assert liars(builder(902)) == [("alice", "violation")]
    assert honesty(builder(906, epsilon_ns=5 * MS)) == "ok"
    assert honesty(builder(907, epsilon_ns=5 * MS)) == "violated"


def test_held_is_judged_whether_or_not_the_lock_tries_again() -> None:
    again = HistoryBuilder(**RETRIES).acquire("alice", "g", 0, 400)
    assert honesty(again.op(**asked(500, 901))) == "ok"
    assert honesty(again.op(**asked(600, 802))) == "violated"


def test_no_standstill_explains_an_answer_that_was_made_after_its_question() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 400).op(**asked(500, 902))
    assert liars(builder.stall("alice", 500, 1_000)) == [("alice", "violation")]


def test_an_answer_that_is_stamped_late_is_none_the_worse_for_it() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 400)
    assert honesty(builder.op("alice", "held", 500, 1_300, grant_id="g", claimed_ns=900 * MS)) == "ok"


def test_held_counts_the_extensions_before_it() -> None:
    def builder(at: int, claimed: int, ttl: int = 1_000) -> HistoryBuilder:
        base = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10).extend("alice", "g", 400, 450, ttl=ttl)
        return base.op(**asked(at, claimed))

    assert honesty(builder(600, 851)) == "ok"
    assert honesty(builder(600, 852)) == "violated"
    assert honesty(builder(300, 711)) == "ok"
    assert honesty(builder(300, 712)) == "violated", "the extension came after that answer"
    assert honesty(builder(600, 951, ttl=1_100)) == "ok"
    assert honesty(builder(600, 952, ttl=1_100)) == "violated"


@pytest.mark.parametrize("outcome", ["info", None])
def test_an_extension_of_which_nobody_knows_may_have_happened_up_to_the_answer(outcome: str | None) -> None:
    def builder(claimed: int) -> HistoryBuilder:
        base = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 10)
        back = 450 if outcome else None
        return base.extend("alice/w", "g", 400, back, outcome or "ok").op(**asked(800, claimed))

    assert honesty(builder(1_011)) == "ok"
    assert honesty(builder(1_012)) == "violated"


def test_an_attempt_may_begin_as_late_as_its_return() -> None:
    def builder(attempt: float) -> HistoryBuilder:
        return HistoryBuilder(**EXACT).acquire("alice", "g", 0, 2_000, attempt_ns=round(attempt * MS))

    assert honesty(builder(2_000)) == "ok"
    assert honesty(builder(2_000 + NS)) == "violated"


def test_a_lock_without_expiry_is_never_claimed() -> None:
    verdict = HistoryBuilder().acquire("alice", "g", 0, 10, ttl=None).verdict()["lease_honesty"]
    assert verdict.why == "no grant had a TTL, so no lease was ever claimed"


def late() -> HistoryBuilder:
    """Alice and bob are both told of success after their leases were over."""
    return HistoryBuilder(**EXACT).acquire("alice", "g", 0, 1_100).acquire("bob", "h", 2_000, 3_100)


def test_a_standstill_excuses_its_client_while_it_lasts() -> None:
    guilty, spared = "violation", "information"
    assert liars(late()) == [("alice", guilty), ("bob", guilty)]
    assert liars(late().stall("alice", 500, 100)) == [("bob", guilty), ("alice", spared)]
    assert liars(late().stall("alice", 2_500, 100)) == [("alice", guilty), ("bob", guilty)]
    both = late().stall("alice", 500, 100).stall("bob", 2_500, 100)
    assert liars(both) == [("alice", spared), ("bob", spared)]


def test_a_standstill_excuses_only_what_it_can_explain() -> None:
    guilty, spared = ("alice", "violation"), ("alice", "information")
    builder = late()
    assert liars(builder.stall("alice", 500, 99))[0] == guilty
    assert spared in liars(late().stall("alice", 500, 40).stall("lab", 700, 60))
    claims = HistoryBuilder(**EXACT).acquire("alice", "g", 0, 60, claimed=990)
    assert liars(claims.stall("alice", 10, 49)) == [guilty]


@pytest.mark.parametrize(("stood", "severity"), [(495, "information"), (495 - NS, "violation")])
def test_a_standstill_that_is_not_recorded_counts_beside_one_that_is(stood: float, severity: str) -> None:
    builder = HistoryBuilder(**{**EXACT, "stall_ns": 5 * MS}).acquire("alice", "g", 0, 1_500)
    assert liars(builder.stall("alice", 500, stood)) == [("alice", severity)]


# -- the model, reasons to doubt, and remarks ------------------------------------------------------------


def test_an_anchor_that_came_is_no_reason_to_doubt() -> None:
    held = HistoryBuilder().acquire("alice", "g", 0, 10)
    assert held.lab("anchor", 20, value="alice's 3rd SET").verdict().unknown_reasons == ()
    missed = held.lab("anchor", 30, "fail", value="alice's 4th SET").verdict()
    assert missed.unknown_reasons == ("an anchor never came: alice's 4th SET (event 3)",)
    assert missed["fencing"].why.startswith(
        "an anchor never came: alice's 4th SET (event 3); otherwise: absent ("
    )


def test_a_fault_without_target_and_receipt_is_told_without_target() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10).fault("power_cut", 20, [], receipt=False)
    assert builder.verdict().unknown_reasons == ("no receipt for power_cut (event 2)",)


def test_standstills_that_nobody_asked_for_are_counted_and_the_longest_told() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10).fault("pause", 20, ["alice"], until=100)
    builder.stall("alice", 200, 300).stall("bob", 600, 100)
    (remark,) = builder.verdict().remarks
    assert "stood still 2 times" in remark
    assert "the longest for 300 ms (alice at 0.20 s)" in remark
    (remark,) = HistoryBuilder().acquire("alice", "g", 0, 10).stall("alice", 200, 300).verdict().remarks
    assert "stood still once" in remark


def plain(ttl: float | None, grant: str | None) -> HistoryBuilder:
    """Two acquires, one after the other, that nobody released."""
    builder = HistoryBuilder()
    for who, at in (("alice", 0), ("bob", 40)):
        asked = {} if ttl is None else {"ttl_ns": round(ttl * MS)}
        builder.op(who, "acquire", at, at + 10, asked=asked, grant_id=grant and f"{grant}{at}")
    return builder


@pytest.mark.parametrize(
    ("ttl", "grant", "model"),
    [(None, None, "mutex"), (20, None, "lease"), (None, "g", "lease"), (20, "g", "lease")],
)
def test_a_lock_is_taken_for_a_lease_if_its_grants_are_named_or_expire(
    ttl: float | None, grant: str | None, model: str
) -> None:
    assert Evidence(plain(ttl, grant).history()).model == model
    assert Evidence(HistoryBuilder().op("alice", "read", 0, 10, version_read=0).history()).model == "lease"


def test_the_model_asked_for_goes_before_the_likely_one() -> None:
    builder = HistoryBuilder().op("alice", "acquire", 0, 10).op("bob", "release", 20, 30)
    assert builder.verdict()["mutual_exclusion"].violations == ()
    assert builder.verdict("owner-mutex")["mutual_exclusion"].outcome == "violated"
