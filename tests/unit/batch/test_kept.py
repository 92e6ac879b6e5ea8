"""The matrices in the gallery: every history is checked again, and whoever tells of them tells the same."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from checker import check, load
from lab.batch.kept import compressed
from lab.report.record import BEGIN, END, kept_in, read_kept, record_table, with_record
from lab.scenario.files import library_names
from tests.unit.batch.made import EVIL

ROOT = Path(__file__).resolve().parents[3]
GALLERY = ROOT / "reports" / "gallery"
MATRICES = kept_in(GALLERY)
BYTES_MAX = 2_000_000


@pytest.fixture(scope="module", params=MATRICES, ids=lambda place: place.name)
def place(request: pytest.FixtureRequest) -> Path:
    directory: Path = request.param
    return directory


@pytest.fixture(scope="module")
def kept(place: Path) -> dict[str, Any]:
    return read_kept(place)


def test_the_first_matrix_is_there() -> None:
    assert MATRICES[0] == GALLERY / "matrix"


def test_every_cell_is_checked_again(kept: dict[str, Any], place: Path) -> None:
    wrong, checked = [], set()
    for cell in kept["cells"]:
        history = cell["history"]
        if history is None:
            continue
        verdict = check(load(place / history["file"]))
        checked.add(history["file"])
        outcomes = {str(name): str(one.outcome) for name, one in verdict.properties.items()}
        found = list(dict.fromkeys(f.name for f in verdict.findings if f.severity == "violation"))
        if (outcomes, found) != (history["outcomes"], history["findings"]):
            wrong.append((cell["id"], outcomes, found))
    assert wrong == []
    assert checked == {str(path.relative_to(place)) for path in place.rglob("*.gz")}
    assert checked


def test_a_cell_that_is_known_has_a_history_that_shows_it(kept: dict[str, Any]) -> None:
    for cell in kept["cells"]:
        assert (cell["state"] == "known") <= (cell["history"] is not None), cell["id"]
        if cell["state"] == "known":
            shown = {name for name, outcome in cell["history"]["outcomes"].items() if outcome == "violated"}
            often = {name for name, count in cell["violated_by_property"].items() if count}
            assert shown <= often, cell["id"]
            assert cell["command"].startswith("lab run ")
            assert cell["versions"]
        else:
            assert cell["reason"], cell["id"]


def test_the_tables_have_the_same_cells(kept: dict[str, Any], place: Path) -> None:
    rows = list(csv.DictReader((place / "matrix.csv").open(encoding="utf-8", newline="")))
    assert [(row["scenario"], row["lock"], row["label"], row["state"]) for row in rows] == [
        (cell["scenario"], cell["lock"], cell["label"] or "", cell["state"]) for cell in kept["cells"]
    ]
    markdown = (place / "matrix.md").read_text(encoding="utf-8")
    page = (place / "index.html").read_text(encoding="utf-8")
    for cell in kept["cells"]:
        assert cell["control_of"] or cell["scenario"] in markdown
        assert cell["control_of"] or cell["scenario"] in page
        if cell["history"] is not None:
            assert f'href="{cell["history"]["file"]}"' in page


def test_it_is_small(place: Path) -> None:
    assert sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) < BYTES_MAX


def test_the_track_record_is_that_of_the_matrix() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert BEGIN in text
    assert with_record(text, GALLERY) == text, "python -m lab.report.docs writes it"
    table = text.partition(BEGIN)[2].partition(END)[0]
    scenarios = {name for name in library_names() if not name.endswith("-control")}
    assert set(re.findall(r"`lab run ([a-z0-9-]+)`", table)) == scenarios


def test_a_number_that_drifted_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "matrix").mkdir()
    data = read_kept(MATRICES[0])
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    data["cells"] = [cell | ({"runs": cell["runs"] + 1} if cell["own"] else {}) for cell in data["cells"]]
    (tmp_path / "matrix" / "matrix.json").write_text(json.dumps(data))
    assert with_record(text, tmp_path) != text


def test_the_record_keeps_its_table() -> None:
    cell = {
        "own": True,
        "lock": "driver:x",
        "control_of": None,
        "library": EVIL,
        "title": EVIL,
        "scenario": "a",
        "outcomes": {"resource": "violated"},
        "findings": [EVIL],
        "as_expected": 0,
        "runs": 1,
        "as_expected_wilson_95": [0.0, 1.0],
    }
    lines = record_table({"cells": [cell]}).splitlines()
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines] == [7, 7, 7]


def test_what_is_compressed_is_the_same_each_time() -> None:
    assert compressed(b"a history") == compressed(b"a history")
    assert compressed(b"a history")[4:8] == bytes(4), "no time in it"
