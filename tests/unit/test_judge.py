"""What a busy machine kept from happening is unknown, and never a lock's merit or fault."""

from __future__ import annotations

import pytest

from lab.analysis.comparison import refusals_in_stalls
from tests.unit.checker.builder import HistoryBuilder


def refused(how: str = "fail") -> HistoryBuilder:
    """Alice holds the lock; Bob is refused between 100 and 900 ms."""
    return HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 100, 900, how)


def test_a_refusal_in_a_stall_is_reported() -> None:
    (why,) = refusals_in_stalls(refused().stall("bob", 200, 600).stall("bob", 820, 60).history())
    assert all(fact in why for fact in ("bob was refused", "0.90 s", "600 ms"))


@pytest.mark.parametrize(
    "builder",
    [
        refused(),
        refused().stall("alice", 200, 600),
        refused().stall("bob", 20, 60),
        refused().stall("bob", 950, 60),
        refused("ok").stall("bob", 200, 600),
        refused().stall("bob", 200, 600).fault("pause", 190, ["bob"], until=810),
    ],
    ids=["no stall", "another's", "before", "after", "granted", "paused"],
)
def test_nothing_else_is(builder: HistoryBuilder) -> None:
    assert list(refusals_in_stalls(builder.history())) == []
