"""The lease model against executions that nothing of the lab made; `--hypothesis-profile=long`: a million."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest
from hypothesis import settings

from tests.fuzz.lease_counts import PROMISES, beyond, judged, within
from tests.fuzz.lease_executions import RHO, TTL_NS, Fault, drift_ns, executions
from tests.fuzzing import DEFAULT, examples

pytestmark = pytest.mark.full

TOGETHER = 400 if settings.get_current_profile_name() == DEFAULT else 1_000
"""Executions in one history: keys are independent, and one check of many costs less than many checks."""


def test_no_execution_within_the_assumptions_is_accused() -> None:
    rounds = examples(20)  # times fifty in the long profile: a million executions
    granted = together = 0
    for seed in range(rounds):
        some = list(executions(seed, TOGETHER))
        assert max(e.overlap_ns for e in some) <= 0, "the executions themselves are wrong"
        verdict = judged(some)
        for name in PROMISES:
            assert verdict[name].violations == (), (seed, verdict[name])
        granted += sum(len(e.holds) for e in some)
        together += sum(len(e.holds) > 1 for e in some)
    assert granted > TOGETHER * rounds  # they do get the lock, and many of them one after the other
    assert together > TOGETHER * rounds // 4


def test_no_execution_with_leases_of_mixed_length_is_accused() -> None:
    counts: Counter[str] = Counter()
    for seed in range(examples(5)):
        within(30_000 + seed, TOGETHER, counts, mixed=True)
    assert counts["accused"] == 0
    assert counts["with two grants or more"] > counts["executed"] // 4


@pytest.mark.parametrize("rho", [RHO, 0.0])
@pytest.mark.parametrize("fault", get_args(Fault))
def test_every_overlap_that_stamps_can_show_is_found(fault: Fault, rho: float) -> None:
    counts: Counter[str] = Counter()
    for seed in range(examples(2)):
        beyond(10_000 + seed, TOGETHER, counts, fault, rho)
    assert counts["of these missed"] == counts["accused without an overlap"] == 0
    assert counts["of these found"] > counts["executed"] // 50


def test_a_client_takes_off_what_the_clocks_may_err() -> None:
    assert (TTL_NS - drift_ns()) / (1 - RHO) < TTL_NS / (1 + RHO)
