"""The scenarios that come with the lab: they load, say why they exist, and each story has its control."""

from __future__ import annotations

import pytest

from lab.scenario import library
from lab.scenario.load import load_scenario, load_text
from lab.scenario.model import Scenario

NAMES = (*library.names(), *library.consensus_names())
CLEAN = {"ok", "absent"}


def scenario(name: str) -> Scenario:
    return load_scenario(name).scenario


def test_the_stories_that_must_exist_do() -> None:
    stories = {"partition-clockjump", "gc-pause-after-acquire", "gc-pause-in-flight", "pause-before-write"}
    assert {"healthy", *stories, *(f"{story}-control" for story in stories)} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name: str) -> None:
    loaded = scenario(name)
    assert loaded.title.strip()
    assert "\n" not in loaded.title
    assert loaded.source.strip()
    sentences = [part for part in loaded.why.replace("\n", " ").split(". ") if part.strip()]
    assert 3 <= len(sentences) <= 6, sentences
    assert all(1 <= claim <= 21 for claim in loaded.claims)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "healthy"])
def test_a_story_has_a_control_and_a_control_a_story(name: str) -> None:
    loaded = scenario(name)
    if loaded.control_of is None:
        assert [other for other in NAMES if scenario(other).control_of == name] == [f"{name}-control"]
    else:
        assert name == f"{loaded.control_of}-control"
        assert scenario(loaded.control_of).control_of is None


@pytest.mark.parametrize("name", [name for name in NAMES if name == "healthy" or scenario(name).control_of])
def test_what_must_be_clean_expects_nothing_else(name: str) -> None:
    expect = scenario(name).expect
    assert set(expect.outcomes.values()) <= CLEAN
    assert expect.findings is None
    judged = {"mutual_exclusion", "lease_honesty", "fencing", "resource", "deadlock_freedom"}
    assert judged <= set(expect.outcomes)


@pytest.mark.parametrize("name", [name for name in NAMES if scenario(name).control_of])
def test_a_control_differs_in_its_steps_only(name: str) -> None:
    control = scenario(name)
    story = scenario(str(control.control_of))
    for part in ("cluster", "lock", "store", "clients", "key"):
        assert getattr(control, part) == getattr(story, part), part
    assert control.workload == story.workload
    assert (control.steps, control.faults) != (story.steps, story.faults)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_of_a_run_loads_again(name: str) -> None:
    loaded = load_scenario(name)
    again = load_text(loaded.text, "scenario.yaml")
    assert again.scenario == loaded.scenario
    assert again.text == loaded.text
