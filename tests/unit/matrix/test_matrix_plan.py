"""Which cells a file has, what cannot be run, what is missing; the file that comes with the lab."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab.batch.matrix import plan as planning
from lab.batch.matrix.journal import FILE, Journal
from lab.batch.matrix.plan import chosen, entries_of, plan
from lab.batch.suite.load import load_suite
from lab.drivers.registry import rows
from lab.errors import LabError
from lab.scenario.files import library_names
from tests.unit.matrix.made import MATRIX, WELL, run

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


def test_cells_rows_and_reasons(small: Path) -> None:
    told: list[str] = []
    made = plan(small, tell=told.append)
    assert [one.id for one in made.cells] == [
        "healthy/redlock/sim",
        "healthy/single/sim",
        "partition-minority/redlock/sim",
        "partition-minority/single/sim",
        "healthy/redlock tuned/sim",
    ]
    assert [one.own for one in made.cells] == [True, False, True, False, False]
    assert made.cells[3].why_not == "a lock on one node, and this story has 5 nodes"
    assert [entry.id for entry in entries_of(made.cells)] == [
        "healthy/redlock/sim",
        "partition-minority/redlock/sim",
        "healthy/redlock tuned/sim",
    ]
    assert told == [f"skipped: {one.row}: {one.reason}" for one in made.skipped]
    assert [one.row for one in made.skipped] == ["driver:pottery defaults", "driver:redlock-rb defaults"]
    assert "lab drivers install pottery" in made.skipped[0].reason
    assert "Ruby" in made.skipped[1].reason


def test_choosing(small: Path) -> None:
    assert [one.id for one in plan(small, ["tuned"]).cells] == ["healthy/redlock tuned/sim"]
    assert [one.wanted for one in plan(small, ["redlock"], repeat=3).cells] == [3, 3, 6]
    with pytest.raises(LabError) as caught:
        plan(small, ["tunde"])
    assert caught.value.hint is not None
    assert "tuned" in caught.value.hint


def test_another_substrate_for_all(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "choose", lambda on: (on, ""))
    both = small.read_text().replace("on: sim}", "on: [sim, local]}")
    small.write_text(both)
    made = plan(small, on="docker")
    assert {one.on for one in made.cells} == {"docker"}
    assert len(made.cells) == 5, "what differed in its substrate only is one"
    assert made.cells[0].id == "healthy/redlock/docker"


def test_a_story_that_extends_needs_a_lock_that_can(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "extends.yaml"
    lock = "./my-driver"
    file.write_text(
        f"title: t\ncases:\n  - {{scenarios: extend-across-partition, locks: {lock}, on: local}}\n"
    )

    class LockProperties:
        extends = False

    monkeypatch.setattr(planning, "properties_of", lambda *_: LockProperties)
    (one,) = plan(file).cells
    assert one.why_not == "this library cannot extend a lease"


def test_the_file_that_comes_with_the_lab() -> None:
    entries = load_suite(planning.DEFAULT).entries
    stories = {entry.scenario for entry in entries if entry.own and entry.lock.startswith("driver:")}
    assert stories == set(library_names()), (
        "the track record is all stories about libraries, and their controls"
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
            plan(file)
        assert "label" in (caught.value.where or "")


def test_a_journal_goes_on_where_it_was_torn(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, MATRIX)
    journal.append("healthy/redlock/sim", run(0, WELL))
    journal.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"cell":"healthy/redl')
    again = Journal.resume(tmp_path)
    assert len(again.matrix.cells[0].runs) == len(MATRIX.cells[0].runs) + 1
    again.append("jump/redlock/sim", run(3))
    again.close()
    assert len(Journal.resume(tmp_path).matrix.cells[2].runs) == 2


def test_two_labs_do_not_write_one_journal(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path, MATRIX)
    with pytest.raises(LabError, match="another lab"):
        Journal.resume(tmp_path)
    journal.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", f"{FILE}:2"),
        ('{"cell":"no-such/cell/sim","run":RUN}', "no cell of this matrix"),
        ('{"cell":"healthy/redlock/sim"}', f"{FILE}:2"),
    ],
)
def test_a_damaged_journal_is_told(tmp_path: Path, line: str, words: str) -> None:
    Journal.begin(tmp_path, MATRIX).close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(line.replace("RUN", msgspec.json.encode(run(0)).decode()).encode() + b"\n")
    with pytest.raises(LabError) as caught:
        Journal.resume(tmp_path)
    assert words in caught.value.render()
    assert caught.value.exit_code == 2


def test_what_is_gone_on_with_may_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no matrix to go on with"):
        Journal.resume(tmp_path)
    made = chosen(MATRIX, ["late*"], 4)
    assert [(one.id, one.wanted) for one in made.cells] == [
        ("late/driver:redlock/sim", 12),
        ("late-control/driver:redlock/sim", 4),
    ]
    assert [(entry.id, entry.repeat) for entry in entries_of(made.cells)] == [
        ("late/driver:redlock/sim", 9),
        ("late-control/driver:redlock/sim", 3),
    ]
    assert list(entries_of(MATRIX.cells)) == [], "what ended, and what cannot be run, is not run again"
