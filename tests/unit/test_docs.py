"""The documents are those that the files give, and leave out no finding of the checker's."""

from __future__ import annotations

import re
from pathlib import Path

from checker.verdict import Property
from lab.report.docs import GALLERY, pages, write_docs
from lab.report.meanings import FINDINGS, PROMISES

ROOT = Path(__file__).resolve().parents[2]
NO_FINDINGS = {"client-crash", "drift-client", "jump-client", "not-held", "real-time"}
"""Other words with a hyphen in the checker: faults, an error, a kind of edge."""


def test_they_are_current() -> None:
    kept = {
        str(path.relative_to(ROOT / "docs")): path.read_text(encoding="utf-8")
        for path in (ROOT / "docs").rglob("*.md")
        if path.name != "selftest.md"  # a measurement; see known_bad/test_mutants.py
    }
    assert pages(ROOT / GALLERY) == kept, "lab docs writes them anew"


def test_every_finding_and_property_has_its_words() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "checker").glob("*.py"))
    named = set(re.findall(r'"((?:[a-z]+-)+[a-z]+|cycle|leak|overlap|unavailable)"', text))
    models = {word for word in named if word.endswith(("mutex", "register"))}
    assert set(FINDINGS) == named - models - NO_FINDINGS
    assert set(PROMISES) == set(Property)


def test_links_lead_somewhere() -> None:
    found = pages(ROOT / GALLERY)
    for name, text in found.items():
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            target = (ROOT / "docs" / name).parent / link
            assert target.resolve().exists(), f"{name}: {link}"


def test_pages_of_what_is_gone_are_removed(tmp_path: Path) -> None:
    write_docs(tmp_path, None)
    old, own = tmp_path / "scenarios" / "gone.md", tmp_path / "scenarios" / "by-hand.md"
    old.write_text((tmp_path / "scenarios" / "healthy.md").read_text())
    own.write_text("kept")
    write_docs(tmp_path, None)
    assert not old.exists()
    assert own.exists()
