"""Broken locks are caught, and for the right reason; the real ones pass the same stories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

import lab.locks.broken
from lab.batch.selftest.model import Innocence, Row, Selftest, worst
from lab.batch.selftest.run import chosen, stories_within_assumptions
from lab.batch.selftest.task import SelftestTask, blank, by_search, by_story
from lab.errors import ExitCode, LabError
from lab.locks import BUILT_IN, lock_class
from lab.locks.broken import MUTANTS, Mutant
from lab.paths import mutant_story_dir
from lab.scenario.files import names
from lab.scenario.load import load_scenario
from tests.lab_process import ROOT, Lab

STORIES = sorted(path.stem for path in mutant_story_dir().glob("*.yaml"))
ON_SERVERS: dict[str, Any] = {
    "bare-del": (),
    "extend-reacquires": pytest.mark.full,
    "store-ignores-fence": pytest.mark.full,
}
"""Mutants that are run on real servers in both parts of the tests; the others are on demand."""


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_by_the_finding_it_must_give(name: str) -> None:
    row = by_story(MUTANTS[name], 1)
    assert row.result == "caught", row.reasons
    assert row.witness
    assert row.why


def test_the_table_that_is_kept_has_them_all_and_says_that_they_were_caught() -> None:
    text = (ROOT / "docs" / "selftest.md").read_text(encoding="utf-8")
    kept = [line.split(" | ")[:4] for line in text.splitlines() if line.startswith("| ")][2:]
    task = SelftestTask(tuple(MUTANTS))
    rows = [blank(mutant, way) for mutant, way in task.ways]
    cells = [[f"| {row.mutant}", row.breaks.replace("|", "\\|"), row.by, row.finding] for row in rows]
    assert sorted(kept) == sorted(cells), "lab selftest --full --markdown docs/selftest.md"
    assert f"{len(MUTANTS)} of {len(MUTANTS)} broken locks are caught" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTANTS if MUTANTS[name].search])
def test_a_search_catches_it_as_well(name: str) -> None:
    row = by_search(MUTANTS[name], 1)
    assert row.result == "caught", row.reasons
    assert row.schedules >= 1


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=ON_SERVERS.get(n, pytest.mark.slow)) for n in MUTANTS]
)
def test_a_mutant_is_caught_on_real_servers(lab: Lab, name: str) -> None:
    mutant = MUTANTS[name]
    run = lab("run", mutant.story, "--lock", mutant.lock, "--on", "local", "--picture", "unexpected")
    assert run.code == 1, run.out + run.err
    assert mutant.finding in run.findings


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_the_real_lock_is_clean_there_too(lab: Lab, story: str) -> None:
    run = lab("run", story, "--on", "local", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err


@pytest.fixture
def harmless(monkeypatch: pytest.MonkeyPatch) -> Mutant:
    """A mutant that is the real lock."""
    mutant = Mutant("harmless", "grants:Redlock", "two-minorities", "overlap", search=("cut",))
    monkeypatch.setitem(lab.locks.broken.MUTANTS, mutant.name, mutant)
    return mutant


@pytest.mark.usefixtures("_patched")
def test_a_lock_that_is_not_broken_survives(harmless: Mutant) -> None:
    row = by_story(harmless, 1)
    assert (row.result, row.exit_code) == ("survived", ExitCode.UNEXPECTED)
    assert "overlap was not found, only: nothing" in row.reasons[0]


@pytest.mark.usefixtures("_patched")
def test_another_finding_does_not_count() -> None:
    other = Mutant("quorum-off-by-one", "grants:QuorumOffByOne", "two-minorities", "leak")
    row = by_story(other, 1)
    assert row.result == "survived"
    assert "leak was not found, only: overlap" in row.reasons[0]


@pytest.mark.usefixtures("_patched")
def test_a_story_that_the_real_lock_does_not_pass_proves_nothing() -> None:
    real = MUTANTS["quorum-off-by-one"].lock
    other = Mutant("counts-silence", "grants:CountsSilence", "two-minorities", "overlap", real)
    row = by_story(other, 1)
    assert (row.result, row.exit_code) == ("control", ExitCode.UNEXPECTED)


@pytest.mark.usefixtures("_patched")
def test_a_run_without_a_verdict_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Mutant("set-without-expiry", "grants:SetWithoutExpiry", "after-the-keys", "leak")
    row = by_story(late, 1)  # its keys never go, so the story never comes to its end
    assert (row.result, row.exit_code) == ("unknown", ExitCode.UNKNOWN)


def test_they_are_no_locks_to_choose_from(lab: Lab) -> None:
    assert not set(MUTANTS) & set(BUILT_IN)
    assert not set(STORIES) & set(names())
    assert "mutant" not in lab("list").out
    with pytest.raises(LabError) as caught:
        lock_class("mutant:bare-dell")
    assert caught.value.hint == "did you mean 'mutant:bare-del'?"
    with pytest.raises(LabError):
        chosen(["bare-dell"])


def test_there_are_enough_and_each_story_is_used() -> None:
    assert len(MUTANTS) >= 30
    assert {mutant.story for mutant in MUTANTS.values()} >= set(STORIES)
    assert len({mutant.place for mutant in MUTANTS.values()}) == len(MUTANTS)
    for story in STORIES:
        assert "violated" not in load_scenario(story).scenario.expect.outcomes.values()


def test_the_stories_within_the_assumptions_expect_nothing_bad() -> None:
    stories = stories_within_assumptions()
    assert {"healthy", "gc-pause-in-flight", "partition-clockjump-control"} <= set(stories)
    assert "partition-clockjump" not in stories
    assert "chaos" not in stories


@pytest.mark.full
def test_the_command_tells_it_all(lab: Lab) -> None:
    run = lab(
        "selftest",
        *("--only", "undo-by-bare-del", "--only", "mutant:late-set-not-undone"),
        *("--simulated", "12", "--json", "--markdown", "table.md"),
    )
    assert run.code == 0, run.out + run.err
    told = json.loads(run.out)
    assert told["caught"] == ["undo-by-bare-del", "late-set-not-undone"]
    assert [row["by"] for row in told["rows"]] == ["search: delay", "second-comer", "late-set"]
    assert told["innocence"][0]["runs"] == 12
    table = (lab.directory / "table.md").read_text()
    assert "| late-set-not-undone |" in table
    assert "accused in 0 of 12 runs" in table


def test_exit_codes() -> None:
    row = Row("m", "b", "redlock", "s", "overlap", "caught")
    innocent = Innocence("redlock", "here", 3)
    assert Selftest((row,), (innocent,), 1.0).exit_code == ExitCode.EXPECTED
    for result, code in (("survived", 1), ("control", 1), ("unknown", 3)):
        assert Selftest((row, replace(row, result=result)), (innocent,), 1.0).exit_code == code
    assert Selftest((row,), (replace(innocent, accused=("x",)),), 1.0).exit_code == ExitCode.UNEXPECTED
    assert Selftest((row,), (replace(innocent, unknown=("x",)),), 1.0).exit_code == ExitCode.UNKNOWN
    assert Selftest((row,), (replace(innocent, runs=0),), 1.0).exit_code == ExitCode.UNKNOWN
    assert Selftest((), (), 1.0).exit_code == ExitCode.UNKNOWN
    assert worst([ExitCode.UNKNOWN, ExitCode.UNEXPECTED]) == ExitCode.UNEXPECTED


def test_a_worker_that_says_nonsense_is_unknown() -> None:
    from lab.search.tally import SeedResult

    task = SelftestTask(("bare-del",))
    row = task.row(SeedResult(0, 3, reasons=("its worker died",)))
    assert (row.result, row.reasons) == ("unknown", ("its worker died",))
