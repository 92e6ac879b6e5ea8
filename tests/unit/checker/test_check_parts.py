"""Functions of single checks, alone: what whole histories cannot tell apart."""

from __future__ import annotations

import cProfile

import numpy as np
import pytest

from checker import check
from checker.history.evidence import Evidence
from checker.history.operations import F, Status
from checker.properties import mutual_exclusion
from checker.properties.lease_honesty import _held
from checker.properties.resource import lost_updates
from checker.properties.waiting import tries_of
from checker.verdict import Outcome
from tests.unit.checker.builder import MS, TTL, HistoryBuilder


def test_a_write_without_a_token_proves_no_acquire() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, "info", token="ta")
    builder.write("bob", None, 20, 30, 0, 1)
    assert Evidence(builder.history()).grants.held.tolist() == [False]


def test_a_write_with_its_token_proves_an_acquire() -> None:
    builder = HistoryBuilder().acquire("carol", "g0", 0, 5, "info", token="tc")
    builder.acquire("alice", "g1", 0, 10, "info", token="ta").write("bob", None, 20, 30, 0, 1, token="ta")
    grants = Evidence(builder.history()).grants
    assert {g: bool(h) for g, h in zip(("g0", "g1"), grants.held, strict=True)} == {"g0": False, "g1": True}
    assert int(grants.acquired_ns[1]) == 30 * MS


def test_another_keys_write_with_its_token_proves_nothing() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, "info", token="ta")
    builder.write("bob", None, 20, 30, 0, 1, token="ta", key="other")
    assert Evidence(builder.history()).grants.held.tolist() == [False]


def test_just_the_writes_of_lost_updates_are_named() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 1, ttl=None)
    builder.write("alice", "g1", 10, 11, 0, 1)
    builder.write("alice", "g1", 20, 21, 1, 2).write("bob", None, 22, 23, 1, 3)
    builder.write("alice", "g1", 30, 31, 3, 4).write("alice", "g1", 40, 41, 4, 5)
    evidence = Evidence(builder.history())
    findings, rows = lost_updates(evidence)
    assert [finding.clients for finding in findings] == [("alice", "bob")]
    assert [int(evidence.ops.version_written[row]) for row in rows] == [2, 3]


def test_nothing_lost_names_no_write() -> None:
    builder = HistoryBuilder().write("alice", None, 10, 11, 0, 1).write("alice", None, 20, 21, 1, 2)
    findings, rows = lost_updates(Evidence(builder.history()))
    assert (findings, rows.tolist()) == ([], [])


def test_what_several_checks_ask_for_is_derived_once_and_not_kept_of_a_long_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = (
        HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 20, 30, "fail", refused_by=2)
    )
    short, long = Evidence(builder.history()), Evidence(builder.history())
    assert tries_of(short) is tries_of(short)
    assert mutual_exclusion.check(short).outcome is Outcome.OK
    assert "guaranteed" in vars(short)
    verdict = check(builder.history()).to_dict()
    monkeypatch.setattr("checker.history.evidence.KEPT_MAX", 1)
    assert tries_of(long) is not tries_of(long)
    assert tries_of(long).row.tolist() == tries_of(short).row.tolist() == [0, 1]
    assert check(builder.history()).to_dict() == verdict


def test_codes_are_compared_as_integers_are() -> None:
    codes = np.array([0, 4, 1], np.int8)
    for kind in (F.ACQUIRE, F.EXTEND, F.READ):
        for compare in (np.equal, np.not_equal, np.less_equal):
            assert compare(codes, kind).tolist() == compare(codes, int(kind)).tolist()
    assert (codes == F.READ).tolist() == [False, True, False]
    assert [kind.name for kind in Status] == ["OK", "FAIL", "INFO"]
    with cProfile.Profile() as profile:
        assert bool((codes == F.READ).any())
    asked = {entry.code.co_name for entry in profile.getstats() if not isinstance(entry.code, str)}
    assert "__getattr__" not in asked, "numpy asks the enumeration for array functions of its own"


def answers(*asked: tuple[str, str, int], ttl: float | None = TTL) -> list[tuple[str, int]]:
    """Which answers (status, grant, claimed nanoseconds) are claims, as the client's grant and the claim."""
    builder = HistoryBuilder().acquire("bob", "g0", 0, 5, ttl=ttl).acquire("alice", "g1", 0, 10, ttl=ttl)
    for number, (status, grant, claimed_ns) in enumerate(asked):
        at = 100 + 10 * number
        builder.op("alice", "held", at, at + 5, status, grant_id=grant, claimed_ns=claimed_ns)
    evidence = Evidence(builder.history())
    rows, grants = _held(evidence)
    claims = evidence.ops.claimed_ns[rows].tolist()
    return list(zip([evidence.holder(int(g)) for g in grants], claims, strict=True))


@pytest.mark.parametrize(
    ("asked", "claims"),
    [
        ([("ok", "g1", 1)], [("alice", 1)]),
        ([("ok", "g1", 0)], []),
        ([("ok", "g1", -1)], []),
        ([("fail", "g1", 5)], []),
        ([("info", "g1", 5)], []),
        ([("ok", "unheard-of", 5)], []),
        ([("ok", "unheard-of", 5), ("ok", "g1", 6), ("ok", "g0", 7)], [("alice", 6), ("bob", 7)]),
    ],
)
def test_which_answers_are_claims(asked: list[tuple[str, str, int]], claims: list[tuple[str, int]]) -> None:
    assert answers(*asked) == claims


def test_a_lease_without_an_end_cannot_be_claimed_for_too_long() -> None:
    assert answers(("ok", "g1", 5), ttl=None) == []
