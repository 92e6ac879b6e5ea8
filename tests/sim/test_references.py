"""What is kept of the reference locks is what they come to, and what a lock is, is found by asking it."""

from __future__ import annotations

import pytest

from lab.batch.for_lock import (
    LEFT_OUT,
    REFERENCES,
    Reference,
    outcome_of,
    references,
    settings_for,
    why_not,
)
from lab.batch.scenario_task import ScenarioTask
from lab.errors import ExitCode, LabError
from lab.locks.broken import SHOWN_BY_SCENARIO
from lab.scenario.load import load_scenario
from lab.search.kind import asks_at_once, kind_of, nodes_asked
from tests.sim.references import needs_at_once, possible, recorded, wanted

pytestmark = pytest.mark.full  # it simulates a part of all scenarios with each reference

FIVE = ("A", "B", "C", "D", "E")
ALONE = ("store-ignores-token",)
"""Broken locks made of one without a reference: `redlock-cas`."""
EVERY = 6
"""`make test` simulates every sixth of what is kept again, `make test-all` the others as well."""
KEPT = [(reference, name) for reference in REFERENCES for name in wanted(reference)]
SOME = KEPT[::EVERY]


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize(
    "kept", [SOME, pytest.param([one for one in KEPT if one not in SOME], marks=pytest.mark.full)]
)
def test_the_outcome_of_a_reference_is_what_it_comes_to(kept: list[tuple[Reference, str]]) -> None:
    for reference, name in kept:
        assert recorded(reference, name, (7,)) == outcome_of(reference, name), (reference, name)


def test_all_scenarios_are_recorded_and_no_other() -> None:
    for reference in REFERENCES:
        assert sorted(references()[reference]) == sorted(wanted(reference)), "python -m tests.sim.references"
    assert set(references()) == {*REFERENCES}
    known = [LEFT_OUT not in outcome_of(reference, name) for reference, name in KEPT]
    assert sum(known) > 0.9 * len(known), "most of them say something"


@pytest.mark.usefixtures("_patched")
def test_scenarios_that_need_all_nodes_at_once() -> None:
    scenarios = {name: load_scenario(name).scenario for name in possible("redlock")}
    of = {name: one.control_of or name for name, one in scenarios.items()}  # a control presupposes the same
    declared = {of[name] for name, one in scenarios.items() if one.presupposes.asks_at_once}
    assert {of[name] for name in scenarios if needs_at_once(name)} == declared


@pytest.mark.parametrize(
    ("lock", "asked", "at_once", "reference"),
    [
        ("single", ("A",), True, "single"),
        ("failover", ("A",), True, "single"),
        ("redlock", FIVE, True, "redlock"),
        ("redlock-sequential", FIVE, False, "redlock"),
        ("redlock-hyperf", FIVE, False, "redlock"),
        ("redlock-fenced", FIVE, True, "redlock-fenced"),
        ("redlock-counter", FIVE, True, "redlock-fenced"),
        ("tests.sim.campaign_locks:OwnConnections", FIVE, True, "redlock"),
        ("tests.sim.campaign_locks:OtherKey", FIVE, True, "redlock"),
        ("tests.sim.campaign_locks:LastThree", ("C", "D", "E"), True, "redlock"),
        ("tests.sim.campaign_locks:Last", ("E",), True, "single"),
    ],
)
def test_a_lock_is_asked_what_it_is(
    lock: str, asked: tuple[str, ...], at_once: bool, reference: Reference
) -> None:
    kind = kind_of(lock)
    assert (kind.nodes, kind.at_once, kind.reference) == (asked, at_once, reference)
    assert nodes_asked(lock) == asked
    assert kind.fences == (reference == "redlock-fenced")
    assert kind.extends == (lock != "redlock-hyperf")
    if len(asked) > 1:
        assert asks_at_once(lock) == at_once


def test_like_decides_what_a_lock_is_compared_with() -> None:
    assert kind_of("redlock", "single").reference == "single"
    for lock, like, words in (
        ("redlock", "sinlge", "did you mean 'single'"),
        ("etcd", None, "a lock on etcd"),
        ("./some-driver", None, "--like single, redlock"),
        ("redlok", None, "did you mean 'redlock'"),
    ):
        with pytest.raises(LabError) as caught:
            kind_of(lock, like)
        assert words in caught.value.render()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if at % EVERY == 0 or name in ALONE else pytest.mark.full)
        for at, name in enumerate(SHOWN_BY_SCENARIO)
    ],
)
def test_a_broken_lock_is_not_as_expected_in_its_scenario(name: str) -> None:
    mutant = SHOWN_BY_SCENARIO[name]
    assert mutant.scenario is not None
    kind, loaded = kind_of(mutant.lock), load_scenario(mutant.scenario)
    reason = why_not(loaded, mutant.lock, kind)
    assert bool(reason) == (name in ALONE), reason
    if not reason:
        task = ScenarioTask.of(
            load_scenario(mutant.scenario, settings_for(loaded, mutant.lock, kind)), mutant.scenario
        )
        with task.session():
            row = task(1)
        assert row.exit_code == ExitCode.UNEXPECTED, row.reasons
        assert mutant.finding in row.findings
