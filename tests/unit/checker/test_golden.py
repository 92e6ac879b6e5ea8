"""Every finding has an accepted and a violated twin in tests/golden; each is told by exactly its words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from checker import check
from checker.formats import load

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
CASES = sorted(path.name.removesuffix(".jsonl") for path in GOLDEN.glob("*.jsonl"))


def test_there_are_golden_histories() -> None:
    assert len(CASES) >= 28


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    expected = json.loads((GOLDEN / f"{case}.expected.json").read_text())
    verdict = check(load(GOLDEN / f"{case}.jsonl"))
    reported = verdict.to_dict()
    outcomes = {name: p["outcome"] for name, p in reported["properties"].items()}
    found = sorted({f["name"] for p in reported["properties"].values() for f in p["findings"]})
    assert (outcomes, found) == (expected["outcomes"], expected["findings"]), verdict
    for finding in verdict.findings:
        assert finding.evidence, finding.name
        words = " ".join((finding.headline, *finding.evidence))
        assert not re.search(r"\d{5}|\.\d{3}|t=\+", words), words
