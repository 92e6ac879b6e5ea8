"""The pages about libraries: each scenario has its note, and each note says what a reader can do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lab.errors import LabError
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
