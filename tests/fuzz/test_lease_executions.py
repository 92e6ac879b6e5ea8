"""The lease model against executions that nothing of the lab made; `--hypothesis-profile=long`: a million."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import settings

from checker.check import check
from checker.history.events import Event, Params
from checker.history.history import History
from checker.verdict import Property, Verdict
from tests.fuzz.lease_executions import DRIFT_NS, EPSILON_NS, RHO, TTL_NS, Execution, Fault, executions
from tests.fuzzing import DEFAULT, examples

TOGETHER = 400 if settings.get_current_profile_name() == DEFAULT else 1_000
"""Executions in one history: keys are independent, and one check of many costs less than many checks."""
PARAMS = Params(rho=RHO, epsilon_ns=EPSILON_NS, stall_ns=3_600_000_000_000)
LOSS_NS = 4 * EPSILON_NS + int(4 * RHO * TTL_NS)
"""An overlap longer than that must be seen: stamps blur both ends twice, and rates are allowed for."""


def judged(some: list[Execution]) -> Verdict:
    events: list[Event] = [event for execution in some for event in execution.events]
    return check(
        History.from_events(sorted(events, key=lambda event: event.time_ns), PARAMS, has_header=False)
    )


def accused(some: list[Execution]) -> set[str]:
    """The keys of the executions in which two grants are said to have been held at once."""
    found = judged(some).named("overlap")
    keys = {str(finding.key) for finding in found}
    if len(found) < 10:
        return keys
    if len(some) == 1:
        return {str(some[0].events[0].key)}
    half = len(some) // 2  # only the first few are listed
    return accused(some[:half]) | accused(some[half:])


def test_no_execution_within_the_assumptions_is_accused() -> None:
    rounds = examples(20)  # times fifty in the long profile: a million executions
    granted = together = 0
    for seed in range(rounds):
        some = list(executions(seed, TOGETHER))
        assert max(e.overlap_ns for e in some) <= 0, "the executions themselves are wrong"
        verdict = judged(some)
        for name in (Property.MUTUAL_EXCLUSION, Property.LEASE_HONESTY, Property.DEADLOCK_FREEDOM):
            assert verdict[name].violations == (), (seed, verdict[name])
        granted += sum(len(e.holds) for e in some)
        together += sum(len(e.holds) > 1 for e in some)
    assert granted > TOGETHER * rounds  # they do get the lock, and many of them one after the other
    assert together > TOGETHER * rounds // 4


@pytest.mark.parametrize("fault", get_args(Fault))
def test_every_overlap_that_stamps_can_show_is_found(fault: Fault) -> None:
    rounds = examples(4)
    clear = 0
    for seed in range(rounds):
        some = list(executions(10_000 + seed, TOGETHER, fault))
        found = accused(some)
        truly = {str(e.events[0].key): e.overlap_ns for e in some if e.events}
        missed = {key for key, overlap_ns in truly.items() if overlap_ns > LOSS_NS} - found
        assert missed == set(), (seed, missed)
        assert {key for key in found if truly[key] <= 0} == set(), seed
        clear += sum(overlap_ns > LOSS_NS for overlap_ns in truly.values())
    assert clear > TOGETHER * rounds // 50


def test_a_client_takes_off_what_the_clocks_may_err() -> None:
    assert (TTL_NS - DRIFT_NS) / (1 - RHO) < TTL_NS / (1 + RHO)
