"""Which cells a file has, what cannot be run, what is missing; the file that comes with the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.batch import choose, matrix_plan
from lab.batch.choose import JOURNAL
from lab.batch.engine import Batch
from lab.batch.item import Plan
from lab.batch.plan import Selection
from lab.batch.result import Cell
from lab.batch.suite_plan import load_suite
from lab.drivers.registry import rows
from lab.errors import LabError
from lab.scenario.files import library_names
from tests.unit.batch.made import MATRIX, WELL, cell, run

SMALL = """
title: small
cases:
  - {scenarios: [healthy, partition-minority], locks: [redlock, single], on: sim}
  - {scenarios: healthy, locks: redlock, label: tuned, set: [lock.ttl=2s], on: sim, repeat: 2}
  - {scenarios: healthy, locks: ["driver:pottery", "driver:redlock-rb"], label: defaults, on: sim}
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "cache"))  # no library is installed there
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def survey(file: Path, *only: str, on: str | None = None, repeat: int = 1) -> Plan:
    return Selection((str(file),), survey=True, on=on, only=only, repeat=repeat).plan()


def test_items_locks_and_reasons(small: Path, tmp_path: Path) -> None:
    made = survey(small)
    assert [one.id for one in made.items] == [
        "healthy/redlock/sim",
        "healthy/single/sim",
        "partition-minority/redlock/sim",
        "partition-minority/single/sim",
        "healthy/redlock tuned/sim",
    ]
    assert [one.own for one in made.items] == [True, False, True, False, False]
    assert made.items[3].why_not == "a lock on one node, and this scenario has 5 nodes"
    batch = Batch.begin(made, tmp_path)
    assert [item.id for item in batch.missing] == [one.id for one in made.items if not one.why_not]
    batch.close()
    assert [one.lock for one in made.skipped] == ["driver:pottery defaults", "driver:redlock-rb defaults"]
    assert "lab drivers install pottery" in made.skipped[0].reason
    assert "Ruby" in made.skipped[1].reason


def test_choosing(small: Path) -> None:
    assert [one.id for one in survey(small, "tuned").items] == ["healthy/redlock tuned/sim"]
    assert [one.repeat for one in survey(small, "redlock", repeat=3).items] == [3, 3, 6]
    with pytest.raises(LabError) as caught:
        survey(small, "tunde")
    assert caught.value.hint is not None
    assert "tuned" in caught.value.hint


def test_another_substrate_for_all(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "choose", lambda on: (on, ""))
    both = small.read_text().replace("on: sim}", "on: [sim, local]}")
    small.write_text(both)
    made = survey(small, on="docker")
    assert {one.on for one in made.items} == {"docker"}
    assert len(made.items) == 5, "what differed in its substrate only is one"
    assert made.items[0].id == "healthy/redlock/docker"


def test_a_scenario_that_extends_needs_a_lock_that_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "extends.yaml"
    lock = "./my-driver"
    file.write_text(
        f"title: t\ncases:\n  - {{scenarios: extend-across-partition, locks: {lock}, on: local}}\n"
    )

    class Traits:
        extends = False

    monkeypatch.setattr(matrix_plan, "properties_of", lambda *_: Traits)
    (one,) = survey(file).items
    assert one.why_not == "this library cannot extend a lease"


@pytest.mark.full
def test_the_file_that_comes_with_the_lab() -> None:
    entries = load_suite(matrix_plan.DEFAULT).items
    scenarios = {entry.scenario for entry in entries if entry.own and entry.lock.startswith("driver:")}
    assert scenarios == set(library_names()), (
        "the track record is all scenarios about libraries, and their controls"
    )
    surveyed = {entry.lock.removeprefix("driver:") for entry in entries if not entry.own}
    assert set(rows()) <= surveyed, "every library has a row"
    assert len({entry.id for entry in entries}) == len(entries)
    assert not [entry.id for entry in entries if "#" in entry.id], "a cell that is there twice needs a label"


def test_a_label_of_a_word_or_two(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    for label in ("a/b", "", "x" * 40, "<b>"):
        file.write_text(f"title: t\ncases:\n  - {{scenarios: healthy, label: '{label}', on: sim}}\n")
        with pytest.raises(LabError) as caught:
            survey(file)
        assert "label" in (caught.value.where or "")


def begun(directory: Path) -> Batch:
    """A batch in which the runs of ``MATRIX`` have ended."""
    batch = Batch.begin(MATRIX.plan, directory)
    for row in MATRIX.rows:
        batch.keep(row)
    return batch


def cells(batch: Batch) -> dict[str, Cell]:
    return {one.item.id: one for one in batch.result.cells}


def test_a_batch_goes_on_where_it_was_torn(tmp_path: Path) -> None:
    batch = begun(tmp_path)
    batch.keep(run(0, WELL, item="healthy/redlock/sim"))
    batch.close()
    with (batch.directory / JOURNAL).open("ab") as file:
        file.write(b'{"seed":7,"item":"healthy/redl')
    again = Batch.resume(batch.directory)
    assert again.plan == MATRIX.plan
    assert len(cells(again)["healthy/redlock/sim"].rows) == 2
    again.keep(run(3, item="jump/redlock/sim"))
    again.close()
    last = Batch.resume(batch.directory)
    assert len(cells(last)["jump/redlock/sim"].rows) == 2
    last.close()


def test_two_labs_do_not_write_one_journal(tmp_path: Path) -> None:
    batch = begun(tmp_path)
    with pytest.raises(LabError, match="another lab"):
        Batch.resume(batch.directory)
    batch.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", f"{JOURNAL}:2"),
        ('{"seed":7,"item":"no-such/cell/sim"}', "not in this suite"),
        ('{"item":"healthy/redlock/sim"}', f"{JOURNAL}:2"),
    ],
)
def test_a_damaged_journal_is_reported(tmp_path: Path, line: str, words: str) -> None:
    batch = Batch.begin(MATRIX.plan, tmp_path)
    batch.close()
    with (batch.directory / JOURNAL).open("ab") as file:
        file.write(line.encode() + b"\n")
    with pytest.raises(LabError) as caught:
        Batch.resume(batch.directory)
    assert words in caught.value.render()
    assert caught.value.exit_code == 2


def test_what_is_continued_may_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="nothing to continue"):
        Batch.resume(tmp_path)
    batch = begun(tmp_path)
    assert [item.id for item in batch.missing] == [], "what ended, and what cannot be run, is not run again"
    batch.close()
    again = Batch.resume(batch.directory, ["late*"], 4)
    assert [(one.id, one.repeat) for one in again.missing] == [
        ("late/driver:redlock/sim", 9),
        ("late-control/driver:redlock/sim", 3),
    ]
    again.close()


def test_a_run_of_a_survey_that_came_to_a_verdict_is_no_failure() -> None:
    other, own = cell("a", "l", run(1), run(3), run(2)), cell("a", "l", run(1), own=True)
    assert [int(other.code_of(row)) for row in other.rows] == [0, 3, 0]
    assert int(own.code_of(own.rows[0])) == 1
