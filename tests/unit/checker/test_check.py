"""The whole: attribution, reasons to doubt, crashes of checks, the command line, array primitives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker import check
from checker.__main__ import main
from checker.errors import HistoryError
from checker.history.arrays import Composite, largest_before, running_max, which_before
from checker.history.evidence import LISTED_MAX, Evidence
from checker.history.operations import MISSING, NEVER
from checker.properties import fencing, resource
from checker.verdict import Outcome, worst
from tests.unit.checker.builder import HistoryBuilder, names, outcomes


def overlap() -> HistoryBuilder:
    return (
        HistoryBuilder(clients=["alice", "bob", "carol"])
        .acquire("alice", "g1", 0, 10)
        .acquire("bob", "g2", 690, 700)
    )


def broken(builder: HistoryBuilder, name: str = "overlap") -> str | None:
    return builder.verdict().named(name)[0].broken_assumption


def test_a_violation_names_the_latest_assumption_broken_before_it() -> None:
    builder = overlap().fault("jump", 100, ["C"], breaks="bounded clock error")
    builder.fault("crash", 200, ["D"], breaks="durable nodes").fault("jump", 800, ["E"], breaks="too late")
    assert broken(builder) == (
        "assumption 'durable nodes' was broken by the nemesis at 0.20 s (event 4), the latest of 2 faults "
        "that may have led to it (events 2, 4)"
    )


def test_a_fault_of_a_bystander_is_blamed_last() -> None:
    builder = overlap().fault("jump", 100, ["C"], breaks="bounded clock error")
    assert broken(builder.fault("pause", 200, ["carol"], breaks="bounded process pauses")) == (
        "assumption 'bounded clock error' was broken by the nemesis at 0.10 s (event 2)"
    )
    assert broken(overlap().fault("pause", 200, ["carol"], breaks="pauses")) is not None


def test_faults_that_break_nothing_or_did_not_happen_are_not_blamed() -> None:
    assert broken(overlap().fault("cut", 100, ["alice", "C"])) is None
    assert broken(overlap().fault("jump", 100, ["C"], breaks="x", receipt=False)) is None


def test_a_definite_violation_stands_whatever_else_is_unknown() -> None:
    verdict = overlap().fault("cut", 100, ["alice", "C"], receipt=False).verdict()
    assert verdict.unknown_reasons == ("no receipt for cut on alice,C (event 2)",)
    assert outcomes(verdict) == {
        "mutual_exclusion": "violated",
        "lease_honesty": "unknown",
        "fencing": "unknown",
        "resource": "unknown",
        "deadlock_freedom": "unknown",
        "fault_tolerance": "unknown",
    }


@pytest.mark.parametrize(
    ("builder", "reason"),
    [
        (
            HistoryBuilder().lab("anchor", 5, "fail", error="alice's 3rd SET"),
            "an anchor never came: alice's 3rd SET",
        ),
        (HistoryBuilder().lab("abort", 5, "info", error="disk full"), "the harness failed: disk full"),
        (HistoryBuilder().fault("pause", 1, ["alice"], receipt=False), "no receipt for pause on alice"),
    ],
)
def test_reasons_to_doubt(builder: HistoryBuilder, reason: str) -> None:
    verdict = builder.acquire("alice", "g1", 10, 20, claimed=900).verdict()
    assert verdict.unknown_reasons[0].startswith(reason)
    assert {p.outcome for p in verdict.properties.values()} == {"unknown"}


def test_a_heal_without_a_receipt_is_a_reason_to_doubt() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 5).fault("cut", 10, ["alice", "D"])
    builder._nemesis("invoke", "heal", 20, fault_id="h", heals="cut-10", target="alice,D")
    assert builder.verdict().unknown_reasons == ("no receipt for heal on alice,D (event 4)",)


def test_nothing_granted_proves_nothing() -> None:
    verdict = HistoryBuilder().acquire("alice", "g1", 0, 10, "fail").verdict()
    assert verdict.outcome == "unknown"
    assert "nothing was ever granted" in verdict.unknown_reasons[0]


def test_operations_under_an_unheard_grant_are_a_reason_to_doubt() -> None:
    verdict = HistoryBuilder().acquire("alice", "g1", 0, 10).release("bob", "g9", 20, 30).verdict()
    assert verdict.unknown_reasons == ("1 operations name a grant that no acquire of this history made",)


def test_a_check_that_crashes_is_unknown_and_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(evidence: Evidence) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(resource, "check", crash)
    verdict = overlap().verdict()
    assert verdict["resource"].outcome == "unknown"
    assert verdict["resource"].why == "the check crashed: ZeroDivisionError: by nothing"
    assert verdict["mutual_exclusion"].outcome == "violated"
    assert verdict["fencing"].outcome == "absent"


def test_the_json_form_is_json() -> None:
    verdict = overlap().fault("jump", 100, ["C"], breaks="bounded clock error").verdict()
    assert json.loads(json.dumps(verdict.to_dict())) == verdict.to_dict()


def test_the_worst_outcome_counts() -> None:
    ok, absent, unknown, violated = Outcome.OK, Outcome.ABSENT, Outcome.UNKNOWN, Outcome.VIOLATED
    assert worst([ok, absent]) == absent
    assert worst([ok, absent, unknown]) == unknown
    assert worst([violated, unknown]) == violated
    assert worst([]) == unknown


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(HistoryError, match="expected one of lease"):
        check(overlap().history(), model="leese")


def test_findings_are_listed_to_a_limit_and_counted() -> None:
    builder = HistoryBuilder()
    for i in range(LISTED_MAX + 5):
        builder.acquire(f"c{i}", f"g{i}", 0, 10)
    found = builder.verdict().named("overlap")
    assert len(found) == LISTED_MAX
    assert found[0].details["count"] == LISTED_MAX + 4


def test_windows_that_touch_do_not_overlap() -> None:
    def builder(last: int) -> HistoryBuilder:
        base = (
            HistoryBuilder(rho=0.0)
            .acquire("a", "g1", 0, 10)
            .acquire("b", "g2", 500, 510)
            .release("b", "g2", 600, 610)
        )
        return base.acquire("c", "g3", 990, last)

    assert builder(1000).verdict().named("overlap")[0].details.get("count", 1) == 1
    assert len(builder(1000).verdict().named("overlap")) == 1
    assert len(builder(999).verdict().named("overlap")) == 2
    touching = HistoryBuilder(rho=0.0).acquire("a", "g1", 0, 10).acquire("c", "g3", 990, 1000)
    assert "overlap" not in names(touching.verdict())


def test_two_grants_of_one_client_may_overlap_too() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("alice/2", "g2", 20, 30)
    assert "held 'k' twice" in builder.verdict().named("overlap")[0].why


def test_a_reentrant_lock_may_be_taken_again_by_its_holder() -> None:
    builder = (
        HistoryBuilder(model="reentrant-mutex")
        .acquire("alice", "g1", 0, 10, ttl=None)
        .acquire("alice", "g2", 20, 30, ttl=None)
    )
    assert builder.verdict()["mutual_exclusion"].outcome == "ok"
    builder.acquire("bob", "g3", 40, 50, ttl=None)
    assert builder.verdict()["mutual_exclusion"].outcome == "violated"


def test_a_register_is_judged_as_one() -> None:
    """It has no lock, so there is nothing else to judge; without a word in the header it is recognised."""

    def builder(read: int, **params: Any) -> HistoryBuilder:
        return (
            HistoryBuilder(**params)
            .op("a", "write", 0, 1, asked={"value": 1})
            .op("b", "read", 2, 3, value=read)
        )

    assert outcomes(builder(2, model="cas-register").verdict()) == {"resource": "violated"}
    assert outcomes(builder(2).verdict()) == {"resource": "violated"}
    assert builder(1).verdict().outcome == "ok"


EXACT: dict[str, Any] = {"rho": 0.0, "single_attempt": True, "stall_ns": 0}


def test_held_answers_are_claims() -> None:
    def builder(claimed_ms: int) -> HistoryBuilder:
        base = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10, claimed=900)
        return base.op("alice", "held", 500, 510, grant_id="g1", claimed_ns=claimed_ms * 1_000_000)

    assert "false-validity" not in names(builder(511).verdict())
    assert builder(512).verdict()["lease_honesty"].outcome == "violated"
    extended = builder(491).extend("alice/w", "g1", 400, 450)
    assert "false-validity" not in names(extended.verdict())


def test_success_after_the_lease_is_a_lie_without_any_claim() -> None:
    assert HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 1000).verdict()["lease_honesty"].outcome == "ok"
    assert (
        HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 1001).verdict()["lease_honesty"].outcome
        == "violated"
    )
    stalled = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 1001).stall("lab", 500, 100)
    assert stalled.verdict()["lease_honesty"].outcome == "ok"
    elsewhere = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 1001).stall("bob", 500, 100)
    assert elsewhere.verdict()["lease_honesty"].outcome == "violated"


def test_what_nobody_can_know_is_no_lie() -> None:
    """Neither a lock that may try again inside its call, nor a pause that nobody noticed, is a lie."""
    retried = HistoryBuilder(**{**EXACT, "single_attempt": False}).acquire("alice", "g1", 0, 5000)
    assert retried.verdict()["lease_honesty"].outcome == "ok"
    unnoticed = HistoryBuilder(**{**EXACT, "stall_ns": 50_000_000}).acquire("alice", "g1", 0, 1050)
    assert unnoticed.verdict()["lease_honesty"].outcome == "ok"
    noticed = HistoryBuilder(**{**EXACT, "stall_ns": 50_000_000}).acquire("alice", "g1", 0, 1051)
    assert noticed.verdict()["lease_honesty"].outcome == "violated"


def test_a_store_breaches_only_what_it_claimed() -> None:
    def builder(claims: bool) -> HistoryBuilder:
        both = (
            HistoryBuilder(store_fences=claims)
            .acquire("alice", "g1", 0, 30, fence=1)
            .release("alice", "g1", 31, 32)
        )
        both.acquire("bob", "g2", 5, 40, fence=2).write("bob", "g2", 50, 60, 0, 1, fence=2)
        return both.write("alice", "g1", 70, 80, 1, 2, fence=1)

    assert builder(True).verdict().named("fence-breach")
    assert builder(False).verdict()["fencing"].outcome == "unknown"  # either grant may have begun first


def test_fencing_is_unknown_if_promised_and_not_given() -> None:
    verdict = HistoryBuilder(lock_fences=True).acquire("alice", "g1", 0, 10, claimed=900).verdict()
    assert verdict["fencing"].outcome == "unknown"
    assert (
        "claims to hand out fences" in fencing.check(Evidence(HistoryBuilder(lock_fences=True).history())).why
    )


# -- the command line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "code"),
    [
        (overlap(), 1),
        (HistoryBuilder().acquire("alice", "g1", 0, 10, claimed=900), 3),
        (HistoryBuilder().acquire("alice", "g1", 0, 10, claimed=900).write("alice", "g1", 20, 30, 0, 1), 0),
    ],
)
def test_exit_codes(
    builder: HistoryBuilder, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(builder.text())
    assert main([str(path)]) == code
    assert capsys.readouterr().out.startswith(f"{path}: ")
    assert main([str(path), "--json"]) == code
    assert json.loads(capsys.readouterr().out) == builder.verdict().to_dict()


def test_bad_input_is_code_two_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text('{"history":1,"params":{"roh":1}}\n')
    assert main([str(path)]) == 2
    assert capsys.readouterr().err == (
        f"error: {path}:1: field 'roh': no such field\nhint: did you mean 'rho'?\n"
    )
    assert main([str(tmp_path / "none.jsonl")]) == 2


def test_a_small_history_imports_nothing_heavy(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 2_000, 2_010).text())
    heavy = ("numba", "scipy", "polars", "networkx", "matplotlib", "docker", "lab")
    code = (
        "import sys; from checker.__main__ import main; main([sys.argv[1]]); "
        f"sys.exit(', '.join(m for m in {heavy!r} if m in sys.modules) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- primitives ----------------------------------------------------------------------------------------------

SMALL = st.integers(-5, 5)
WILD = st.sampled_from((-(2**60), 0, 7, NEVER - 1, NEVER)) | SMALL


@given(st.lists(st.tuples(st.integers(0, 3), WILD), min_size=1))
def test_running_max_is_the_maximum_so_far_in_its_group(rows: list[tuple[int, int]]) -> None:
    rows = sorted(rows, key=lambda r: r[0])
    group, values = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    expected = [max(v for g, v in rows[: i + 1] if g == rows[i][0]) for i in range(len(rows))]
    assert running_max(values, group).tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 3), WILD, SMALL), max_size=12),
    st.lists(st.tuples(st.integers(0, 5), WILD), max_size=12),
)
def test_largest_before_is_strict_and_by_group(
    items: list[tuple[int, int, int]], queries: list[tuple[int, int]]
) -> None:
    group, stamp, value = (np.array([i[c] for i in items], np.int64) for c in range(3))
    key, time = (np.array([q[c] for q in queries], np.int64) for c in range(2))
    found = largest_before(group, stamp, value, key, time).tolist()
    expected = [max((v for g, s, v in items if g == k and s < t), default=MISSING) for k, t in queries]
    assert found == expected
    for (k, t), best in zip(queries, expected, strict=True):
        row = which_before(group, stamp, value, k, t)
        assert (row < 0) == (best == MISSING)
        assert row < 0 or value[row] == best


def test_stamps_that_do_not_fit_are_ranked() -> None:
    group = np.arange(1_000, dtype=np.int64)
    stamp = np.where(group % 2 == 0, 0, NEVER)
    assert Composite(group, stamp).distinct is not None
    assert largest_before(group, stamp, group, group, stamp + 1).tolist() == group.tolist()
    assert set(largest_before(group, stamp, group, group, stamp).tolist()) == {MISSING}


def test_a_stamp_that_was_not_among_the_items_has_a_code_of_its_own() -> None:
    for stamp in (np.array([0, NEVER]), np.array([0, 10])):
        code = Composite(np.array([0, 1]), stamp)
        first, between, last = code.encode(np.array([1, 1, 1]), np.array([0, 5, int(stamp[1])])).tolist()
        assert first < between < last


def test_a_stall_that_nobody_injected_is_remarked_and_blamed_on_nobody() -> None:
    quiet = HistoryBuilder().acquire("alice", "g1", 0, 10).release("alice", "g1", 20, 30)
    assert quiet.verdict().remarks == ()
    stalled = (
        HistoryBuilder()
        .acquire("alice", "g1", 0, 10)
        .stall("alice", 12, 300)
        .release("alice", "g1", 400, 410)
    )
    (remark,) = stalled.verdict().remarks
    assert "300 ms (alice at" in remark
    assert stalled.verdict().outcome == quiet.verdict().outcome
    paused = HistoryBuilder().acquire("alice", "g1", 0, 10).fault("pause", 11, ["alice"], until=350)
    paused = paused.stall("alice", 12, 300)
    assert paused.verdict().remarks == ()


def test_the_depth_of_a_reentrant_lock_and_the_words_of_a_refusal_come_from_the_header() -> None:
    def twice(**params: Any) -> HistoryBuilder:
        builder = HistoryBuilder(model="reentrant-mutex", **params).acquire("alice", "g1", 0, 10, ttl=None)
        return builder.acquire("alice", "g2", 20, 30, ttl=None)

    assert twice().verdict()["mutual_exclusion"].outcome == "ok"
    assert twice(depth=2).verdict()["mutual_exclusion"].outcome == "ok"
    assert twice(depth=1).verdict()["mutual_exclusion"].outcome == "violated"

    def refused(**params: Any) -> HistoryBuilder:
        builder = HistoryBuilder(model="owner-mutex", **params).acquire("alice", "g1", 0, 10, ttl=None)
        builder = builder.release("alice", "g1", 20, 30)
        return builder.op("bob", "acquire", 40, 50, type="fail", grant_id="g2", error="held")

    assert refused().verdict()["mutual_exclusion"].outcome == "ok"
    assert refused(refusals=["held"]).verdict()["mutual_exclusion"].outcome == "violated"


def test_a_fence_of_unknown_outcome_is_in_no_order() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10, fence=5)
    builder.acquire("bob", "b", 2_000, 2_010, "info", fence=3).acquire("carol", "c", 4_000, 4_010, fence=6)
    assert "fence-order" not in names(builder.verdict())
    assert "fence-order" in names(builder.acquire("dave", "d", 6_000, 6_010, fence=4).verdict())
