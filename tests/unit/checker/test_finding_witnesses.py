"""Findings and their witnesses: the second key of two, and stamps that are just uncertain enough."""

from __future__ import annotations

from typing import Any

import pytest

from checker.history.evidence import LISTED_MAX, Evidence
from checker.verdict import Finding
from tests.unit.checker.builder import MS, HistoryBuilder, names
from tests.unit.checker.test_windows import guaranteed

EXACT: dict[str, Any] = {"rho": 0.0, "clients": ["alice", "bob", "carol"]}
UNSURE: dict[str, Any] = {**EXACT, "epsilon_ns": 5 * MS}
NS = 1e-6


def only(builder: HistoryBuilder, name: str) -> Finding:
    (finding,) = builder.verdict().named(name)
    return finding


# -- mutual exclusion ----------------------------------------------------------------------------------------


def test_an_overlap_on_the_second_key_is_that_of_its_own_grants() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10, key="k")
    builder.acquire("alice/2", "g2", 0, 10, key="l").release("alice/2", "g2", 20, 30, key="l")
    builder.acquire("bob", "g3", 40, 50, key="l").acquire("carol", "g4", 100, 110, key="l")
    finding = only(builder, "overlap")
    assert (finding.key, finding.clients) == ("l", ("bob", "carol"))


def test_a_nanosecond_is_an_overlap_also_with_a_lock_without_expiry() -> None:
    builder = (
        HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10).acquire("bob", "g2", 990, 1_000 - NS, ttl=None)
    )
    assert only(builder, "overlap").details["overlap_ns"] == 1


def believers(builder: HistoryBuilder, key: str = "k", from_ms: int = 0) -> HistoryBuilder:
    """Alice believes for 500 ms longer than her lease lasts; bob gets the lock the moment that it ends."""
    builder.acquire(f"alice/{key}", f"a-{key}", from_ms, from_ms + 10, claimed=1_490, key=key)
    return builder.acquire(f"bob/{key}", f"b-{key}", from_ms + 990, from_ms + 1_000, key=key)


def test_guarantees_that_touch_do_not_hide_that_both_believed() -> None:
    builder = believers(HistoryBuilder(**EXACT), from_ms=7_000)
    assert builder.verdict()["mutual_exclusion"].why.endswith(
        "two clients believed that they held it at once"
    )
    finding = only(builder, "belief-overlap")
    assert "both believed to hold 'k' for 500 ms" in finding.why
    reported = {name: finding.details[name] for name in ("overlap_ns", "start_offset_ns", "end_offset_ns")}
    assert reported == {
        "overlap_ns": 500 * MS,
        "start_offset_ns": 1_000 * MS,
        "end_offset_ns": 1_500 * MS,
    }


def test_belief_overlaps_are_counted_without_those_that_are_overlaps() -> None:
    builder = (
        HistoryBuilder(**EXACT)
        .acquire("alice", "g", 0, 10, key="held")
        .acquire("bob", "h", 20, 30, key="held")
    )
    for number in range(LISTED_MAX + 2):
        believers(builder, key=f"k{number}")
    found = builder.verdict().named("belief-overlap")
    assert [f.details["count"] for f in found] == [LISTED_MAX + 2] * LISTED_MAX


@pytest.mark.parametrize(
    ("called", "extended", "lost"),
    [(20, 100, False), (20 + NS, 100, True), (21, 40, False), (21, 40 + NS, True)],
)
def test_continuity_is_lost_only_for_certain(called: float, extended: float, lost: bool) -> None:
    builder = (
        HistoryBuilder(**UNSURE).acquire("alice", "g1", 0, 10, ttl=5).acquire("bob", "g2", called, 30, ttl=5)
    )
    builder.acquire("carol", "g3", extended - 5, extended + 1, ttl=5)
    builder.extend("alice", "g1", extended, extended + 10, ttl=5)
    assert [f.clients for f in builder.verdict().named("continuity-loss")] == [("alice", "bob")] * lost


