"""The pages about libraries: each scenario has its note, and each note says what a reader can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.report.analyses import NOTES, SAFETY, analyses, noted
from lab.scenario.files import library_names
from lab.scenario.load import load_scenario

DOCS = Path(__file__).parents[3] / "docs" / "analyses"


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
