"""Recordings of several hosts: no correct lock is accused while clocks err within their bound."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from checker import check
from checker.formats.together import joined
from checker.history.history import History
from checker.history.recordings import Recordings
from checker.live.judge import Judge
from checker.verdict import Finding, Outcome, Property, Severity
from tests.fuzz.lease_counts import PROMISES
from tests.fuzz.recorded_executions import handed_over, recordings
from tests.fuzzing import examples

pytestmark = pytest.mark.full
MS = 1_000_000
EXCLUSION = Property.MUTUAL_EXCLUSION


def followed(histories: dict[str, History]) -> list[Finding]:
    """What is said of recordings while they grow."""
    together = Recordings()
    read = [(together.add(title, one.recorder, one.params), one) for title, one in histories.items()]
    together.begin()
    events = []
    for recording, history in read:
        events += [e for event in history.events() if (e := together.placed(recording, event)) is not None]
        events += together.end(recording, in_order=not history.problems)
    events.sort(key=lambda event: event.time_ns)
    judge = Judge(structs.replace(together.params, epsilon_ns=together.epsilon_ns))
    found = [finding for event in events for finding in judge.feed(event)]
    return found + judge.end()


ERRORS_MS = st.sampled_from([0, 1, 20, 300, 2_000])


def accusations(histories: dict[str, History]) -> list[Finding]:
    """What the whole recordings are accused of, and what is said while they grow."""
    verdict = check(joined(histories))
    violations = [finding for finding in followed(histories) if finding.severity is Severity.VIOLATION]
    return violations + [finding for name in PROMISES for finding in verdict[name].violations]


@given(
    seed=st.integers(0, 2**32),
    error_ms=ERRORS_MS,
    whole=st.booleans(),
    mixed=st.booleans(),
    hosts=st.integers(1, 3),
)
@settings(max_examples=examples(60))
def test_no_correct_lock_is_accused(seed: int, error_ms: int, whole: bool, mixed: bool, hosts: int) -> None:
    error_ns = error_ms * MS
    for world, histories in recordings(
        Random(seed), 10, error_ns=error_ns, bound_ns=error_ns, whole=whole, mixed=mixed, hosts=hosts
    ):
        assert world.execution.overlap_ns <= 0, "the execution itself is wrong"
        assert accusations(histories) == []


@given(seed=st.integers(0, 2**32), error_ms=ERRORS_MS, whole=st.booleans(), hosts=st.integers(1, 3))
@settings(max_examples=examples(300))
def test_no_lock_that_is_handed_over_at_once_is_accused(
    seed: int, error_ms: int, whole: bool, hosts: int
) -> None:
    error_ns = error_ms * MS
    histories = handed_over(Random(seed), error_ns=error_ns, bound_ns=error_ns, whole=whole, hosts=hosts)
    assert accusations(histories) == []


def test_a_clock_beyond_its_bound_gets_a_correct_lock_accused() -> None:
    """Without which the properties would hold for a checker that never accuses."""
    outcomes = []
    for seed in range(150):
        histories = handed_over(Random(seed), error_ns=300 * MS, bound_ns=MS, whole=True, hosts=3)
        outcomes.append(check(joined(histories), only=[EXCLUSION])[EXCLUSION].outcome)
    assert outcomes.count(Outcome.VIOLATED) > 10


@pytest.mark.parametrize("error_ms", [0, 5])
def test_overlaps_longer_than_the_clocks_blur_are_found(error_ms: int) -> None:
    random, clear = Random(8), 0
    for world, histories in recordings(
        random, 300, error_ns=error_ms * MS, bound_ns=error_ms * MS, fault="forget", set_at_all=False
    ):
        history = joined(histories)
        verdict = check(history, only=[EXCLUSION])[EXCLUSION]
        if world.execution.clear_ns > 4 * history.params.epsilon_ns + 50 * MS:
            clear += 1
            assert verdict.outcome is Outcome.VIOLATED
        if verdict.outcome is Outcome.VIOLATED:
            assert world.execution.overlap_ns > 0
    assert clear > 3


def test_without_a_bound_nothing_follows_from_what_hosts_did_one_after_another() -> None:
    random = Random(9)
    for _, histories in recordings(random, 60, error_ns=5 * MS, bound_ns=None, fault="forget"):
        history = joined(histories)
        verdict = check(history)
        if history.several_clocks:
            assert verdict[EXCLUSION].outcome is Outcome.UNKNOWN
            assert followed(histories) == []