def test_a_fault_between_the_witnesses_may_have_broken_the_assumption() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10, ttl=5).acquire("bob", "g2", 20, 30, ttl=5)
    builder.fault("jump", 40, ["C"], breaks="bounded clock error").extend("alice", "g1", 50, 60, ttl=5)
    assert "'bounded clock error'" in str(only(builder, "continuity-loss").broken_assumption)


def test_what_is_only_possible_blames_no_assumption() -> None:
    builder = HistoryBuilder(**EXACT).fault("jump", 0, ["C"], breaks="bounded clock error")
    builder.acquire("alice", "g1", 1, 10).release("alice", "g1", 20, 30).acquire("bob", "g2", 25, 40)
    assert only(builder, "possible-overlap").broken_assumption is None


# -- fencing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("called", "backwards"), [(20, False), (20 + NS, True)])
def test_fences_go_backwards_only_for_certain(called: float, backwards: bool) -> None:
    builder = (
        HistoryBuilder(**UNSURE).acquire("alice", "g1", 0, 10, fence=5).acquire("carol", "g2", 5, 15, fence=7)
    )
    builder.acquire("bob", "g3", called, 40, fence=4)
    assert [f.clients for f in builder.verdict().named("fence-order")] == [("alice", "bob")] * backwards


def test_one_fence_given_twice_at_once_is_told_by_its_own_key() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10, fence=1, key="k")
    builder.acquire("bob", "g2", 0, 10, fence=3, key="l").acquire("carol", "g3", 5, 15, fence=3, key="l")
    finding = only(builder, "fence-order")
    assert (finding.key, finding.clients) == ("l", ("bob", "carol"))
    builder.acquire("bob/2", "g4", 5, 15, fence=1, key="m")
    assert only(builder, "fence-order").key == "l"


@pytest.mark.parametrize("apart", [0, 100])
def test_a_fence_given_many_times_is_counted_once_each(apart: int) -> None:
    def builder(grants: int) -> HistoryBuilder:
        reported = HistoryBuilder(**EXACT)
        for i in range(grants):
            reported.acquire(f"c{i}", f"g{i}", i * apart, i * apart + 10, ttl=1, fence=3)
        return reported

    assert len(builder(3).verdict().named("fence-order")) == 2
    assert builder(LISTED_MAX + 2).verdict().named("fence-order")[0].details["count"] == LISTED_MAX + 1


@pytest.mark.parametrize(("called", "stale"), [(1_015, False), (1_015 + NS, True)])
def test_a_use_is_stale_only_for_certain(called: float, stale: bool) -> None:
    builder = HistoryBuilder(**UNSURE).acquire("alice", "g1", 0, 10).read("alice", "g1", called, 1_020, 0)
    assert ("stale-use" in names(builder.verdict())) == stale


def test_a_stale_use_says_what_it_was_and_how_late() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10).read("alice", "g1", 1_500, 1_510, 0)
    finding = only(builder, "stale-use")
    assert finding.headline == "alice read 'k' 490 ms after its lease was over"
    assert finding.evidence == ("alice: lease over at 1.01 s at the latest, called at 1.50 s",)
    assert finding.details["late_ns"] == 490 * MS
    written = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10).write("alice", "g1", 1_500, 1_510, 0, 1)
    assert only(written, "stale-use").why.startswith("alice wrote to 'k'")


def test_a_stale_read_is_told_beside_a_stale_write() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10).acquire("bob", "g2", 1_100, 1_110)
    builder.write("bob", "g2", 1_120, 1_130, 0, 1).write("alice", "g1", 1_200, 1_210, 1, 2)
    builder.read("alice", "g1", 1_300, 1_310, 2)
    assert only(builder, "stale-write").clients == ("alice", "bob")
    assert "read 'k'" in only(builder, "stale-use").why


