"""From a table of operations to one result per key: models, info rules, stamps, words."""

from __future__ import annotations

from typing import Any

import pytest

from checker.history.events import Event
from checker.history.history import History
from checker.linearizability import Assumptions, Result, check_linearizability

MS = 1_000_000


class HistoryBuilder:
    """Events told one by one; every event is one millisecond after the one before unless said otherwise."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(
        self, process: str, f: str, type: str, at: int | None = None, **fields: Any
    ) -> HistoryBuilder:
        time_ms = len(self.events) if at is None else at
        event: dict[str, Any] = {
            "time_ns": time_ms * MS,
            "process": process,
            "f": f,
            "type": type,
            "key": "k",
        }
        self.events.append(Event(**(event | fields)))
        return self

    def whole(self, process: str, f: str, type: str = "ok", **fields: Any) -> HistoryBuilder:
        """An invocation and its completion in one."""
        return self(process, f, "invoke", **fields)(process, f, type, **fields)

    def check(self, model: str, **assumptions: Any) -> list[Result]:
        """One result per key."""
        history = History.from_events(self.events)
        assume = Assumptions(**assumptions)
        return check_linearizability(history.ops, model, assume=assume, zero_ns=history.start_ns)


def test_two_holders_in_one_plain_sentence() -> None:
    builder = HistoryBuilder().whole("alice", "acquire").whole("bob", "acquire").whole("alice", "release")
    (result,) = builder.check("owner-mutex")
    assert (result.outcome, result.witness, result.key) == ("violated", (0, 1), "k")
    assert result.why == (
        "bob's acquire returned at 3 ms while alice held the lock (since 1 ms) "
        "and had not yet called a release."
    )


def test_an_unowned_mutex_allows_a_release_by_anybody_an_owned_one_does_not() -> None:
    builder = HistoryBuilder().whole("alice", "acquire").whole("bob", "release").whole("carol", "acquire")
    assert [r.outcome for r in builder.check("mutex")] == ["ok"]
    (result,) = builder.check("owner-mutex")
    assert (result.outcome, result.witness) == ("violated", (0, 1))


def test_keys_are_decided_apart() -> None:
    builder = HistoryBuilder().whole("alice", "acquire", key="a").whole("bob", "acquire", key="b")
    builder.whole("carol", "acquire", key="a")
    assert [(r.key, r.outcome) for r in builder.check("owner-mutex")] == [("a", "violated"), ("b", "ok")]


def test_where_no_acquire_has_a_key_there_is_one_lock() -> None:
    builder = HistoryBuilder().whole("alice", "acquire", key=None).whole("bob", "acquire", key=None)
    assert [(r.key, r.outcome) for r in builder.check("owner-mutex")] == [(None, "violated")]


def test_a_failed_acquire_says_nothing_unless_its_error_is_a_refusal() -> None:
    builder = HistoryBuilder().whole("alice", "acquire", "fail", error="held")
    assert [r.outcome for r in builder.check("owner-mutex")] == []
    for model in ("mutex", "owner-mutex"):
        (result,) = builder.check(model, refusals=("held",))
        assert (result.outcome, result.witness) == ("violated", (0,))
    assert builder.check("owner-mutex", refusals=("timeout",)) == []


def test_a_failed_release_had_no_effect() -> None:
    builder = HistoryBuilder().whole("alice", "acquire").whole("bob", "release", "fail", error="not-held")
    assert [r.outcome for r in builder.check("owner-mutex")] == ["ok"]


def test_reentrant_locks_are_as_deep_as_said() -> None:
    builder = HistoryBuilder().whole("alice", "acquire").whole("alice", "acquire").whole("alice", "acquire")
    outcomes = [builder.check("reentrant-mutex", depth=depth)[0].outcome for depth in (2, 3, None)]
    assert outcomes == ["violated", "ok", "ok"]
    assert builder.check("owner-mutex")[0].outcome == "violated"


def test_fences_count_only_in_fenced_models() -> None:
    builder = HistoryBuilder().whole("alice", "acquire", fence=7).whole("alice", "release")
    builder.whole("bob", "acquire", fence=7)
    verdicts = {m: builder.check(m)[0] for m in ("owner-mutex", "fenced-mutex", "reentrant-fenced-mutex")}
    assert [r.outcome for r in verdicts.values()] == ["ok", "violated", "violated"]
    assert verdicts["fenced-mutex"].why == (
        "bob acquired at 5 ms with fence 7, not greater than fence 7, with which alice had acquired before."
    )


def test_a_process_that_goes_on_after_an_unknown_outcome_is_searched() -> None:
    builder = HistoryBuilder()("alice", "acquire", "invoke")("alice", "acquire", "info")
    builder.whole("alice", "release").whole("bob", "acquire")
    (result,) = builder.check("owner-mutex")
    assert (result.outcome, result.algorithm) == ("ok", "search")
    (result,) = builder.check("owner-mutex", budget_steps=1)
    assert result.outcome == "unknown"
    (result,) = builder.whole("carol", "acquire").check("owner-mutex")
    assert (result.outcome, result.witness) == ("violated", (2, 3))


def test_equal_stamps_are_ordered_by_position() -> None:
    release_first = HistoryBuilder().whole("alice", "acquire", at=1)("alice", "release", "invoke", at=5)
    release_first("bob", "acquire", "invoke", at=5)("bob", "acquire", "ok", at=5)
    acquire_first = HistoryBuilder().whole("alice", "acquire", at=1)("bob", "acquire", "invoke", at=5)
    acquire_first("bob", "acquire", "ok", at=5)("alice", "release", "invoke", at=5)
    outcomes = [builder.check("owner-mutex")[0].outcome for builder in (release_first, acquire_first)]
    assert outcomes == ["ok", "violated"]


@pytest.mark.parametrize("model", ["mutex", "owner-mutex"])
def test_uncertain_stamps_accuse_nobody_of_less_than_their_uncertainty(model: str) -> None:
    builder = HistoryBuilder().whole("alice", "acquire", at=10).whole("bob", "acquire", at=20)
    builder.whole("alice", "release", at=24)
    outcomes = [builder.check(model, epsilon_ns=ms * MS)[0].outcome for ms in (0, 1, 2, 3)]
    assert outcomes == ["violated", "violated", "ok", "ok"]


def test_a_session_shorter_than_the_uncertainty_claims_nothing() -> None:
    builder = HistoryBuilder().whole("alice", "acquire", at=10).whole("bob", "acquire", at=20)
    builder.whole("bob", "release", at=21).whole("alice", "release", at=40)
    outcomes = [builder.check("owner-mutex", epsilon_ns=epsilon)[0].outcome for epsilon in (0, MS)]
    assert outcomes == ["violated", "ok"]


def test_a_lease_given_back_in_time_is_decided_exactly() -> None:
    builder = (
        HistoryBuilder()
        .whole("alice", "acquire", at=0, ttl_ns=100 * MS)
        .whole("bob", "acquire", at=50, ttl_ns=100 * MS)
    )
    builder.whole("alice", "release", at=90).whole("bob", "release", at=95)
    (result,) = builder.check("lease")
    assert (result.outcome, result.exact, result.witness) == ("violated", True, (0, 1))


@pytest.mark.parametrize("release", ["too late", "never", "failed", "after an extension"])
def test_a_lease_that_may_have_ended_by_itself_is_left_to_the_windows(release: str) -> None:
    builder = HistoryBuilder().whole("alice", "acquire", at=0, ttl_ns=100 * MS)
    if release == "after an extension":
        builder.whole("alice", "extend", at=10, ttl_ns=100 * MS)
    if release != "never":
        at = 101 if release == "too late" else 90
        builder.whole("alice", "release", "fail" if release == "failed" else "ok", at=at)
    (result,) = builder.check("lease")
    assert (result.outcome, result.exact, result.algorithm) == ("ok", False, "cores")


def test_registers_by_key_with_refused_compare_and_set() -> None:
    builder = HistoryBuilder().whole("a", "write", key="x", value=1).whole("b", "read", key="y", value=3)
    builder.whole("a", "cas", "fail", key="x", value=[1, 2], error="mismatch")
    builder.whole("c", "cas", "fail", key="y", value=[3, 2], error="timeout").whole(
        "c", "read", key="y", value=3
    )
    found = {r.key: (r.outcome, r.witness) for r in builder.check("cas-register")}
    assert found == {"x": ("violated", (0, 2)), "y": ("ok", ())}


def test_a_result_is_neither_true_nor_false() -> None:
    (result,) = HistoryBuilder().whole("alice", "acquire").check("mutex")
    with pytest.raises(TypeError, match="outcome"):
        bool(result)


def test_an_unknown_model_is_named_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"saw model 'mutx', expected one of .*owner-mutex"):
        HistoryBuilder().check("mutx")
