"""Semaphores and read-write locks: what is violated, what only looks like it, and what is bad input."""

from __future__ import annotations

import pytest

from checker import check
from checker.errors import HistoryError
from checker.verdict import Outcome, Property
from tests.unit.checker.builder import HistoryBuilder

EXCLUSION = Property.MUTUAL_EXCLUSION


def semaphore(permits: int | None = 2, **params: object) -> HistoryBuilder:
    return HistoryBuilder(model="semaphore", permits=permits, clients=["alice", "bob", "carol"], **params)


def shared() -> HistoryBuilder:
    return HistoryBuilder(model="read-write-lock", clients=["alice", "bob", "carol"])


def test_as_many_holders_as_permits_are_fine() -> None:
    builder = semaphore()
    for at, who in enumerate(("alice", "bob")):
        builder.acquire(who, who, 10 * at, 10 * at + 1, ttl=None)
        builder.op(who, "release", 100 + at, 100 + at + 0.5, grant_id=who)
    builder.acquire("carol", "c", 100.2, 101, ttl=None)  # while Alice's release is under way
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK


def test_one_holder_too_many_is_named_with_all_holders() -> None:
    builder = semaphore()
    for at, who in enumerate(("alice", "bob", "carol")):
        builder.acquire(who, who, 10 * at, 10 * at + 1, ttl=None)
    (finding,) = builder.verdict().named("over-capacity")
    assert finding.clients == ("alice", "bob", "carol")
    assert finding.details["held"] == 3
    assert len(finding.witnesses) == 3


def test_permits_add_up() -> None:
    builder = semaphore(5)
    builder.acquire("alice", "a", 0, 1, ttl=None, value=3)
    builder.acquire("bob", "b", 2, 3, ttl=None, value=2)
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK
    builder.acquire("carol", "c", 4, 5, ttl=None, value=1)
    assert builder.verdict()[EXCLUSION].outcome is Outcome.VIOLATED


def test_a_lease_that_may_be_over_holds_no_permit() -> None:
    builder = semaphore(1)
    builder.acquire("alice", "a", 0, 1, ttl=100)
    builder.acquire("bob", "b", 100, 101, ttl=100)
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK
    earlier = semaphore(1)
    earlier.acquire("alice", "a", 0, 1, ttl=100).acquire("bob", "b", 50, 51, ttl=100)
    assert earlier.verdict()[EXCLUSION].outcome is Outcome.VIOLATED


def test_one_client_may_hold_several_permits_without_names() -> None:
    builder = semaphore(2)
    builder.op("alice", "acquire", 0, 1).op("alice", "acquire", 2, 3)
    builder.op("alice", "release", 4, 5).op("alice", "release", 6, 7)
    builder.op("bob", "acquire", 8, 9).op("carol", "acquire", 8, 9)
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK


def test_of_two_weights_without_names_the_smaller_counts() -> None:
    builder = semaphore(4)
    builder.op("alice", "acquire", 0, 1, value=3).op("alice", "acquire", 2, 3, value=1)
    builder.op("alice", "release", 4, 5)  # which of the two is not recorded
    builder.op("bob", "acquire", 6, 7, value=3)
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK


def test_readers_share_and_writers_do_not() -> None:
    builder = shared()
    builder.acquire("alice", "a", 0, 1, ttl=None, value="read").acquire(
        "bob", "b", 0, 2, ttl=None, value="read"
    )
    assert builder.verdict()[EXCLUSION].outcome is Outcome.OK
    builder.acquire("carol", "c", 3, 4, ttl=None)
    verdict = builder.verdict()
    assert verdict[EXCLUSION].outcome is Outcome.VIOLATED
    assert "carol held the lock on 'k' while alice and bob held it for reading" in verdict[EXCLUSION].why


def test_a_refusal_with_room_is_violated_and_one_that_may_be_right_is_not() -> None:
    def tried(call: float, back: float) -> HistoryBuilder:
        builder = semaphore(2, refusals=["full"])
        builder.acquire("alice", "a", 0, 1, ttl=None).acquire("bob", "b", 2, 3, ttl=None)
        builder.op("bob", "release", 10, 12, grant_id="b")
        return builder.op("carol", "acquire", call, back, "fail", error="full")

    assert tried(5, 6).verdict()[EXCLUSION].outcome is Outcome.OK
    assert tried(11, 20).verdict()[EXCLUSION].outcome is Outcome.OK  # Bob may have held it until 12
    violated = tried(13, 20).verdict()
    assert [f.name for f in violated[EXCLUSION].violations] == ["refused-with-room"]


def test_a_reader_may_be_refused_for_a_waiting_writer() -> None:
    def builder(*, writer: bool) -> HistoryBuilder:
        made = HistoryBuilder(model="read-write-lock", clients=["alice", "bob"], refusals=["busy"])
        made.acquire("alice", "a", 0, 1, ttl=None, value="read")
        if writer:
            made.op("carol", "acquire", 2, 9, "fail", asked={"value": "write"}, error="busy")
        return made.op("bob", "acquire", 4, 5, "fail", asked={"value": "read"}, error="busy")

    assert builder(writer=True).verdict()[EXCLUSION].outcome is Outcome.OK
    assert builder(writer=False).verdict()[EXCLUSION].outcome is Outcome.VIOLATED


@pytest.mark.parametrize(
    ("permits", "value", "field"),
    [(None, 1, "params.permits"), (0, 1, "params.permits"), (2, 0, "value"), (2, "x", "value")],
)
def test_bad_numbers_are_bad_input(permits: int | None, value: object, field: str) -> None:
    builder = semaphore(permits)
    builder.acquire("alice", "a", 0, 1, ttl=None, value=value)
    with pytest.raises(HistoryError) as error:
        check(builder.history())
    assert error.value.field == field
