"""Trials told as scenarios: each of them comes out in steps as it did in the trial, whatever the seed is."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from lab.scenario.model import Scenario
from lab.search.as_scenario import candidate_scenarios, scenario_of
from lab.search.confirm import replayed
from lab.search.relevant import NotExpressible
from lab.search.runner import run_trial, trials
from lab.search.suspicion import named
from lab.search.trial import Fault, Round, Trial, When
from tests.sim.shown_trials import ALL, CASES, MS_NS, OPTIONS, S_NS
from tests.sim.test_search_runner import drawn

pytestmark = pytest.mark.full  # each schedule is simulated many times; test_search.py is in the first part

ENOUGH, OF = 6, 8


def steps_of(scenario: Scenario) -> list[tuple[str, object]]:
    return [next(iter(step.items())) for step in scenario.model_dump(mode="json")["steps"]]


SOON: Final = (
    "an extension that adds up",
    "a client's clock jumps back on the way",
    "killed before any reply",
    "a client stands still as it sends",
    "the release is lost with its connections",
)
"""Those that are tried in the short part: one for each way of placing a fault."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SOON else pytest.mark.full) for name in CASES]
)
def test_what_is_told_replays(name: str) -> None:
    finding, trial = CASES[name]
    with trials():
        reported = candidate_scenarios(trial, finding, command="lab search")
    scenario, replay = replayed(reported, name, OF)
    assert len(replay.seeds) >= ENOUGH, replay.sentence
    assert scenario.expect.findings == (finding,)
    assert list(scenario.expect.outcomes.values()) == ["violated"]


@pytest.mark.parametrize("name", CASES)
def test_without_the_defect_the_same_trial_does_not_show_it(name: str) -> None:
    """What a test of telling shows is the lock's, and not the writer's."""
    finding, trial = CASES[name]
    if trial.lock.startswith("mutant:store") or trial.lock == "redlock":
        pytest.skip("the schedule breaks the real lock as well, or it is the store that is broken")
    with trials():
        sound = named(run_trial(replace(trial, lock="redlock")))
    assert finding not in {each.name for each in sound if each.severity == "violation"}


ROUNDS: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 0),), "bob": (Round(300 * MS_NS, 0),)}


def test_what_has_no_step_is_refused_with_the_reason() -> None:
    cancelled = Trial(
        "mutant:retry-without-unlock",
        {"alice": (Round(0, 0, cancel_ns=300_000),), "bob": ()},
        demand_ns=9 * S_NS,
        options=OPTIONS,
    )
    twice = Trial(
        "mutant:bare-del",
        {
            "alice": (Round(0, S_NS, ends="twice"), Round(S_NS, S_NS)),
            "bob": (Round(1100 * MS_NS, 3 * S_NS),),
        },
        (Fault("hold", When("releases", "alice", 2), "alice", ALL, 0, 300 * MS_NS, "requests"),),
        options=OPTIONS,
    )
    for trial, finding, why in (
        (cancelled, "unavailable", "alice's acquire is cancelled"),
        (twice, "overlap", "alice releases one grant twice"),
        (Trial("redlock", ROUNDS, options=OPTIONS), "overlap", "does not show overlap"),
    ):
        with trials(), pytest.raises(NotExpressible, match=why):
            scenario_of(trial, finding, command="lab search")


def first_telling(name: str) -> list[tuple[str, object]]:
    finding, trial = CASES[name]
    with trials():
        return steps_of(scenario_of(trial, finding, command="lab search"))


def test_where_a_fault_struck_in_the_middle_of_an_operation_says_where_its_step_stands() -> None:
    words = [word for word, _ in first_telling("a client's clock jumps back on the way")]
    assert words == ["hold", "start", "until", "wait", "jump", "wait", "heal", "finish"]
    steps = first_telling("killed before any reply")
    assert [word for word, _ in steps][:6] == ["do", "cut", "start", "until", "wait", "client_crash"]
    assert steps[3] == ("until", {"executed": "SET", "nodes": list(ALL), "times": 1, "within": "10s"})
    steps = first_telling("a client stands still as it sends")
    assert [word for word, _ in steps][:6] == ["do", "hold", "start", "wait", "heal", "finish"]


def test_a_series_of_vain_acquires_is_as_long_as_it_must_be() -> None:
    for name, spacing in (("nothing is released", "0.8s"), ("all nodes are needed and one is away", "0.8s")):
        steps = first_telling(name)
        said = str([body for word, body in steps if word == "do"])
        with trials():
            asked = [each["f"] for each in run_trial(CASES[name][1]).events if each["type"] == "invoke"]
        assert 6 <= said.count("acquires") <= 12 < asked.count("acquire")
        assert spacing in {body for word, body in steps if word == "wait"}


@pytest.mark.full
def test_to_watch_a_trial_changes_nothing_in_it() -> None:
    pause = Fault("pause", When("asks", "alice"), "alice", lasts_ns=S_NS)
    crash = Fault("client_crash", When("asks", "alice"), "alice")
    stopped = [Trial("redlock", ROUNDS, (fault,), options=OPTIONS) for fault in (pause, crash)]
    for trial in (*stopped, *drawn("redlock", 20, 5, everything=True)):
        with trials():
            alone, watched = (run_trial(trial, watch=watch).events for watch in (False, True))
        assert alone == [{k: v for k, v in event.items() if k != "_nodes"} for event in watched]
