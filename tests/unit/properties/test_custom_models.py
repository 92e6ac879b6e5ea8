"""A history judged by a model of one's own: what the finding names, and what else the verdict says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checker import check
from checker.linearizability.custom import (
    IMPOSSIBLE,
    CustomModel,
    CustomResult,
    Operation,
    operations_of,
    violations,
)
from checker.verdict import Outcome, Property
from tests.unit.checker.builder import MS, HistoryBuilder


class Held(CustomModel):
    """A lock: acquired only while it is free, released by whoever does."""

    def init(self) -> bool:
        return False

    def step(self, state: bool, operation: Operation) -> Any:
        return IMPOSSIBLE if (operation.f == "acquire") == state else not state


class AllOrNothing(Held):
    """The same, which also looks at operations that failed: none may have."""

    looks_at_failures = True

    def step(self, state: bool, operation: Operation) -> Any:
        return IMPOSSIBLE if operation.status == "fail" else super().step(state, operation)


def twice() -> HistoryBuilder:
    """Alice, on one key, then Bob and Carol, one after the other, on a second one."""
    builder = HistoryBuilder(clients=["alice", "bob", "carol"]).op("alice", "acquire", 0, 1, key="first")
    builder.op("alice", "acquire", 2, 3, "fail", key="k").op("bob", "acquire", 4, 5)
    return builder.op("carol", "acquire", 6, 7.5)


def test_the_operation_that_no_order_explains() -> None:
    verdict = check(twice().history(), model=Held())
    assert list(verdict.properties) == [Property.MUTUAL_EXCLUSION]
    assert verdict.outcome is Outcome.VIOLATED
    (finding,) = verdict.findings
    assert (finding.name, finding.key, finding.witnesses) == ("not-linearizable", "k", (4, 5, 6, 7))
    assert finding.clients == ("bob", "carol")
    assert finding.details == {"model": "Held", "algorithm": "search"}
    assert finding.why == (
        "no order of the operations explains carol's acquire at 7.5 ms by the model Held: "
        "1 other operations can be put in order, this one cannot"
    )


def test_an_operation_that_failed_is_looked_at_where_the_model_asks_for_it() -> None:
    verdict = check(twice().history(), model=AllOrNothing())
    assert ("k", ("alice",)) in {(f.key, f.clients) for f in verdict.findings}


def test_without_a_lock_it_is_the_resource_that_is_judged() -> None:
    builder = HistoryBuilder().op("alice", "write", 0, 1, asked={"value": 1})
    assert list(check(builder.history(), model=Held()).properties) == [Property.RESOURCE]


def test_what_is_explained_is_ok_and_doubts_make_it_unknown() -> None:
    builder = HistoryBuilder().op("alice", "acquire", 0, 1).op("alice", "release", 2, 3).stall("bob", 1, 400)
    verdict = check(builder.history(), model=Held())
    assert verdict[Property.MUTUAL_EXCLUSION].outcome is Outcome.OK
    assert verdict[Property.MUTUAL_EXCLUSION].why == (
        "the operations on each of 1 objects can be put in one order (Held)"
    )
    assert len(verdict.remarks) == 1
    verdict = check(replace(builder.history(), problems=("torn",)), model=Held())
    assert verdict.unknown_reasons == ("torn",)
    assert verdict.outcome is Outcome.UNKNOWN


def test_operations_as_a_model_sees_them() -> None:
    builder = HistoryBuilder().op("alice", "acquire", 1, 2, fence=7, asked={"ttl_ns": 5 * MS})
    builder.op("bob", "write", 3, 4, "info", asked={"value": "x"}).op("carol", "read", 5, 6, value="x")
    acquired, written, read = operations_of(builder.history())
    assert acquired == Operation("alice", "acquire", 1 * MS, 2 * MS, 5 * MS, 7, "k", "ok")
    assert written == Operation("bob", "write", 3 * MS, None, "x", None, "k", "info")
    assert read == Operation("carol", "read", 5 * MS, 6 * MS, None, "x", "k", "ok")


def test_a_search_that_ended_without_an_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [CustomResult("ok", "a", 7, ()), CustomResult("unknown", "b", 1234, ())]
    monkeypatch.setattr("checker.decide.check_model", lambda *_: found)
    builder = HistoryBuilder().op("alice", "acquire", 0, 1).op("alice", "release", 2, 3)
    verdict = check(builder.history(), model=Held())[Property.MUTUAL_EXCLUSION]
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.why == "the search ended after 1,234 steps without an answer for 'b'"


def test_the_violations_among_results() -> None:
    found = [CustomResult("ok", "a", 1), CustomResult("violated", "b", 2), CustomResult("unknown", "c", 3)]
    assert violations(found) == found[1:2]
