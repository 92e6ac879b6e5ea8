"""A grant is known by its grant_id, its holder by its client; a process is only a thread of control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from checker import check
from checker.errors import HistoryError
from checker.formats import load
from checker.history.events import Event, Params
from checker.history.history import History
from checker.verdict import Outcome, Property
from tests.unit.checker.builder import MS, HistoryBuilder, names

OWNED = ("owner-mutex", "reentrant-mutex", "fenced-mutex", "reentrant-fenced-mutex")


def exclusion(history: History) -> Outcome:
    return check(history).properties[Property.MUTUAL_EXCLUSION].outcome


def unnamed(builder: HistoryBuilder) -> History:
    """The same without grant ids, as other tools record."""
    return History.from_events([replace(e, grant_id=None) for e in builder.events()], builder.params)


def renamed_after_an_info(**params: Any) -> HistoryBuilder:
    """alice's write has an unknown outcome; as alice/1 she gives back what she took, and bob takes it."""
    builder = HistoryBuilder(rho=0.0, **params).acquire("alice", "g1", 0, 10, fence=1)
    builder.write("alice", "g1", 20, 30, 0, None, type="info").release("alice/1", "g1", 40, 50)
    return builder.acquire("bob", "g2", 60, 70, fence=2).release("bob", "g2", 80, 90)


@pytest.mark.parametrize("model", ["lease", *OWNED])
@pytest.mark.parametrize("reported", [HistoryBuilder.history, unnamed], ids=["with grant ids", "without"])
def test_a_release_under_the_clients_next_process_name_ends_its_grant(model: str, reported: Any) -> None:
    assert exclusion(reported(renamed_after_an_info(model=model))) is Outcome.OK


@pytest.mark.parametrize("model", OWNED)
def test_another_clients_release_is_still_no_release_of_ones_own(model: str) -> None:
    builder = HistoryBuilder(rho=0.0, model=model).acquire("alice", "g1", 0, 10)
    builder.op("bob", "release", 20, 30).release("alice", "g1", 40, 50)
    assert exclusion(unnamed(builder)) is Outcome.VIOLATED


@pytest.mark.parametrize("model", OWNED)
def test_a_release_of_a_grant_belongs_to_it_whoever_calls_it(model: str) -> None:
    builder = (
        HistoryBuilder(rho=0.0, model=model)
        .acquire("alice", "g1", 0, 10, fence=1)
        .release("bob", "g1", 20, 30)
    )
    assert exclusion(builder.acquire("carol", "g2", 40, 50, fence=2).history()) is Outcome.OK


@pytest.mark.parametrize("model", OWNED)
def test_an_acquire_of_unknown_outcome_explains_the_release_that_follows_it(model: str) -> None:
    builder = HistoryBuilder(rho=0.0, model=model).acquire("bob", "g0", 1, 2).release("bob", "g0", 3, 4)
    builder.acquire("alice", "g1", 0, 10, "info").release("alice/1", "g1", 20, 30)
    assert exclusion(builder.history()) is Outcome.OK
    assert exclusion(builder.release("alice/1", "g1", 40, 50).history()) is Outcome.VIOLATED


@pytest.mark.parametrize("model", OWNED)
def test_a_release_may_be_tried_again_after_an_unknown_outcome(model: str) -> None:
    builder = HistoryBuilder(rho=0.0, model=model).acquire("alice", "g1", 0, 10, fence=1)
    builder.release("alice", "g1", 20, 30, "info").release("alice/1", "g1", 40, 50)
    assert exclusion(builder.acquire("bob", "g2", 60, 70, fence=2).history()) is Outcome.OK


def test_two_grants_of_clients_with_many_process_names_still_overlap() -> None:
    builder = renamed_after_an_info().acquire("carol/7", "g3", 75, 78)
    assert "overlap" in names(builder.verdict())


def test_an_unnamed_release_may_end_any_grant_of_its_client() -> None:
    """It names no grant, and the last acquire of the client has an unknown outcome: it may end the first."""
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g1", 0, 10).acquire("alice", "g2", 20, 30, "info")
    builder.op("alice/1", "release", 40, 50).acquire("bob", "g3", 60, 70)
    assert exclusion(builder.history()) is Outcome.OK
    assert exclusion(unnamed(builder)) is Outcome.OK