@pytest.mark.parametrize(("called", "late"), [(220, False), (220 + NS, True)])
def test_a_write_came_after_another_only_for_certain(called: float, late: bool) -> None:
    builder = HistoryBuilder(**UNSURE).acquire("alice", "g1", 0, 10)
    builder.acquire("bob", "g2", 100, 110).write("bob", "g2", 200, 210, None, None)
    builder.acquire("carol", "g3", 150, 160).write("carol", "g3", 205, 215, None, None)
    builder.write("alice", "g1", called, 240, None, None)
    verdict = builder.verdict()
    assert [f.clients for f in verdict.named("unfenced-write")] == [("alice", "bob")] * late
    assert verdict["fencing"].outcome == ("violated" if late else "absent")


def test_the_witness_of_a_late_write_is_the_latest_grant_by_time_or_version() -> None:
    builder = HistoryBuilder(**EXACT).acquire("alice", "g1", 0, 10)
    builder.acquire("bob", "g2", 100, 110).acquire("carol", "g3", 150, 160)
    builder.write("carol", "g3", 190, 300, None, 2).write("bob", "g2", 200, 210, None, 1)
    builder.write("alice", "g1", 250, 260, None, 3)
    assert [f.clients for f in builder.verdict().named("unfenced-write")][-1] == ("alice", "carol")


@pytest.mark.parametrize(("called", "later"), [(20, False), (20 + NS, True)])
def test_a_grant_is_the_later_one_only_for_certain(called: float, later: bool) -> None:
    builder = HistoryBuilder(**UNSURE).acquire("alice", "g1", 0, 10).acquire("bob", "g2", called, 40)
    builder.write("bob", "g2", 50, 60, None, None).write("alice", "g1", 100, 110, None, None)
    assert bool(builder.verdict().named("unfenced-write")) == later


def test_a_store_may_accept_one_fence_many_times() -> None:
    builder = HistoryBuilder(store_fences=True).acquire("alice", "g1", 0, 10, fence=1)
    builder.write("alice", "g1", 20, 30, 0, 1, fence=1).write("alice", "g1", 40, 50, 1, 2, fence=1)
    assert builder.verdict()["fencing"].outcome == "ok"


def test_nested_grants_leave_fencing_unknown() -> None:
    builder = HistoryBuilder(model="reentrant-mutex").acquire("alice", "g1", 0, 10)
    verdict = builder.write("alice", "g1", 20, 30, None, 1).verdict()["fencing"]
    assert verdict.why.startswith("nested grants of one client are not told apart")


# -- the resource --------------------------------------------------------------------------------------------


def test_a_lost_update_on_the_second_key() -> None:
    builder = (
        HistoryBuilder()
        .write("alice", None, 0, 10, 0, 1, key="k")
        .write("alice", None, 20, 30, 0, 1, key="l")
    )
    assert names(builder.verdict()) == set()
    finding = only(builder.write("bob", None, 20, 30, 0, 2, key="l"), "lost-update")
    assert (finding.key, finding.clients) == ("l", ("alice", "bob"))


def test_who_overwrote_whom_is_told_by_versions() -> None:
    builder = HistoryBuilder().write("alice", None, 0, 50, 0, 2).write("bob", None, 10, 20, 0, 1)
    finding = only(builder, "lost-update")
    assert finding.details["versions_written"] == [1, 2]
    assert finding.headline == "alice overwrote bob's update of 'k' without having seen it"
    assert (
        "wrote version 1 at 20 ms · alice: read version 0, wrote version 2 at 0.05 s" in finding.evidence[0]
    )


def test_a_lost_update_without_versions_is_told_without_them() -> None:
    builder = HistoryBuilder().write("alice", None, 0, 10, 0, None).write("bob", None, 5, 20, 0, None)
    finding = only(builder, "lost-update")
    assert finding.details["versions_written"] == [None, None]
    assert "versions" not in finding.why


