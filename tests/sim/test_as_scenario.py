"""Trials told as scenarios: each of them comes out in steps as it did in the trial, whatever the seed is."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from lab.faults.client_crash import ClientCrash
from lab.faults.hold import Hold
from lab.faults.pause import Pause
from lab.scenario.model import Scenario
from lab.scenario.steps import Acquire
from lab.scenario.triggers import SENDS, on
from lab.search.as_scenario import NotExpressible, scenarios_of
from lab.search.confirm import best_replayed
from lab.search.faults import timed_fault
from lab.search.runner import run_trial, trials
from lab.search.suspicion import named
from lab.search.trial import Round, Trial
from tests.sim.shown_trials import ALL, CASES, MS_NS, OPTIONS, S_NS
from tests.sim.test_search_runner import drawn

pytestmark = pytest.mark.full  # each schedule is simulated many times; test_search.py is in the first part

ENOUGH, OF = 6, 8


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
        scenarios = scenarios_of(trial, finding, command="lab search")
    scenario, replay = best_replayed(scenarios, name, OF)
    assert len(replay.seeds) >= ENOUGH, replay.sentence
    assert SENDS not in {each.operation for timed in scenario.every_timed for each in timed.triggers}
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
CANCELLED: Final = Trial(
    "mutant:retry-without-unlock",
    {"alice": (Round(0, 0, cancel_ns=300_000),), "bob": ()},
    demand_ns=9 * S_NS,
    options=OPTIONS,
)
TWICE: Final = Trial(
    "mutant:bare-del",
    {"alice": (Round(0, S_NS, ends="twice"), Round(S_NS, S_NS)), "bob": (Round(1100 * MS_NS, 3 * S_NS),)},
    (timed_fault(Hold, on("alice", "release invoke", 2), "alice", ALL, 0, 300 * MS_NS, "requests"),),
    options=OPTIONS,
)


@pytest.mark.parametrize(
    ("trial", "finding", "said"),
    [(CANCELLED, "unavailable", {"acquire": "cancel"}), (TWICE, "overlap", {"release": "again"})],
)
def test_a_cancelled_acquire_and_a_second_release_are_told_and_replay(
    trial: Trial, finding: str, said: dict[str, str]
) -> None:
    with trials():
        scenarios = scenarios_of(trial, finding, command="lab search")
    scenario, replay = best_replayed(scenarios, "told", OF)
    ((action, field),) = said.items()
    actions = scenario.model_dump(mode="json", exclude_none=True)["tracks"]["alice"]
    assert any(field in one.get(action, {}) for one in actions)
    assert len(replay.seeds) >= ENOUGH, replay.sentence


def test_what_is_not_shown_is_refused_with_the_reason() -> None:
    trial = Trial("redlock", ROUNDS, options=OPTIONS)
    with trials(), pytest.raises(NotExpressible, match="does not show overlap"):
        scenarios_of(trial, "overlap", command="lab search")


def told(name: str) -> Scenario:
    finding, trial = CASES[name]
    with trials():
        return scenarios_of(trial, finding, command="lab search")[0]


def test_a_fault_in_the_middle_of_an_operation_waits_for_how_far_that_was() -> None:
    hold, jump = told("a client's clock jumps back on the way").tracks["faults"]
    assert hold.at is None or hold.at.default
    assert hold.until is not None
    assert (hold.until.track, hold.until.event) == ("faults", "jump ok")
    assert jump.at is not None
    assert jump.at.event == "acquire invoke"
    assert jump.at.after_ns == 200 * MS_NS
    cut, crash = told("killed before any reply").tracks["faults"]
    assert crash.at is not None
    assert (crash.at.event, crash.at.nth) == ("acquire invoke", 2)
    assert cut.until is not None
    assert cut.until.event == "client_crash ok"


def test_a_client_that_asks_again_and_again_does_so_in_one_action() -> None:
    for name in ("nothing is released", "all nodes are needed and one is away"):
        acquires = [step for step in told(name).every_step if isinstance(step, Acquire)]
        trial = CASES[name][1]
        with trials():
            asked = [each["f"] for each in run_trial(trial).events if each["type"] == "invoke"]
        (insists_ns,) = filter(None, (each.insist_ns for each in acquires))
        assert 2 * S_NS < insists_ns < trial.demand_ns, "as long as it must be"
        assert len(acquires) == 2 < asked.count("acquire")


def test_times_are_told_to_the_millisecond() -> None:
    scenario = told("both leave keys when they are refused")
    triggers = [
        each for timed in scenario.every_timed for each in (timed.at, timed.until) if each is not None
    ]
    times_ns = [each.after_ns for each in triggers]
    times_ns += [step.insist_ns or 0 for step in scenario.every_step if isinstance(step, Acquire)]
    assert sum(time_ns > 0 for time_ns in times_ns) > 4
    assert [time_ns for time_ns in times_ns if time_ns % MS_NS] == []


@pytest.mark.full
def test_to_watch_a_trial_changes_nothing_in_it() -> None:
    pause = timed_fault(Pause, on("alice", "acquire invoke"), "alice", lasts_ns=S_NS)
    crash = timed_fault(ClientCrash, on("alice", "acquire invoke"), "alice")
    stopped = [Trial("redlock", ROUNDS, (fault,), options=OPTIONS) for fault in (pause, crash)]
    for trial in (*stopped, *drawn("redlock", 20, 5, everything=True)):
        with trials():
            alone, watched = (run_trial(trial, watch=watch).events for watch in (False, True))
        assert alone == [{k: v for k, v in event.items() if k != "_nodes"} for event in watched]