def test_a_release_that_names_a_grant_nobody_acquired_may_end_any_grant_of_its_client() -> None:
    for model in ("lease", "owner-mutex"):
        builder = (
            HistoryBuilder(rho=0.0, model=model).acquire("alice", "g1", 0, 10).release("alice", "g?", 20, 30)
        )
        verdict = builder.acquire("bob", "g2", 40, 50).verdict()
        assert verdict.properties[Property.MUTUAL_EXCLUSION].outcome is not Outcome.VIOLATED
        assert any("no acquire of this history made" in why for why in verdict.unknown_reasons)


def test_an_extension_by_one_of_several_threads_prolongs_no_grant_of_another() -> None:
    """The third names no grant: it may have extended the first's, which was given back since."""
    builder = HistoryBuilder(rho=0.0).acquire("c/1", "g1", 0, 5).acquire("c/2", "g2", 20, 25)
    builder.op("c/1", "held", 30, 31, grant_id="g1").op("c/2", "held", 40, 41, grant_id="g2")
    builder.op("c/3", "extend", 900, 910, asked={"ttl_ns": 1_000 * MS}).acquire("bob", "h", 1_100, 1_110)
    assert [f for f in builder.verdict().findings if f.name == "overlap" and "bob" in f.clients] == []


# -- what leaves it open is refused --------------------------------------------------------------------------


def refused(builder: HistoryBuilder) -> HistoryError:
    with pytest.raises(HistoryError) as caught:
        builder.history()
    return caught.value


@pytest.mark.parametrize(("field", "named"), [("key", "key"), ("grant_id", "grant")])
def test_a_completion_is_of_what_its_invocation_names(field: str, named: str) -> None:
    def called(asked: str | None, reported: str | None) -> History:
        shared = {"time_ns": 0, "process": "alice", "f": "held", "key": "k"}
        events = [
            Event(**(shared | {"type": kind, field: name}))  # type: ignore[arg-type]
            for kind, name in (("invoke", asked), ("ok", reported))
        ]
        return History.from_events(events)

    for asked, reported in (("x", "x"), ("x", None), (None, "x"), (None, None)):
        assert len(called(asked, reported).ops) == 1
    with pytest.raises(
        HistoryError, match=rf"^field '{named}': the completion names another {named}: alice held \(event 0\)"
    ):
        called("x", "y")


@pytest.mark.parametrize("first", ["ok", "info"])
@pytest.mark.parametrize("second", ["ok", "info"])
def test_a_grant_id_used_twice_is_an_error(first: str, second: str) -> None:
    error = refused(HistoryBuilder().acquire("alice", "g", 0, 10, first).acquire("bob", "g", 20, 30, second))
    assert (error.field, error.problem) == (
        "grant_id",
        "saw 'g' again, the grant of the acquire in event 0: bob acquire (event 2)",
    )


def test_the_grant_id_of_an_acquire_that_failed_may_be_used_again() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g", 0, 10, "fail")
        .acquire("alice", "g", 20, 30)
        .release("alice", "g", 40, 50)
    )
    assert len(builder.history().ops) == 3


def test_a_release_takes_the_key_of_the_grant_that_it_names() -> None:
    builder = HistoryBuilder(rho=0.0, model="owner-mutex").acquire("alice", "g", 0, 10)
    builder.op("alice", "release", 20, 30, grant_id="g", key=None).acquire("bob", "h", 40, 50)
    history = builder.history()
    assert history.ops.names.key[history.ops.key[1]] == "k"
    assert exclusion(history) is Outcome.OK


@pytest.mark.parametrize("f", ["release", "extend"])
def test_what_names_neither_grant_nor_key_is_an_error(f: str) -> None:
    error = refused(HistoryBuilder().acquire("alice", "g", 0, 10).op("alice", f, 20, 30, key=None))
    assert error.field == "key"
    assert (
        f"as is grant_id, so nobody can tell which grant this is about: alice {f} (event 2)" in error.problem
    )


def test_an_acquire_without_a_key_among_others_is_an_error() -> None:
    error = refused(HistoryBuilder().acquire("alice", "g", 0, 10).acquire("bob", "h", 20, 30, key=None))
    assert error.field == "key"
    assert "nobody can tell which lock this is about: bob acquire (event 2)" in error.problem


def test_an_operation_under_another_key_than_its_grant_is_an_error() -> None:
    error = refused(
        HistoryBuilder().acquire("alice", "g", 0, 10, key="a").release("alice", "g", 20, 30, key="b")
    )
    assert (
        error.problem
        == "this grant is of another key: saw 'b', its acquire is of 'a': alice release (event 2)"
    )


