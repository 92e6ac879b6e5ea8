"""Each step of each scenario makes a difference, or has its reason; the page that is kept says the same.

`make test` tries one of the scenarios, `make test-all` a third, and `--slow` all of them, as
`lab suite --selftest --scenarios` does.
"""

from __future__ import annotations

import json

import pytest

from lab.errors import ExitCode
from lab.scenario.load import load_scenario, load_text
from lab.scenario.outcomes import actions
from lab.selftest.change_task import (
    ChangeResult,
    ChangeTask,
    Explanations,
    changes_of,
    explanations,
    judged,
    try_change,
)
from lab.selftest.changes import Change, changes, scenario_of, written_in_steps
from tests.lab_process import ROOT, Lab
from tests.shipped import TEXTS

NAMES = [name for name, text in TEXTS.items() if "\nsteps:" in text]
TRIED = ["gc-pause-after-acquire"]
"""Scenarios that `make test` tries."""
ALSO = NAMES[::3]
"""Scenarios that `make test-all` tries."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    if name in TRIED:
        return []
    return [pytest.mark.full] if name in ALSO else [pytest.mark.full, pytest.mark.slow]


@pytest.mark.usefixtures("_patched")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in NAMES])
def test_all_of_it_makes_a_difference_or_has_its_reason(name: str) -> None:
    row = ChangeTask((name,))(0)
    assert row.reasons == ()
    assert row.exit_code == ExitCode.EXPECTED
    assert changes_of(row)


def test_all_that_can_be_changed_are_tried() -> None:
    assert tuple(NAMES) == written_in_steps()


def test_the_page_that_is_kept_has_every_line() -> None:
    text = (ROOT / "docs" / "selftest-scenarios.md").read_text(encoding="utf-8")
    section, kept = "", set()
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").lower()
        elif section and line.startswith("| ") and "`" in line:
            scenario, what = line.strip("| ").split(" | ", 1)
            kept.add((section, scenario, what.strip("`").replace("\\|", "|")))
    known = explanations()
    lines = {(why.lower(), name, what) for name, all_ in known.without.items() for what, why in all_.items()}
    assert kept == lines, "lab suite --selftest --scenarios --markdown docs/selftest-scenarios.md"
    assert {why for _, all_ in known.without.items() for why in all_.values()} == set(known.reasons)


def test_every_line_is_about_a_change_that_there_is() -> None:
    for name, lines in explanations().without.items():
        there = {change.what for change in changes(name)}
        assert {what for what in lines if what.startswith(("without", "until"))} <= there, name


def test_a_hole_is_told_and_a_line_out_of_date_too() -> None:
    rows = [ChangeResult("one", "fault", "a", "survived"), ChangeResult("one", "fault", "b", "noticed")]
    known = Explanations({"r": "why"}, {"one": {"b": "r"}, "other": {"c": "r"}})
    row = judged("one", 0, rows, known)
    assert row.exit_code == ExitCode.UNEXPECTED
    assert row.reasons == (
        "a hole, nothing notices this change: a",
        "noticed, or no change: its line in decoration.yaml is out of date: b",
    )
    explained = Explanations({"r": "why"}, {"one": {"a": "r"}})
    assert judged("one", 0, rows, explained).exit_code == ExitCode.EXPECTED


@pytest.mark.usefixtures("_patched")
def test_a_scenario_that_expects_little_notices_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the outcomes of its operations, extension-limit says the same of a lock without the limit."""
    scenario = scenario_of("extension-limit")
    lax = scenario.expect.model_copy(update={"operations": None})
    limit = scenario.lock.model_copy(update={"options": {**scenario.lock.options, "max_extensions": 4}})
    changed = scenario.model_copy(update={"lock": limit})
    row = try_change(Change("extension-limit", "option", "limit", changed))
    assert (row.result, row.by) == ("noticed", "alice extends (4 of 4): ok, not refused")
    monkeypatch.setattr("lab.selftest.change_task.versions", lambda name: ())
    row = try_change(Change("extension-limit", "option", "limit", changed.model_copy(update={"expect": lax})))
    assert (row.result, row.differs) == ("survived", ("alice extends: ok, not refused",))


def test_what_is_impossible_without_a_step_goes_with_it() -> None:
    (left,) = (one for one in changes("majority-down") if one.what.startswith("without: crash"))
    assert not any(step.KEY == "restart" for step in left.changed.steps)
    (left,) = (one for one in changes("gc-pause-after-acquire") if one.what == "without: start: alice writes")
    assert "alice writes" not in map(str, actions(left.changed.steps))
    assert left.missed == "alice writes"


def test_a_file_that_is_changed_is_loaded_as_such() -> None:
    text = load_scenario("majority-down").text
    assert load_text(text, "again.yaml").scenario == load_scenario("majority-down").scenario


@pytest.mark.full
def test_the_command_tells_it_all(lab: Lab) -> None:
    run = lab("suite", "--selftest", "--scenarios", "--only", "healthy", "--json", "--markdown", "page.md")
    assert run.code == 0, run.out + run.err
    reported = json.loads(run.out)
    (cell,) = reported["cells"]
    assert cell["id"] == "healthy/redlock/sim"
    assert [one["result"] for one in cell["rows"][0]["facts"]["changes"]] == ["noticed"] * 3
    assert "# What can go from the scenarios" in (lab.directory / "page.md").read_text()
    wrong = lab("suite", "--selftest", "--scenarios", "--only", "helthy")
    assert wrong.code == 2
    assert "did you mean 'healthy'?" in wrong.err
