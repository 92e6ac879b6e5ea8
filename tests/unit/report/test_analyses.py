"""The pages about libraries: each scenario has its note, and each note says what a reader can do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.drivers.registry import row
from lab.errors import LabError
from lab.report import examined
from lab.report.analyses import NOTES, PICTURES, SAFETY, analyses, draw_pictures, noted
from lab.scenario.files import library_names
from lab.scenario.load import load_scenario

DOCS = Path(__file__).parents[3] / "docs" / "analyses"
GALLERY = DOCS.parents[1] / "reports" / "gallery"


def test_a_scenario_without_a_note_is_named(tmp_path: Path) -> None:
    kept = (DOCS / NOTES).read_text()
    (tmp_path / NOTES).write_text(kept.replace("pottery-late-extend:", "pottery-no-such-thing:"))
    with pytest.raises(LabError, match="pottery-late-extend, pottery-no-such-thing: a note without"):
        noted(tmp_path)
    (tmp_path / NOTES).write_text(kept.replace("kind: limit", "kind: unclear", 1))
    with pytest.raises(LabError, match="Invalid enum value 'unclear'"):
        noted(tmp_path)


def of_huey(**changed: object) -> examined.Kept:
    kept = examined.Kept(
        row("huey").version,
        "Redis 8.2.3",
        0,
        "60s",
        1200,
        90,
        40,
        2.0,
        stopped=False,
        causes=(),
        found=(),
        missed=(),
        undecided=1,
        tried=(examined.Tried("situations", 79, 79), examined.Tried("drawn schedules", 40, 0)),
    )
    return replace(kept, **changed)


def test_what_was_examined_is_kept_by_library(tmp_path: Path) -> None:
    examined.write_kept(tmp_path, {"walrus": of_huey(), "huey": of_huey(seed=1)})
    examined.write_kept(tmp_path, {"huey": of_huey()})
    assert examined.read_kept(tmp_path) == {"huey": of_huey(), "walrus": of_huey()}
    (tmp_path / examined.KEPT).write_text("nobody: {}")
    with pytest.raises(LabError, match="cannot be read"):
        examined.read_kept(tmp_path)


def test_only_a_library_without_a_defect_is_said_to_have_none() -> None:
    clean = examined.page({"huey": of_huey()}, "")
    assert "### huey" in clean
    assert "1,200 schedules on Redis 8.2.3, seed 0, budget 60s, 1 seen and not decided." in clean
    assert "| situations | 79 of 79 |\n| drawn schedules | 40 |" in clean
    found = examined.page({"huey": of_huey(causes=("wall-clock",), missed=("huey-late-release",))}, "")
    assert "### huey" not in found
    assert (
        "| `driver:huey` | 3.5.4 | 0 of 1 | huey-late-release | not noted | 1200 | 40 | 90 | 2 "
        "| the budget ended |"
    ) in found
    reported = {"hangs": "A limit.", "wall-clock": ""}
    for causes, said in ((reported, "hangs, wall-clock"), ({}, "–")):
        page = examined.page({"huey": of_huey(unconfirmed=causes)}, "")
        assert f"| `driver:huey` | 3.5.4 | 0 of 0 | – | {said} | 1200 " in page
        assert page.endswith("\n\n`hangs` of `driver:huey`: A limit.\n") is bool(causes)
    assert examined.current({"huey": of_huey(version="0.1")}) == {}


def test_what_is_called_no_defect_expects_no_harm() -> None:
    for name, note in noted(DOCS).items():
        findings = set(load_scenario(name).scenario.expect.findings or ())
        if note.kind == "none":
            assert not findings & SAFETY, name


def test_every_finding_has_a_control_and_its_page_names_both() -> None:
    pages = analyses(DOCS, None, "")
    whole = "\n".join(pages.values())
    for name in library_names():
        control_of = load_scenario(name).scenario.control_of
        assert name in whole
        assert control_of is None or control_of in whole
    assert len(pages) >= 12 + 1


def test_every_picture_is_on_a_page_and_every_kept_run_has_one() -> None:
    pages = "\n".join(analyses(DOCS, GALLERY, "").values())
    drawn = {path.stem for path in (DOCS / PICTURES).glob("*.svg")}
    shown = set(re.findall(rf"\]\({PICTURES}/(.+)\.svg\)", pages))
    assert shown == drawn, "python -m lab.report.docs draws those that are missing"


def test_a_picture_accuses_of_what_its_scenario_expects() -> None:
    for path in (DOCS / PICTURES).glob("*.svg"):
        words = path.read_text(encoding="utf-8")
        for finding in load_scenario(path.stem).scenario.expect.findings or ():
            assert finding in words, path.name


@pytest.mark.full
def test_a_picture_is_of_the_kept_history(tmp_path: Path) -> None:
    shutil.copy(DOCS / NOTES, tmp_path / NOTES)
    shutil.copytree(DOCS / PICTURES, tmp_path / PICTURES)
    again = tmp_path / PICTURES / "huey-late-release.svg"
    again.unlink()
    assert draw_pictures(tmp_path, GALLERY) == [again]
    assert again.read_bytes() == (DOCS / PICTURES / again.name).read_bytes()
