"""What items come to, what the exit code is, and how a survey is told."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from rich.console import Console

from lab.batch.item import Skipped
from lab.batch.page import reports_from, to_html
from lab.batch.result import Cell, Result, State
from lab.batch.tables import (
    LETTERS,
    cell_text,
    cell_words,
    grid_of,
    lines_of,
    markdown,
    notes,
    print_result,
    to_csv,
)
from tests.unit.batch.made import BROKEN, EVIL, MATRIX, WELL, cell, run, survey_of

UNDECIDED = dict.fromkeys(LETTERS, "unknown") | {"fault_tolerance": "violated"}


@pytest.mark.parametrize(
    ("made", "state", "text"),
    [
        (cell("a", "l", run(0, WELL)), "known", "ok"),
        (cell("a", "l", run(1, BROKEN)), "known", "MF"),
        (cell("a", "l", run(1, BROKEN), run(0, WELL), run(3)), "known", "MF 1/2"),
        (cell("a", "l", run(0, {**WELL, "resource": "unknown"})), "known", "ok ?R"),
        (cell("a", "l", run(3, {**WELL, "resource": "violated", "fencing": "unknown"})), "known", "R ?F"),
        (cell("a", "l", run(3, UNDECIDED)), "known", "T, rest ?"),
        (cell("a", "l", run(3, {"resource": "unknown"})), "unknown", "?"),
        (cell("a", "l", run(-9), run(130)), "unknown", "?"),
        (cell("a", "l", run(2)), "n/a", "n/a"),
        (cell("a", "l", why_not="one node"), "n/a", "n/a"),
        (cell("a", "l"), "missing", "–"),
    ],
)
def test_what_is_known_of_a_cell(made: Cell, state: State, text: str) -> None:
    assert (made.state, cell_text(made)) == (state, text)


def test_a_cell_that_cannot_be_run_or_is_unknown_says_why() -> None:
    assert cell_words(cell("a", "l", run(2))) == "n/a: a TTL of 1500 ms"
    assert cell_words(cell("a", "l", run(3))) == "UNKNOWN: no receipt for cut"
    assert "ok" not in cell_words(cell("a", "l", run(3, WELL)))


def test_the_rate_counts_what_is_known() -> None:
    made = cell("a", "l", run(1, BROKEN), run(0, WELL), run(1, BROKEN), run(3))
    assert (made.violated(), made.violated("mutual_exclusion"), made.violated("resource")) == (2, 2, 0)
    assert (len(made.known), made.unknown) == (3, 1)
    assert made.rate.low < 2 / 3 < made.rate.high
    assert made.outcomes["mutual_exclusion"] == "violated"
    own = replace(made, item=replace(made.item, own=True))
    assert own.as_expected == 1
    assert own.as_expected_rate.high < 0.8, "what is unknown counts against it"


def test_the_run_that_stands_for_the_others_is_an_ordinary_one() -> None:
    odd, usual = run(1, BROKEN, seed=1), run(0, WELL, seed=2)
    made = cell("a", "l", run(3, seed=9), odd, usual, replace(usual, seed=3))
    assert made.shown is not None
    assert made.shown.seed == 2
    assert made.command == usual.repeat
    never = cell("a", "./my driver", settings=("lock.ttl=2s", "lock.name=./my driver"), why_not="x")
    assert never.command == "lab run a --on sim --set lock.ttl=2s --set 'lock.name=./my driver'"


@pytest.mark.parametrize(
    ("cells", "code"),
    [
        ([cell("a", "l", run(0, WELL)), cell("b", "l", run(1, BROKEN)), cell("c", "l", run(2))], 0),
        ([cell("a", "l", run(0, WELL)), cell("b", "l", why_not="one node")], 0),
        ([cell("a", "l", run(0, WELL), own=True), cell("b", "l", run(1, BROKEN), own=True)], 1),
        ([cell("a", "l", run(0, WELL), own=True), cell("b", "l", run(3))], 3),
        ([cell("a", "l", run(3)), cell("b", "l", run(1, WELL), own=True)], 1),
        ([cell("a", "l", run(0, WELL)), cell("b", "l")], 3),
        ([], 3),
    ],
)
def test_the_exit_code(cells: list[Cell], code: int) -> None:
    assert survey_of(*cells).exit_code == code


def test_scenarios_with_several_locks_are_columns_and_the_others_lines() -> None:
    table = grid_of(MATRIX)
    assert tuple(table.rows) == ("redlock", "driver:pottery tuned")
    assert table.columns == ("healthy", "jump")
    assert len(table.cells) == 4
    (line,) = lines_of(MATRIX)
    assert line.cell.item.name == "late"
    assert line.control is not None
    assert line.control.item.name == "late-control"
    cells = (cell("healthy", lock, on=on) for lock in ("redlock", "single") for on in ("sim", "local"))
    both = survey_of(*cells)
    assert grid_of(both).columns == ("healthy (sim)", "healthy (local)")


def test_runs_come_to_their_items() -> None:
    first, second = cell("a", "l").item, cell("b", "l").item
    rows = (run(1, item=second.id), run(0, item=first.id), run(3, item=first.id))
    made = Result.of(survey_of(Cell(first), Cell(second)).plan, rows)
    assert [[one.exit_code for one in each.rows] for each in made.cells] == [[0, 3], [1]]


def test_every_row_and_every_reason_is_told() -> None:
    reported = io.StringIO()
    print_result(Console(file=reported, width=160), MATRIX)
    for text in (reported.getvalue(), markdown(MATRIX).replace("\\", "")):
        for word in ("driver:pottery tuned", "MF", "skipped: driver:redlock-rb: a driver in Ruby"):
            assert word in text
        assert "2 of 3 (21% … 94%)" in text, text
    assert list(notes(MATRIX)) == [
        "skipped: driver:redlock-rb: a driver in Ruby",
        "n/a: jump/driver:pottery tuned/sim: a lock on one node",
        "unknown: jump/redlock/sim: no receipt for cut",
        "unknown: 1 of 3 runs of late/driver:redlock/sim: no receipt for cut",
    ]


def evil(tmp_path: Path) -> Result:
    """A matrix in which everything that comes from elsewhere is meant to break out."""
    directory = tmp_path / 'a "b" <c>'
    made = run(3, reasons=(EVIL,), directory=str(directory))
    cells = (
        cell("a", EVIL, made, title=EVIL, label=""),
        cell("a", "redlock", run(1, BROKEN, findings=(EVIL,), repeat=EVIL)),
        cell("b", EVIL, run(0, WELL), title=EVIL, own=True),
    )
    return survey_of(*cells, name=EVIL, title=EVIL, skipped=(Skipped(EVIL, EVIL),))


def test_the_page_escapes_what_it_is_given(tmp_path: Path) -> None:
    page = to_html(evil(tmp_path), reports_from(tmp_path), "its runs")
    assert "<script" not in page
    assert 'href="a%20%22b%22%20%3Cc%3E/index.html"' in page
    assert "default-src 'none'; style-src 'sha256-" in page
    ElementTree.fromstring(
        re.sub(r"<!doctype html>|<(meta|link)[^>]*>", "", page)
    )  # well-formed: nothing broke out


def test_markdown_keeps_its_table(tmp_path: Path) -> None:
    lines = markdown(evil(tmp_path)).splitlines()
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")}
    assert len(widths) == 2, "two tables, each as wide as its head"
    assert "- skipped: \\<script" in "\n".join(lines)


def test_csv_reads_back(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(evil(tmp_path)))))
    assert [row["lock"] for row in rows] == [EVIL, "redlock", EVIL]
    assert rows[0]["reason"] == EVIL
    assert rows[1]["violated"] == "1"
    assert [row["state"] for row in rows] == ["unknown", "known", "known"]


def test_json_says_what_the_tables_say() -> None:
    reported = json.loads(json.dumps(MATRIX.to_dict()))
    assert [one["state"] for one in reported["cells"]] == [
        "known",
        "known",
        "unknown",
        "n/a",
        "known",
        "known",
    ]
    assert reported["cells"][4]["as_expected"] == 2
    assert "as_expected" not in reported["cells"][1]
    assert reported["skipped"] == [{"lock": "driver:redlock-rb", "reason": "a driver in Ruby"}]


def test_the_page_names_properties_and_prints_nothing_vertically() -> None:
    survey = survey_of(cell("a", "l", run(3, UNDECIDED)), cell("a", "m", run(0, WELL)))
    page = to_html(survey, lambda _: (), "")
    assert "fault tolerance" in page
    assert f"{len(LETTERS) - 1} properties not decided" in page
    assert "writing-mode" not in page
    assert "rest ?" not in page
