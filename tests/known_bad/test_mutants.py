"""Broken locks are caught, and for the right reason; the real ones pass the same scenarios."""

from __future__ import annotations

import json
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

import lab.locks.broken
from lab.batch.engine import Batch
from lab.batch.junit import junit
from lab.batch.result import Result
from lab.batch.row import Row
from lab.errors import ExitCode, LabError
from lab.locks import BUILT_IN, lock_class
from lab.locks.broken import CAUSES, MUTANTS, SHOWN_BY_SCENARIO, Mutant, grants
from lab.locks.redlock import Redlock
from lab.scenario.files import defect_names, names
from lab.scenario.load import load_scenario
from lab.selftest.mutants import Catch, SelftestTask, blank, by_scenario, by_search
from lab.selftest.pages import mutants_page
from lab.selftest.run import Trials, of_locks, scenarios_within_assumptions
from tests.known_bad import test_failures, test_quorums, test_rewritten, test_singles
from tests.lab_process import ROOT, Lab

SCENARIOS = defect_names()
ON_SERVERS: dict[str, Any] = {
    "bare-del": (),
    "extend-reacquires": pytest.mark.full,
    "store-ignores-fence": pytest.mark.full,
}
"""Mutants that are run on real servers in both parts of the tests; the others are on demand."""


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize("name", SHOWN_BY_SCENARIO)
def test_a_mutant_is_caught_by_the_finding_it_must_give(name: str) -> None:
    row = by_scenario(MUTANTS[name], 1)
    assert row.result == "caught", row.reasons
    assert row.witness
    assert row.why


def test_the_table_that_is_kept_has_them_all_and_says_that_they_were_caught() -> None:
    text = (ROOT / "docs" / "selftest.md").read_text(encoding="utf-8")
    kept = [line.split(" | ")[:4] for line in text.splitlines() if line.startswith("| ")][2:]
    task = SelftestTask(tuple(SHOWN_BY_SCENARIO))
    rows = [blank(mutant, way) for mutant, way in task.ways]
    cells = [[f"| {row.mutant}", row.breaks.replace("|", "\\|"), row.by, row.finding] for row in rows]
    assert sorted(kept) == sorted(cells), "lab suite --selftest --full --markdown docs/selftest.md"
    assert f"{len(SHOWN_BY_SCENARIO)} of {len(SHOWN_BY_SCENARIO)} broken locks are caught" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTANTS if MUTANTS[name].search])
def test_a_search_catches_it_as_well(name: str) -> None:
    row = by_search(MUTANTS[name], 1)
    assert row.result == "caught", row.reasons
    assert row.schedules >= 1


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=ON_SERVERS.get(n, pytest.mark.slow)) for n in SHOWN_BY_SCENARIO]
)
def test_a_mutant_is_caught_on_real_servers(lab: Lab, name: str) -> None:
    mutant = MUTANTS[name]
    run = lab("run", str(mutant.scenario), "--lock", mutant.lock, "--on", "local", "--picture", "unexpected")
    assert run.code == 1, run.out + run.err
    assert mutant.finding in run.findings


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_real_lock_is_clean_there_too(lab: Lab, scenario: str) -> None:
    run = lab("run", scenario, "--on", "local", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch) -> Mutant:
    """A mutant that is the real lock."""
    monkeypatch.setattr(grants, "Harmless", Redlock, raising=False)
    mutant = Mutant(
        "harmless", "grants", "overlap", "too-few-votes", scenario="two-minorities", search=("cut",)
    )
    monkeypatch.setitem(lab.locks.broken.MUTANTS, mutant.name, mutant)
    return mutant


@pytest.mark.usefixtures("_patched")
def test_a_lock_that_is_not_broken_survives(harmless: Mutant) -> None:
    row = by_scenario(harmless, 1)
    assert (row.result, row.exit_code) == ("survived", ExitCode.UNEXPECTED)
    assert "overlap was not found, only: nothing" in row.reasons[0]


@pytest.mark.usefixtures("_patched")
def test_another_finding_does_not_count() -> None:
    other = changed(MUTANTS["quorum-off-by-one"], finding="leak")
    row = by_scenario(other, 1)
    assert row.result == "survived"
    assert "leak was not found, only: overlap" in row.reasons[0]


@pytest.mark.usefixtures("_patched")
def test_a_scenario_that_the_real_lock_does_not_pass_proves_nothing() -> None:
    real = MUTANTS["quorum-off-by-one"].lock
    other = changed(MUTANTS["counts-silence"], real=real)
    row = by_scenario(other, 1)
    assert (row.result, row.exit_code) == ("control", ExitCode.UNEXPECTED)


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_a_run_without_a_verdict_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    late = changed(MUTANTS["set-without-expiry"], scenario="after-the-keys")
    row = by_scenario(late, 1)  # its keys never go, so the scenario never comes to its end
    assert (row.result, row.exit_code) == ("unknown", ExitCode.UNKNOWN)


