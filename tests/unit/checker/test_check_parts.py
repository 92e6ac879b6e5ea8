"""Functions of single checks, alone: what whole histories cannot tell apart."""

from __future__ import annotations

import pytest

from checker.history.evidence import Evidence
from checker.properties.lease_honesty import _held
from checker.properties.resource import lost_updates
from tests.unit.checker.story import MS, TTL, Story


def test_a_write_without_a_token_proves_no_acquire() -> None:
    story = Story().acquire("alice", "g1", 0, 10, "info", token="ta")
    story.write("bob", None, 20, 30, 0, 1)
    assert Evidence(story.history()).grants.held.tolist() == [False]


def test_a_write_with_its_token_proves_an_acquire() -> None:
    story = Story().acquire("carol", "g0", 0, 5, "info", token="tc")
    story.acquire("alice", "g1", 0, 10, "info", token="ta").write("bob", None, 20, 30, 0, 1, token="ta")
    grants = Evidence(story.history()).grants
    assert {g: bool(h) for g, h in zip(("g0", "g1"), grants.held, strict=True)} == {"g0": False, "g1": True}
    assert int(grants.acquired_ns[1]) == 30 * MS


def test_another_keys_write_with_its_token_proves_nothing() -> None:
    story = Story().acquire("alice", "g1", 0, 10, "info", token="ta")
    story.write("bob", None, 20, 30, 0, 1, token="ta", key="other")
    assert Evidence(story.history()).grants.held.tolist() == [False]


def test_just_the_writes_of_lost_updates_are_named() -> None:
    story = Story().acquire("alice", "g1", 0, 1, ttl=None)
    story.write("alice", "g1", 10, 11, 0, 1)
    story.write("alice", "g1", 20, 21, 1, 2).write("bob", None, 22, 23, 1, 3)
    story.write("alice", "g1", 30, 31, 3, 4).write("alice", "g1", 40, 41, 4, 5)
    evidence = Evidence(story.history())
    findings, rows = lost_updates(evidence)
    assert [finding.clients for finding in findings] == [("alice", "bob")]
    assert [int(evidence.ops.version_written[row]) for row in rows] == [2, 3]


def test_nothing_lost_names_no_write() -> None:
    story = Story().write("alice", None, 10, 11, 0, 1).write("alice", None, 20, 21, 1, 2)
    findings, rows = lost_updates(Evidence(story.history()))
    assert (findings, rows.tolist()) == ([], [])


def answers(*asked: tuple[str, str, int], ttl: float | None = TTL) -> list[tuple[str, int]]:
    """Which answers (status, grant, claimed nanoseconds) are claims, as the client's grant and the claim."""
    story = Story().acquire("bob", "g0", 0, 5, ttl=ttl).acquire("alice", "g1", 0, 10, ttl=ttl)
    for number, (status, grant, claimed_ns) in enumerate(asked):
        at = 100 + 10 * number
        story.op("alice", "held", at, at + 5, status, grant_id=grant, claimed_ns=claimed_ns)
    evidence = Evidence(story.history())
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
