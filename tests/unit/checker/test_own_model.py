"""Which model a history is taken for, what nobody asked for, and other answers that are no pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker import check
from checker.errors import HistoryError
from checker.formats import save
from checker.history.events import Params
from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import NEVER
from checker.live.judge import Judge
from checker.properties.availability import Availability
from checker.properties.deadlock_freedom import check_deadlock_freedom, check_fault_tolerance
from checker.verdict import Outcome
from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.checker.test_what_was_shown import overlapping


def test_an_empty_history_proves_nothing() -> None:
    verdict = check(History.from_events([], Params()))
    assert {p.outcome for p in verdict.properties.values()} == {Outcome.UNKNOWN}
    assert verdict.unknown_reasons == ("nothing was ever granted, so nothing was proved",)


@pytest.mark.parametrize(
    ("builder", "model"),
    [
        (HistoryBuilder().op("alice", "read", 0, 1).op("bob", "write", 2, 3), "cas-register"),
        (HistoryBuilder().op("alice", "read", 0, 1, version_read=3), "lease"),
        (HistoryBuilder().op("alice", "acquire", 0, 1).op("bob", "read", 2, 3), "mutex"),
        (HistoryBuilder().op("alice", "acquire", 0, 1, asked={"ttl_ns": 5}).op("bob", "read", 2, 3), "lease"),
        (HistoryBuilder().acquire("alice", "g", 0, 1, ttl=None), "lease"),
        (HistoryBuilder().op("alice", "release", 0, 1), "lease"),
    ],
)
def test_the_model_that_claims_least(builder: HistoryBuilder, model: str) -> None:
    assert Evidence(builder.history()).model == model


def test_liveness_of_a_lock_that_nobody_asked_for_is_unknown_by_itself() -> None:
    evidence = Evidence(HistoryBuilder().op("alice", "release", 0, 1).history())
    for one in (check_deadlock_freedom(evidence), check_fault_tolerance(evidence)):
        assert (one.outcome, one.findings) == (Outcome.UNKNOWN, ())


@pytest.mark.parametrize("who", ["alice", "lab"])
def test_a_standstill_of_the_client_or_of_the_lab_excuses_a_late_return(who: str) -> None:
    builder = HistoryBuilder(wait_slack_ns=10 * MS).op(
        "alice", "acquire", 0, 200, "fail", asked={"wait_ns": 10 * MS}
    )
    assert builder.verdict()["timeliness"].outcome is Outcome.VIOLATED
    assert builder.stall(who, 10, 180).verdict().named("late-return") == ()


def test_a_lease_may_be_endless_and_other_durations_may_not() -> None:
    endless = HistoryBuilder().op("alice", "acquire", 0, 1, asked={"ttl_ns": NEVER}, grant_id="g")
    assert endless.verdict()["mutual_exclusion"].outcome is Outcome.OK
    with pytest.raises(HistoryError, match="expected a number"):
        HistoryBuilder().op("alice", "acquire", 0, 1, claimed_ns=NEVER, grant_id="g").history()


@pytest.mark.parametrize("value", [True, 0, -1, "two", 1.5])
def test_a_semaphore_gives_whole_numbers_of_permits(value: object) -> None:
    builder = HistoryBuilder(model="semaphore", permits=2).op(
        "alice", "acquire", 0, 1, asked={"value": value}
    )
    with pytest.raises(HistoryError):
        builder.verdict()


@pytest.mark.parametrize("f", ["crash", "shutdown", "power_cut", "restart"])
def test_a_node_that_goes_down_is_a_cause(f: str) -> None:
    builder = overlapping().fault(f, 80, ["A"]).look("A", 91, None)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.nodes) == ("node", ("A",))


def test_writes_under_way_at_the_end_are_left_to_the_offline_check() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 1).write("alice", "g", 2, None, 0, None)
    builder.acquire("bob", "h", 3, None).op("carol", "read", 4, None)
    judge = Judge(builder.params)
    for event in builder.events():
        judge.feed(event)
    judge.end()
    assert judge.doubts.left_out() == ["1 acquires are of unknown outcome", "1 writes are of unknown outcome"]


def test_a_log_can_be_read_and_not_written(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="can be read, not written"):
        save(HistoryBuilder().history(), tmp_path / "h.log")


@pytest.mark.parametrize(("extended", "accused"), [("ok", False), ("info", False), ("fail", True)])
def test_who_extended_a_lease_may_hold_it_for_so_long(extended: str, accused: bool) -> None:
    builder = HistoryBuilder(nodes=5, unavailable_ns=100 * MS, grace_ns=100 * MS, rho=0.0)
    builder.acquire("alice", "g", 0, 1, ttl=50).extend("alice", "g", 40, 41, extended, ttl=2_000)
    for number in range(10):
        builder.acquire("bob", f"b{number}", 200 + 80 * number, 270 + 80 * number, "fail", ttl=50)
    found = {finding.name for finding in builder.verdict().findings}
    assert bool(found & {"unavailable", "leak"}) is accused


def test_a_client_that_is_killed_at_its_call_was_killed_after_it() -> None:
    builder = HistoryBuilder().op("alice", "acquire", 10, None).fault("client-crash", 10, ["alice"])
    availability = Availability(Evidence(builder.history()))
    assert [availability.death_after("alice", at * MS) for at in (9, 10)] == [10 * MS] * 2
    assert availability.death_after("alice", 11 * MS) == availability.death_after("bob", 0) == NEVER
