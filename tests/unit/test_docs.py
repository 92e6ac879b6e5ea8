"""The documents are those that the files give, and leave out no finding of the checker's."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import get_args

from checker.history.events import Model
from checker.verdict import Property
from lab.drivers.registry import rows
from lab.report.docs import GALLERY, pages
from lab.report.meanings import FINDINGS, PROMISES
from lab.scenario.claims import claims
from lab.scenario.files import consensus_names, defect_names, library_names, names
from lab.scenario.load import load_scenario

ROOT = Path(__file__).resolve().parents[2]
MEASURED = (
    *("selftest.md", "selftest-scenarios.md", "measurements.md", "mutation.md", "recording.md"),
    *("checker.md", "guide.md", "results.md", "glossary.md", "hypothesis.md"),
    *(
        "ordinary-locks.md",
        "testing-a-lock.md",
        "endpoints.md",
        "examined.md",
        "virtual-time.md",
        "servers.md",
        "README.md",
        "debate.md",
        "schedules.md",
    ),
)
"""What is measured or written by hand; see tests/known_bad, test_claims.py and checker/test_alone.py."""
NO_FINDINGS = {
    *("client-crash", "drift-client", "jump-client", "not-held", "real-time"),
    *("earliest-deadline-first", "jepsen-log", "lock-lab", "max-size", "not-known", "time-ns"),
    *("key-set", "key-deleted", "key-observed", "key-touched", "node-down", "node-up", "node-left"),
}
"""Other words with a hyphen in the checker: faults, errors, edges, an algorithm, a format, events."""


@cache
def written(*, gallery: bool) -> dict[str, str]:
    """The pages that the files give, with what they show of the gallery or without."""
    return pages(ROOT / GALLERY if gallery else None, ROOT / "docs")


def test_they_are_current() -> None:
    kept = {
        str(path.relative_to(ROOT / "docs")): path.read_text(encoding="utf-8")
        for path in (ROOT / "docs").rglob("*.md")
        if str(path.relative_to(ROOT / "docs")) not in MEASURED
    }
    assert written(gallery=True) == kept, "python -m lab.report.docs writes them anew"


def test_every_finding_and_property_has_its_words() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "checker").rglob("*.py"))
    named = set(re.findall(r'"((?:[a-z]+-)+[a-z]+|cycle|deadlock|leak|overlap|overtaken|unavailable)"', text))
    models = {word for word in named if word.endswith(("mutex", "register"))} | set(get_args(Model))
    assert set(FINDINGS) == named - models - NO_FINDINGS
    assert set(PROMISES) == set(Property)


def test_every_scenario_and_every_finding_has_its_place_in_the_index() -> None:
    found = written(gallery=False)
    for name in (*names(), *defect_names(), *library_names(), *consensus_names()):
        place = next((ROOT / "scenarios").rglob(f"{name}.yaml")).relative_to(ROOT)
        listed = f"| [{name}](../{place.as_posix()}) | " in found["scenarios.md"]
        assert listed == (load_scenario(name).scenario.control_of is None), name
    assert all(f"\n## {name}\n" in found["findings.md"] for name in FINDINGS)


def test_every_claim_and_every_implementation_is_told() -> None:
    found = written(gallery=False)
    for claim in claims():
        assert f"## Claim {claim.number}\n" in found["claims.md"]
        assert f"**Conclusion: {claim.verdict}.** {claim.conclusion}" in found["claims.md"]
        assert claim.open is None or f"No run can decide: {claim.open}" in found["claims.md"]
        assert all(f"“{each}”" in found["claims.md"] for words in claim.quoted.values() for each in words)
    table = found["implementations.md"]
    for name, row in rows().items():
        (line,) = [
            line for line in table.splitlines() if line.startswith(f"| {row.library} ") and row.what in line
        ]
        assert ("driven: `driver:" in line) == (not row.unavailable), name
        assert ("modelled: `" in line) == bool(row.modelled), name
        assert row.unavailable in line
    assert "[hyperf-clock-back](../scenarios/hyperf-clock-back.yaml)" in table
    assert "[redlock-py-clock-back](../scenarios/libraries/redlock-py-clock-back.yaml)" in table
