"""A lock whose leases end on a clock that is not the one of its surroundings is examined like any other."""

from __future__ import annotations

import math
import time

import pytest

from lab.examine.ledger.naming import Cause, causes_of
from lab.examine.violations.judge import violations
from lab.faults.jump import Jump
from lab.locks.base import Lease
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.runner import Outcome, run_trial, trials
from lab.search.trial import Round, Trial
from tests.known_bad.examined import examined

S = 10**9


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_a_lock_that_counts_on_the_wall_clock_is_found_for_that() -> None:
    found = examined("tests.locks_to_test.by_wall_clock:ByWallClock", 600, first=True)
    assert [defect.cause for defect in found.defects] == ["wall-clock"]


def seen_in(trial: Trial) -> tuple[Outcome, dict[str, Cause]]:
    """What comes of a trial that is watched, and the first cause of each violation in it."""
    with trials():
        found, outcome = violations(run_trial(trial)), run_trial(trial, watch=True)
        causes = {name: causes_of(trial, name)[0] for name in found}
    return outcome, causes


def late(lock: str) -> Trial:
    """Alice's clock is set back while she holds the lock for longer than its lease; Bob takes it then."""
    jump = timed_fault(Jump, on("alice", "granted", 1, S), "alice", by_ns=-20 * S)
    clients: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 13 * S),), "bob": (Round(11 * S, 3 * S),)}
    return Trial(f"tests.locks_to_test.by_wall_clock:{lock}", clients, (jump,), 1)


def set_back_as_it_asks(lock: str) -> Trial:
    jump = timed_fault(Jump, on("alice", "sends"), "alice", by_ns=-20 * S)
    return Trial(lock, {"alice": (Round(0, S),)}, (jump,))


@pytest.mark.usefixtures("_patched")
def test_where_the_lock_reads_the_wall_clock_is_told() -> None:
    cause = seen_in(late("ComparesWithWallClock"))[1]["lost-update"]
    assert cause.kind == "wall-clock"
    assert [(each.function, each.text) for each in cause.places] == [
        ("ComparesWithWallClock.believes", "_now_s()"),
        ("_now_s", "time.time()"),
    ]
    assert cause.places[-1].file == "by_wall_clock.py"


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize(
    ("lock", "files"),
    [
        ("mutant:wall-clock", {"redlock.py"}),
        ("tests.locks_to_test.by_wall_clock:ByWallClock", set()),  # it hands the clock to code of the lab
    ],
)
def test_a_look_while_a_lease_is_counted_is_told_if_it_is_in_the_own_code(lock: str, files: set[str]) -> None:
    cause = seen_in(set_back_as_it_asks(lock))[1]["false-validity"]
    assert cause.kind == "wall-clock"
    assert {each.file for each in cause.places} == files
    assert all("clock_ns()" in each.text for each in cause.places[-1:])


@pytest.mark.usefixtures("_patched")
def test_a_lock_that_keeps_a_log_does_not_measure_by_the_wall_clock() -> None:
    outcome, causes = seen_in(late("Logs"))
    assert outcome.wall_clock == {}
    assert causes == {}


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
