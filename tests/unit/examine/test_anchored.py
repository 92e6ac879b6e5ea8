"""Schedules whose actions wait for events: what there is of them, and what they find alone."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from lab.examine.examination import Examination, tried
from lab.examine.ledger.finders import all_violations
from lab.examine.profile.learn import learn
from lab.examine.profile.probes import Profile
from lab.examine.programs import ALICE, Setting
from lab.examine.result import Defect, Part
from lab.examine.schedules.anchored import ANCHORED, anchored, bases
from lab.examine.violations.judge import labels
from lab.faults.hold import Hold
from lab.search.as_scenario import scenarios_of
from lab.search.command import OPTIONS
from lab.search.loop import Budget
from lab.search.plainer_tracks import fits
from lab.search.runner import Outcome, Wire, run_trial, trials
from lab.search.trial import Trial
from lab.search.workers import Workers

pytestmark = pytest.mark.usefixtures("_patched")

MOST = 1200
"""As many schedules as are all without faults, and as many again with one."""
ORDER = 1
"""The seed of the order of those with faults: a wall clock shows in few of them, in other orders later."""


REDLOCK = Setting("redlock", OPTIONS)


@cache
def of_redlock() -> Profile:
    """What is learnt of Redlock."""
    with trials():
        return learn(REDLOCK)


@cache
def plain() -> list[Trial]:
    """Those of Redlock that have no faults."""
    with trials():
        return list(bases(REDLOCK, of_redlock()))


@cache
def first() -> tuple[list[Trial], dict[bytes, Outcome]]:
    """Of Redlock's, all without faults, and 300 with one; and what came of each that was run for that."""
    ran: dict[bytes, Outcome] = {}

    def noted(trial: Trial, wire: Wire = "direct", *, watch: bool = False) -> Outcome:
        ran[trial.key()] = outcome = run_trial(trial, wire, watch=watch)
        return outcome

    with trials(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("lab.examine.schedules.anchored.run_trial", noted)
        found = list(islice(anchored(REDLOCK, of_redlock(), Random(0)), len(plain()) + 300))
    return found, ran


@cache
def defect(lock: str) -> Defect | None:
    """The first defect that these schedules show."""
    with closing(Workers(tried, 1)) as workers, trials():
        setting = Setting(lock, OPTIONS)
        profile = learn(setting)
        one = Examination(profile.kind, dict(OPTIONS), Budget(3600), workers=workers)
        part = Part(ANCHORED, "")
        one.parts.append(part)
        found = islice(anchored(setting, profile, Random(ORDER)), MOST)
        for _ in one.try_each((part, each) for each in found):
            if one.defects:
                return one.defects[0]
    return None


def test_each_is_another_one_and_waits_for_what_can_come() -> None:
    found, _ = first()
    assert len({each.key() for each in found}) == len(found) == len(plain()) + 300
    assert all(map(fits, found))
    assert not any(each.faults or any(each.clients.values()) for each in found)


def test_those_without_faults_come_first_and_a_correct_lock_is_clean_in_them() -> None:
    found, ran = first()
    assert found[: len(plain())] == plain()
    outcomes = [ran[each.key()] for each in plain()]
    assert {type(fault.step) for outcome in outcomes for fault in outcome.struck} == {Hold}, (
        "of cancelled calls"
    )
    assert [list(all_violations(outcome)) for outcome in outcomes if all_violations(outcome)] == []


def test_of_each_sort_of_fault_there_is_one_before_there_is_a_second_one() -> None:
    hurt = first()[0][len(plain()) :]
    struck = [
        timed
        for each in hurt
        for name, track in each.tracks.items()
        for timed in track
        if name.startswith("faults") and timed.at is not None
    ]
    kinds = {timed.step.KEY for timed in struck}
    assert {"cut", "hold", "delay", "pause", "crash", "reset", "client_crash", "jump"} <= kinds
    ends = [timed.until for timed in struck if timed.until is not None and not timed.until.default]
    assert {(end.track, end.event) for end in ends} >= {("bob", "granted"), ("alice", "released")}
    assert {each.nodes for each in hurt} == {3, 4, 5, 6, 7}
    assert any(labels(each) for each in hurt)
    assert any(not labels(each) for each in hurt)


@pytest.mark.parametrize(
    ("lock", "cause"),
    [
        ("mutant:bare-del", "deletes-others-key"),
        ("mutant:counts-refusals", "too-few-votes"),
        pytest.param("mutant:needs-all-nodes", "needs-all-nodes", marks=pytest.mark.full),
        pytest.param("mutant:wall-clock", "wall-clock", marks=pytest.mark.full),
    ],
)
def test_a_broken_lock_is_found_by_them_alone(lock: str, cause: str) -> None:
    found = defect(lock)
    assert found is not None
    assert (found.cause, found.reproduced >= 18) == (cause, True)


def test_what_they_find_is_a_scenario_without_a_word_changed() -> None:
    found = defect("mutant:bare-del")
    assert found is not None
    with trials():
        scenario = scenarios_of(found.trial, found.findings[0], command="lab test")[0]
    assert {name for name in scenario.tracks if name in found.trial.tracks} == set(found.trial.tracks)
    assert all(scenario.tracks[name][: len(track)] == track for name, track in found.trial.tracks.items())


@pytest.mark.parametrize("reentrant", [False, True])
def test_of_a_lock_that_counts_its_holder_may_not_take_it_again(reentrant: bool) -> None:
    with trials():
        found = list(bases(replace(REDLOCK, reentrant=reentrant), of_redlock()))
    assert any(f"{ALICE}/2" in each.tracks for each in found) is not reentrant
    kept = [each for each in found if all(timed.step.KEY != "release" for timed in each.tracks[ALICE])]
    assert bool(kept) is not reentrant
    assert any(each.demand_ns for each in found) is not reentrant
