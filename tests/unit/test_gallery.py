"""The gallery's evidence is checked again: a stored history whose verdict changes is a defect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checker import load
from checker.check import check
from lab.judge import compare, read_run
from lab.report.docs import gallery_index
from lab.report.page import PAGE
from lab.report.page.build import Subject, page
from lab.scenario.load import load_scenario

GALLERY = Path(__file__).resolve().parents[2] / "reports" / "gallery"
RUNS = sorted(path.parent for path in GALLERY.glob("*/history.jsonl"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_verdict_is_still_the_same(run: Path) -> None:
    kept = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    verdict = check(load(run / "history.jsonl"))
    assert verdict.to_dict() == kept["verdict"]
    mismatches, unknown = compare(verdict, load_scenario(run / "scenario.yaml").scenario.expect)
    assert (mismatches, unknown) == ((), ())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_page_is_current(run: Path) -> None:
    stored = read_run(run)
    subject = Subject(
        str(stored.kept["scenario"]),
        stored.loaded.scenario,
        stored.loaded.text,
        stored.history,
        stored.judgement,
        stored.kept,
    )
    written = (run / PAGE).read_text(encoding="utf-8")
    assert page(subject, run) == written, f"lab report {run} writes it anew"


def test_the_index_is_current() -> None:
    assert gallery_index(GALLERY) == (GALLERY / "README.md").read_text(encoding="utf-8"), "lab docs"


def test_there_is_something_to_check() -> None:
    assert RUNS
