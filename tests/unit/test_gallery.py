"""The gallery's evidence is checked again: a stored history whose verdict changes is a defect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checker import check, load
from lab.analysis.comparison import Comparison
from lab.report.docs import gallery_index
from lab.report.meanings import headline
from lab.report.page import PAGE
from lab.report.timeline.data import extract
from lab.report.timeline.marks import scene_of
from lab.run.stored import read_run
from tests.unit.report.test_page import Read

GALLERY = Path(__file__).resolve().parents[2] / "reports" / "gallery"
RUNS = sorted(path.parent for path in GALLERY.glob("*/history.jsonl"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_verdict_is_still_the_same(run: Path) -> None:
    kept = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    result = read_run(run)
    assert result.verdict.to_dict() == kept["verdict"]
    assert result.comparison == Comparison((), ())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_page_shows_what_the_history_says(run: Path) -> None:
    """Headline and outcomes, which marks are red, whose keys are drawn, where the store's marks stand."""
    stored = read_run(run)
    verdict = stored.verdict
    kept = Read((run / PAGE).read_text(encoding="utf-8"))
    anew = f"lab report {run} writes it anew"
    reported = " ".join(" ".join(kept.texts).split())
    assert headline(verdict) in reported, anew
    outcomes = [value for tag, name, value in kept.attributes if (tag, name) == ("td", "class")]
    seen = [value.removeprefix("outcome ") for value in outcomes if value.startswith("outcome ")]
    assert seen == [str(one.outcome) for one in verdict.properties.values()], anew
    marked = extract(stored.history, verdict, stored.loaded.scenario.title)
    marks = msgspec.to_builtins(scene_of(marked).marks)
    for shown in (_red, _keys, _stored):
        assert shown(kept.data["scene"]["marks"]) == shown(marks), anew


def _red(marks: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """What is accused, in which lane, of what."""
    return {(m["lane"], m["kind"], m["label"], *m["findings"]) for m in marks if m["findings"]}


def _keys(marks: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Whose key each node held, in its order."""
    lives = sorted((m for m in marks if m["kind"] == "life"), key=lambda m: (m["lane"], m["t0"]))
    return [(m["lane"], m["label"]) for m in lives]


def _stored(marks: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """What the store carried out, and in which millisecond."""
    kinds = ("accepted", "rejected", "announced")
    return [(m["kind"], m["label"], m["t0"] // 1_000_000) for m in marks if m["kind"] in kinds]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_picture_accuses_as_the_page_does(run: Path) -> None:
    """The SVG on paper names every finding that the page's marks are red for."""
    stored = read_run(run)
    words = (run / "timeline.svg").read_text(encoding="utf-8")
    for finding in stored.verdict.findings:
        if finding.severity == "violation":
            assert finding.name in words, f"lab report {run} draws it anew"


def test_the_readme_tells_of_the_run_whose_picture_it_shows() -> None:
    """How long both held the lock is one number in the text, in the picture below it, and in the verdict."""
    text = (GALLERY.parents[1] / "README.md").read_text(encoding="utf-8")
    quoted = text.split("\npartition-clockjump: as expected\n")[1].split("```")[0]
    amount, unit = re.findall(r"at least ([0-9.]+) (ms|s)\b", " ".join(quoted.split()))[0]
    (overlap,) = check(load(GALLERY / "partition-clockjump" / "history.jsonl")).named("overlap")
    held_ms = overlap.details["overlap_ns"] / 1e6
    assert float(amount) * (1000 if unit == "s" else 1) == pytest.approx(held_ms, rel=0.01)
    drawn = (GALLERY / "partition-clockjump" / "timeline.svg").read_text(encoding="utf-8")
    assert f"both hold the lock for at least {amount} {unit}" in drawn


def test_the_index_is_current() -> None:
    assert gallery_index(GALLERY) == (GALLERY / "README.md").read_text(encoding="utf-8"), (
        "python -m lab.report.docs"
    )


def test_there_is_something_to_check() -> None:
    assert RUNS