def test_a_lost_update_is_not_told_again_as_a_cycle() -> None:
    builder = HistoryBuilder().write("alice", None, 0, 10, 0, 1).write("bob", None, 5, 20, 0, 2)
    assert names(builder.write("carol", None, 30, 40, 2, 3).verdict()) == {"lost-update"}


def test_a_version_given_twice_is_one_of_one_key() -> None:
    apart = HistoryBuilder().acquire("alice", "g", 0, 10).write("alice", "g", 20, 30, None, 2, key="k")
    apart.write("alice", "g", 40, 50, None, 1, key="l").write("alice", "g", 60, 70, None, 2, key="l")
    assert apart.verdict()["resource"].outcome == "ok"
    twice = apart.write("bob", None, 60, 70, None, 2, key="l").verdict()["resource"]
    assert twice.outcome == "unknown"
    assert twice.why.startswith("the store gave version 2 of 'l' to two writes")


def test_what_is_unknown_about_the_resource_is_told() -> None:
    def reported(builder: HistoryBuilder) -> tuple[str, str]:
        verdict = builder.verdict()["resource"]
        return verdict.outcome, verdict.why

    held = HistoryBuilder().acquire("alice", "g", 0, 10)
    assert reported(held)[1].startswith("no write was accepted")
    outcome, why = reported(held.write("alice", "g", 20, 30, None, None))
    assert (outcome, why) == (
        "unknown",
        "the store returned no versions, so the order of writes is not known",
    )
    held.write("alice", "g", 40, 50, None, 1).write("bob", None, 40, 50, None, 1)
    assert reported(held)[1].startswith("the store gave version 1 of 'k' to two writes")


# -- writes of unknown outcome -------------------------------------------------------------------------------


def unsure() -> HistoryBuilder:
    builder = HistoryBuilder().write("bob", None, 0, 1, None, 1, value="z", key="l")
    builder.write("alice", None, 0, 10, 0, None, "info", value="a", key="k")
    return builder.write("bob", None, 5, 15, 0, None, "info", value="b", key="l")


def versions(builder: HistoryBuilder) -> list[tuple[int, int]]:
    evidence = Evidence(builder.history())
    return list(zip(evidence.writes.key.tolist(), evidence.writes.version_written.tolist(), strict=True))


def test_a_write_of_unknown_outcome_is_known_by_its_own_value_and_key() -> None:
    builder = unsure().op("carol", "read", 20, 30, version_read=3, value="b", key="l")
    assert versions(builder) == [(0, 1), (0, 3)]
    builder.op("carol", "read", 40, 50, version_read=4, value="a", key="l")
    assert versions(builder) == [(0, 1), (0, 3)]
    builder.op("carol", "read", 60, 70, version_read=5, value="a", key="k")
    assert versions(builder) == [(0, 1), (1, 5), (0, 3)]


def test_the_lab_saw_what_nobody_was_told() -> None:
    builder = unsure().lab("read", 50, key="k", value="a", version_read=2)
    builder.lab("read", 60, key="l", value=["b"], version_read=9)
    assert versions(builder) == [(0, 1), (1, 2)]


def test_an_acknowledged_version_is_kept_and_a_missing_one_learned() -> None:
    builder = HistoryBuilder().write("alice", None, 0, 10, 0, None, "info", value="a")
    builder.write("bob", None, 20, 30, 1, 2, "info", value="b")
    builder.op("carol", "read", 40, 50, version_read=1, value="a")
    builder.op("carol", "read", 60, 70, version_read=7, value="b")
    assert versions(builder) == [(0, 1), (0, 2)]


def test_a_token_that_was_told_promotes_the_acquire_that_it_names() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g1", 0, 10, "info", token="t1")
    builder.acquire("bob", "g2", 2_000, 2_010, token="t2").write("carol", None, 20, 30, 0, 1, token="t1")
    builder.write("carol", None, 40, 50, 1, 2, token="t9")
    assert guaranteed(builder) == [(0, 30, 1_000), (1, 2_010, 3_000)]