def test_they_are_no_locks_to_choose_from(lab: Lab) -> None:
    assert not set(MUTANTS) & set(BUILT_IN)
    assert not set(SCENARIOS) & set(names())
    assert "mutant" not in lab("list").out
    with pytest.raises(LabError) as caught:
        lock_class("mutant:bare-dell")
    assert caught.value.hint == "did you mean 'mutant:bare-del'?"
    with pytest.raises(LabError):
        of_locks(["bare-dell"], Trials())


def test_there_are_enough_and_each_scenario_is_used() -> None:
    assert len(MUTANTS) >= 89
    assert len(SHOWN_BY_SCENARIO) >= 49
    assert {mutant.scenario for mutant in SHOWN_BY_SCENARIO.values()} >= set(SCENARIOS)
    assert len({mutant.place for mutant in MUTANTS.values()}) == len(MUTANTS)
    assert {cause for mutant in MUTANTS.values() for cause in mutant.causes} == set(CAUSES)
    for name in SCENARIOS:
        assert "violated" not in load_scenario(name).scenario.expect.outcomes.values()


def test_each_without_a_scenario_is_shown_step_by_step() -> None:
    pages = test_singles, test_rewritten, test_quorums, test_failures
    shown = [name for page in pages for name in page.SITUATIONS]
    assert len(shown) == len(set(shown))
    assert set(shown) == set(MUTANTS) - set(SHOWN_BY_SCENARIO)
    for name in shown:
        with pytest.raises(LabError, match="has no scenario"):
            by_scenario(MUTANTS[name], 1)
    with pytest.raises(LabError):
        of_locks(shown[:1], Trials())


def test_the_scenarios_within_the_assumptions_expect_nothing_bad() -> None:
    scenarios = scenarios_within_assumptions()
    assert {"healthy", "gc-pause-in-flight", "partition-clockjump-control"} <= set(scenarios)
    assert "partition-clockjump" not in scenarios
    assert "chaos" not in scenarios


@pytest.mark.full
def test_the_command_tells_it_all(lab: Lab) -> None:
    run = lab(
        "suite",
        "--selftest",
        *("--only", "undo-by-bare-del", "--only", "mutant:late-set-not-undone"),
        *("--simulated", "12", "--json", "--markdown", "table.md"),
    )
    assert run.code == 0, run.out + run.err
    reported = json.loads(run.out)
    facts = [row["facts"] for cell in reported["cells"][:3] for row in cell["rows"]]
    assert [(one["by"], one["result"]) for one in facts] == [
        ("search: delay", "caught"),
        ("second-comer", "caught"),
        ("late-set", "caught"),
    ]
    assert (reported["cells"][3]["id"], reported["cells"][3]["runs"]) == ("schedules/redlock/sim", 12)
    table = (lab.directory / "table.md").read_text()
    assert "| late-set-not-undone |" in table
    assert "accused in 0 of 12 runs" in table


def selftest(*rows: Row) -> Result:
    """What these rows come to: the first of a mutant, the others of the real lock."""
    test = of_locks(["bare-del"], Trials(simulated=len(rows) - 1))
    ids = [item.id for item in test.plan.items]
    return Result.of(test.plan, [replace(row, item=ids[min(at, 1)]) for at, row in enumerate(rows)])


@pytest.mark.parametrize(
    ("result", "real", "code"),
    [
        ("caught", 0, 0),
        ("survived", 0, 1),
        ("control", 0, 1),
        ("unknown", 0, 3),
        ("caught", 1, 1),
        ("caught", 3, 3),
        ("unknown", 1, 1),
    ],
)
def test_exit_codes(
    result: Literal["caught", "survived", "control", "unknown"], real: int, code: int
) -> None:
    catch = Catch("bare-del", "b", "s", "overlap", result, reasons=() if result == "caught" else ("why",))
    ended = selftest(catch.row(0), Row(1), Row(2, real))
    assert ended.exit_code == code
    page = mutants_page(ended)
    assert f"{int(result == 'caught')} of 1 broken locks are caught" in page
    assert f"accused in {int(real == 1)} of 2 runs" in page
    assert ("unknown in 1" in page) == (real == 3)
    root = ElementTree.fromstring(junit(ended))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == [
        "3",
        str((result in ("survived", "control")) + (real == 1)),
        str((result == "unknown") + (real == 3)),
    ]


def test_a_worker_that_dies_makes_its_mutant_unknown() -> None:
    task = SelftestTask(("bare-del",))
    row = task.completed(Row(0, 3, reasons=("its worker died",)))
    assert (row.exit_code, row.reasons) == (3, ("UNKNOWN: its worker died",))
    assert (row.item, row.repeat) == (task.items[0].id, "lab suite --selftest --only bare-del --seed 1")


def test_a_self_test_cannot_be_resumed_as_runs_of_scenarios(tmp_path: Path) -> None:
    batch = Batch.begin(of_locks(["bare-del"], Trials(simulated=1)).plan, tmp_path)
    batch.close()
    with pytest.raises(LabError, match="cannot be resumed"):
        Batch.resume(batch.directory)
