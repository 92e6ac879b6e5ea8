"""A lock whose leases end on a clock that is not the one of its surroundings is examined like any other."""

from __future__ import annotations

import math
import time

import pytest

from lab.locks.base import Lease
from tests.known_bad.examined import examined

S = 10**9


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_a_lock_that_counts_on_the_wall_clock_is_found_for_that() -> None:
    found = examined("tests.locks_to_test.by_wall_clock:ByWallClock", 600, first=True)
    assert [defect.cause for defect in found.defects] == ["wall-clock"]


def test_what_is_left_of_a_lease_is_told_by_the_clock_that_it_is_counted_on() -> None:
    by_wall = Lease("k", "t", S, time.time_ns() + S, attempt_ns=time.time_ns()).claim(now_ns=7 * S)
    assert by_wall.keys() == {"claimed_ns"}
    assert 0.5 * S < (by_wall["claimed_ns"] or 0) <= S
    assert Lease("k", "t", S, 8 * S, attempt_ns=7 * S).claim(now_ns=7 * S) == {
        "claimed_ns": S,
        "attempt_ns": 7 * S,
        "deadline_ns": 8 * S,
    }


@pytest.mark.parametrize("deadline", [7.5 * S, math.inf, 10**30])
def test_a_deadline_that_is_no_instant_is_refused(deadline: int) -> None:
    with pytest.raises(TypeError, match="expected an instant in whole ns"):
        Lease("k", "t", S, deadline).claim(now_ns=7 * S)
