"""The documents are those that the files give, and leave out no finding of the checker's."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from checker.history.events import Model
from checker.verdict import Property
from lab.drivers.registry import rows
from lab.report.docs import GALLERY, pages, write_docs
from lab.report.meanings import FINDINGS, PROMISES
from lab.scenario.claims import claims
from lab.scenario.files import consensus_names, defect_names, library_names, names
from lab.scenario.load import load_scenario

ROOT = Path(__file__).resolve().parents[2]
MEASURED = (
    *("selftest.md", "selftest-scenarios.md", "measurements.md", "mutation.md"),
    *("checker.md", "guide.md", "results.md", "glossary.md", "hypothesis.md"),
    *("testing-a-lock.md", "examined.md", "virtual-time.md"),
)
"""What is measured or written by hand; see tests/known_bad, test_claims.py and checker/test_alone.py."""
NO_FINDINGS = {
    *("client-crash", "drift-client", "jump-client", "not-held", "real-time"),
    *("earliest-deadline-first", "jepsen-log", "lock-lab", "max-size", "not-known", "time-ns"),
    *("key-set", "key-deleted", "key-observed", "key-touched", "node-down", "node-left"),
}
"""Other words with a hyphen in the checker: faults, errors, edges, an algorithm, a format, events."""


@cache
def written(*, gallery: bool) -> dict[str, str]:
    """The pages that the files give, with what they show of the gallery or without."""
    return pages(ROOT / GALLERY if gallery else None)


def test_they_are_current() -> None:
    kept = {
        str(path.relative_to(ROOT / "docs")): path.read_text(encoding="utf-8")
        for path in (ROOT / "docs").rglob("*.md")
        if path.name not in MEASURED
    }
    assert written(gallery=True) == kept, "python -m lab.report.docs writes them anew"


def test_every_finding_and_property_has_its_words() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "checker").rglob("*.py"))
    named = set(re.findall(r'"((?:[a-z]+-)+[a-z]+|cycle|deadlock|leak|overlap|overtaken|unavailable)"', text))
    models = {word for word in named if word.endswith(("mutex", "register"))} | set(get_args(Model))
    assert set(FINDINGS) == named - models - NO_FINDINGS
    assert set(PROMISES) == set(Property)


def test_every_scenario_has_a_page_and_a_place_in_the_index() -> None:
    found = written(gallery=False)
    scenarios = [
        name
        for name in (*names(), *defect_names(), *library_names(), *consensus_names())
        if not load_scenario(name).scenario.control_of
    ]
    for name in scenarios:
        page = found[f"scenarios/{name}.md"]
        assert f"]({'scenarios/' + name}.md)" in found["README.md"]
        place = next(Path(ROOT / "scenarios").rglob(f"{name}.yaml")).relative_to(ROOT / "scenarios")
        assert f"## scenarios/{place}\n" in page
        assert ("--on sim" in page) == (name in (*names(), *defect_names())), (
            "the simulation has neither libraries nor services"
        )
    assert len(scenarios) == sum(name.startswith("scenarios/") for name in found)
    assert "lab drivers install redlock-py\n" in found["scenarios/redlock-py-clock-back.md"]


def test_every_claim_and_every_implementation_is_told() -> None:
    found = written(gallery=False)
    for claim in claims():
        assert f"## Claim {claim.number}\n" in found["claims.md"]
        assert f"**Conclusion: {claim.verdict}.** {claim.conclusion}" in found["claims.md"]
        assert claim.open is None or f"No run can decide: {claim.open}" in found["claims.md"]
    table = found["implementations.md"]
    for name, row in rows().items():
        (line,) = [
            line for line in table.splitlines() if line.startswith(f"| {row.library} ") and row.what in line
        ]
        assert ("driven: `driver:" in line) == (not row.unavailable), name
        assert ("modelled: `" in line) == bool(row.modelled), name
        assert row.unavailable in line
    assert "[hyperf-clock-back](scenarios/hyperf-clock-back.md)" in table
    assert "[redlock-py-clock-back](scenarios/redlock-py-clock-back.md)" in table


def test_links_lead_somewhere() -> None:
    found = written(gallery=True)
    for name, text in found.items():
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            target = (ROOT / "docs" / name).parent / link
            assert target.resolve().exists(), f"{name}: {link}"


def test_pages_of_what_is_gone_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.report.docs.pages", lambda _: written(gallery=False))
    write_docs(tmp_path, None)
    old, own = tmp_path / "scenarios" / "gone.md", tmp_path / "scenarios" / "by-hand.md"
    old.write_text((tmp_path / "scenarios" / "healthy.md").read_text())
    own.write_text("kept")
    write_docs(tmp_path, None)
    assert not old.exists()
    assert own.exists()
