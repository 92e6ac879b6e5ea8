"""The scenarios that come with the lab: they load, say why they exist, and each scenario has its control."""

from __future__ import annotations

from functools import cache

from lab.locks.broken import SHOWN_BY_SCENARIO
from lab.scenario.files import cluster_names, consensus_names, defect_names, names, sentinel_names
from lab.scenario.load import LoadedScenario, load_scenario, load_text
from lab.scenario.model import Scenario

DEFECTS = defect_names()
NAMES = (*names(), *consensus_names(), *sentinel_names(), *cluster_names())
EVERY = (*NAMES, *DEFECTS)
CLEAN = {"ok", "absent"}
JUDGED = {"mutual_exclusion", "lease_honesty", "fencing", "resource", "deadlock_freedom"}


@cache
def loaded(name: str) -> LoadedScenario:
    """Each file is read once for all rules."""
    return load_scenario(name)


def scenario(name: str) -> Scenario:
    return loaded(name).scenario


@cache
def controls() -> dict[str, str]:
    """Control → its scenario."""
    return {name: str(scenario(name).control_of) for name in NAMES if scenario(name).control_of}


def test_the_scenarios_that_must_exist_do() -> None:
    scenarios = {"partition-clockjump", "gc-pause-after-acquire", "gc-pause-in-flight", "pause-before-write"}
    assert {"healthy", *scenarios, *(f"{of}-control" for of in scenarios)} <= set(NAMES)


def test_each_says_what_it_is() -> None:
    for name in EVERY:
        reported = scenario(name)
        assert reported.title.strip(), name
        assert "\n" not in reported.title, name
        assert reported.source.strip(), name
        sentences = [part for part in reported.why.replace("\n", " ").split(". ") if part.strip()]
        assert 3 <= len(sentences) <= 6, (name, sentences)
        assert all(1 <= claim <= 21 for claim in reported.claims), name


def test_each_scenario_has_one_control_of_its_name() -> None:
    scenarios = {name for name in NAMES if name not in controls() and name != "healthy"}
    assert controls() == {f"{of}-control": of for of in scenarios}


def test_what_must_be_clean_expects_nothing_else() -> None:
    for name in ("healthy", *controls()):
        expect = scenario(name).expect
        assert set(expect.outcomes.values()) <= CLEAN, name
        assert expect.findings is None, name
        assert set(expect.outcomes) >= JUDGED, name


def test_a_scenario_about_a_defect_has_a_lock_as_its_control() -> None:
    """A correct lock passes it; that one with the defect does not is tried with each lock that has it."""
    shown = {mutant.scenario for mutant in SHOWN_BY_SCENARIO.values()}
    for name in DEFECTS:
        reported = scenario(name)
        assert name in shown, name
        assert reported.lock.name in ("redlock", "redlock-fenced"), name
        assert reported.control_of is None, name
        assert set(reported.expect.outcomes.values()) <= CLEAN, name
        assert reported.expect.findings is None, name


def test_a_control_differs_in_its_steps_only() -> None:
    for name, of in controls().items():
        control, disturbed = scenario(name), scenario(of)
        for part in ("cluster", "lock", "store", "clients", "key", "workload"):
            assert getattr(control, part) == getattr(disturbed, part), (name, part)
        assert (control.steps, control.faults) != (disturbed.steps, disturbed.faults), name


def test_what_is_stored_of_a_run_loads_again() -> None:
    for name in EVERY:
        again = load_text(loaded(name).text, "scenario.yaml")
        assert again.scenario == scenario(name), name
        assert again.text == loaded(name).text, name
