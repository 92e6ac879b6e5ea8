"""The gallery's evidence is checked again: a stored history whose verdict changes is a defect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checker import load
from checker.check import check
from lab.judge import compare
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


def test_there_is_something_to_check() -> None:
    assert RUNS