def test_a_history_of_one_lock_needs_no_key() -> None:
    builder = HistoryBuilder(rho=0.0, model="owner-mutex").acquire("alice", "g", 0, 10, key=None)
    builder.release("alice", "g", 20, 30, key=None).acquire("bob", "h", 25, 40, key=None)
    assert exclusion(builder.history()) is Outcome.OK
    assert exclusion(builder.acquire("carol", "i", 50, 60, key=None).history()) is Outcome.VIOLATED


def test_keys_of_which_only_bad_bytes_differ_do_not_become_one(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    line = b'{:process %d, :type :invoke, :f :acquire, :key "%s"}\n'
    path.write_bytes(line % (0, b"a") + line % (1, b"\xe4"))
    with pytest.raises(HistoryError, match="UTF-8") as caught:
        load(path)
    assert caught.value.line == 2
    path.write_bytes(line % (0, "ä\ufffd".encode()))
    assert list(load(path).ops.names.key) == ["ä\ufffd"]


# -- sessions and clocks -------------------------------------------------------------------------------------


def session(**params: Any) -> HistoryBuilder:
    """alice holds a lock without expiry and dies at 50; bob has it at 110."""
    builder = HistoryBuilder(rho=0.0, **params).acquire("alice", "g", 0, 10, ttl=None)
    return builder.fault("client-crash", 50, ["alice"]).acquire("bob", "h", 100, 110, ttl=None)


@pytest.mark.parametrize("model", ["lease", *OWNED, "mutex"])
def test_a_session_ends_when_its_client_is_killed(model: str) -> None:
    assert exclusion(session(model=model).history()) is Outcome.OK


@pytest.mark.parametrize("model", ["lease", *OWNED, "mutex"])
def test_a_session_does_not_end_before(model: str) -> None:
    builder = session(model=model).acquire("carol", "i", 30, 40, ttl=None)
    assert exclusion(builder.history()) is Outcome.VIOLATED


def test_a_lease_outlives_its_client() -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g", 0, 10).fault("client-crash", 50, ["alice"])
    assert "overlap" in names(builder.acquire("bob", "h", 100, 110).verdict())


@pytest.mark.parametrize(("second_ms", "accused"), [(9_810, False), (9_801, True)])
def test_node_and_recorder_may_both_err(second_ms: int, accused: bool) -> None:
    """TTL 10 s, ρ 0.01: a fast node and a slow recorder make 9,802 ms of it, and no less."""
    builder = HistoryBuilder(rho=0.01).acquire("alice", "g", 0, 10, ttl=10_000)
    builder.acquire("bob", "h", second_ms - 20, second_ms, ttl=10_000)
    assert ("overlap" in names(builder.verdict())) is accused


def params(name: str, value: int) -> Params:
    changed: Params = replace(Params(), **{name: value})
    return changed


@pytest.mark.parametrize("name", ["epsilon_ns", "delta_ns", "grace_ns", "stall_ns", "unavailable_ns"])
def test_a_negative_duration_is_an_error(name: str) -> None:
    with pytest.raises(HistoryError, match=r"saw -1, expected a duration of 0 ns or more") as caught:
        History.from_events([], params(name, -1))
    assert caught.value.field == f"params.{name}"
    History.from_events([], params(name, 0))


@pytest.mark.parametrize("rho", [-0.001, 1.0, float("nan")])
def test_a_drift_rate_out_of_range_is_an_error(rho: float) -> None:
    with pytest.raises(HistoryError, match="expected a rate from 0 to 1"):
        History.from_events([], Params(rho=rho))


def test_durations_without_end_stay_so_on_any_clock() -> None:
    from checker.history.arrays import longer, shorter
    from checker.history.operations import NEVER

    with np.errstate(all="raise"):
        for clock in (longer, shorter):
            assert clock(np.array([NEVER]), 0.9).tolist() == [NEVER]
    assert longer(np.array([10**10]), 0.01).tolist() == [10_202_020_203]
    assert shorter(np.array([10**10]), 0.01).tolist() == [9_801_980_198]


def numbered(model: str, *, later: str = "8", prefix: str = "") -> History:
    """Process 3 of 5 takes the lock, its write has an unknown outcome, and process 8 gives the lock back."""
    builder = HistoryBuilder(rho=0.0, model=model).acquire("3", "g1", 0, 10, fence=1, ttl=None)
    builder.op("4", "read", 0, 5).write("3", "g1", 20, 30, 0, None, type="info")
    builder.op(later, "release", 40, 50).acquire("4", "g2", 60, 70, fence=2, ttl=None)
    builder.op("4", "release", 80, 90)
    events = [
        replace(e, grant_id=None, client=None, process=f"{prefix}{e.process}") for e in builder.events()
    ]
    return History.from_events(events, builder.params)


@pytest.mark.parametrize("prefix", ["", "worker-"])
@pytest.mark.parametrize("model", ["lease", *OWNED, "semaphore"])
def test_a_new_process_number_may_be_the_client_of_the_old_one(model: str, prefix: str) -> None:
    history = numbered(model, prefix=prefix)
    if model == "semaphore":
        history = history.with_params(replace(history.params, permits=1))
    verdict = check(history).properties[Property.MUTUAL_EXCLUSION]
    assert verdict.outcome is Outcome.UNKNOWN
    assert f"process {prefix}8 released 'k' at 40 ms" in verdict.why
    assert f"may be the client of process {prefix}3" in verdict.why


@pytest.mark.parametrize("model", OWNED)
def test_who_has_a_name_without_a_number_goes_on_for_nobody(model: str) -> None:
    assert exclusion(numbered(model, later="bob")) is Outcome.VIOLATED


@pytest.mark.parametrize("model", OWNED)
def test_a_process_that_was_there_before_is_another_client(model: str) -> None:
    assert exclusion(numbered(model, later="4")) is Outcome.VIOLATED


@pytest.mark.parametrize("model", ["lease", "owner-mutex", "fenced-mutex"])
def test_what_happened_before_a_process_was_renamed_stays_violated(model: str) -> None:
    builder = (
        HistoryBuilder(rho=0.0, model=model)
        .acquire("3", "g1", 0, 10, ttl=None)
        .acquire("4", "g2", 11, 12, ttl=None)
    )
    builder.write("3", "g1", 20, 30, 0, None, type="info").op("8", "release", 40, 50)
    events = [replace(e, grant_id=None, client=None) for e in builder.events()]
    assert exclusion(History.from_events(events, builder.params)) is Outcome.VIOLATED


@pytest.mark.parametrize("model", ["owner-mutex", "fenced-mutex"])
def test_two_that_hold_a_lock_at_once_are_accused_whoever_was_renamed(model: str) -> None:
    builder = HistoryBuilder(rho=0.0, model=model).acquire("3", "g1", 0, 10, ttl=None, fence=1)
    builder.write("3", "g1", 20, 30, 0, None, type="info").op("8", "release", 40, 50)
    builder.acquire("4", "g2", 60, 70, ttl=None, fence=2).acquire("5", "g3", 61, 71, ttl=None, fence=3)
    builder.op("4", "release", 80, 90).op("5", "release", 81, 91)
    events = [replace(e, grant_id=None, client=None) for e in builder.events()]
    assert exclusion(History.from_events(events, builder.params)) is Outcome.VIOLATED


def test_a_late_release_without_a_grant_may_end_a_later_grant_of_its_client() -> None:
    builder = (
        HistoryBuilder(rho=0.0, model="lease")
        .op("alice", "release", 0, 10, "info")
        .acquire("alice/1", "g", 20, 30)
    )
    builder.acquire("bob", "h", 40, 50)
    verdict = check(unnamed(builder)).properties[Property.MUTUAL_EXCLUSION]
    assert verdict.outcome is Outcome.UNKNOWN
    assert "may have ended any later grant of the same client" in verdict.why


def test_a_leader_that_is_told_of_its_term_again_under_a_new_number_is_one_leader() -> None:
    builder = HistoryBuilder(rho=0.0, model="leader-election").acquire("3", "g1", 0, 10, fence=7)
    builder.op("3", "read", 20, 30, "info").acquire("8", "g2", 40, 50, fence=7)
    events = [replace(e, grant_id=None, client=None) for e in builder.events()]
    assert exclusion(History.from_events(events, builder.params)) is Outcome.UNKNOWN
    named = [replace(e, client=f"client of {e.process}") for e in events]
    assert exclusion(History.from_events(named, builder.params)) is Outcome.VIOLATED
