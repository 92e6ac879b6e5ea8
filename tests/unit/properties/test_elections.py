"""Leader election: a term has one leader, and later elections have later terms."""

from __future__ import annotations

from checker.verdict import Outcome, Property
from tests.unit.checker.builder import HistoryBuilder

EXCLUSION = Property.MUTUAL_EXCLUSION


def group() -> HistoryBuilder:
    return HistoryBuilder(model="leader-election", clients=["alice", "bob"])


def test_leaders_of_different_terms_may_overlap() -> None:
    builder = (
        group().acquire("alice", "a", 0, 1, ttl=None, fence=1).acquire("bob", "b", 10, 11, ttl=None, fence=2)
    )
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK


def test_a_term_is_never_shared() -> None:
    builder = (
        group().acquire("alice", "a", 0, 9, ttl=None, fence=3).acquire("bob", "b", 2, 11, ttl=None, fence=3)
    )
    (finding,) = builder.verdict().named("shared-term")
    assert finding.clients == ("alice", "bob")


def test_one_client_may_hear_of_its_term_twice() -> None:
    builder = (
        group().acquire("alice", "a", 0, 1, ttl=None, fence=3).acquire("alice", "b", 2, 3, ttl=None, fence=3)
    )
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK


def test_a_later_election_has_a_later_term() -> None:
    builder = (
        group().acquire("alice", "a", 0, 1, ttl=None, fence=3).acquire("bob", "b", 2, 3, ttl=None, fence=2)
    )
    assert [f.name for f in builder.verdict()[EXCLUSION].violations] == ["term-order"]
    together = (
        group().acquire("alice", "a", 0, 5, ttl=None, fence=3).acquire("bob", "b", 2, 6, ttl=None, fence=2)
    )
    assert together.verdict()[EXCLUSION].outcome is Outcome.OK


def test_unknown_elections_and_other_groups_claim_nothing() -> None:
    builder = (
        group()
        .acquire("alice", "a", 0, 1, ttl=None, fence=3)
        .acquire("bob", "b", 2, 3, "info", ttl=None, fence=3)
    )
    builder.acquire("carol", "c", 4, 5, ttl=None, fence=1, key="another")
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK
    assert group().verdict()[EXCLUSION].outcome is Outcome.UNKNOWN
