"""Published histories with the answers that their publishers state; kept outside the repository."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from checker.formats import load
from checker.linearizability import check_linearizability

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "known-answers"
WORDS = {"valid": "ok", "invalid": "violated"}


def published() -> list[tuple[str, str, str]]:
    """File, model and outcome of every history that is there."""
    if not (FOLDER / "expected.csv").is_file():
        return []
    with (FOLDER / "expected.csv").open(newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row and not row[0].startswith("#")]
    return [(name, model, WORDS[expected]) for name, model, expected in rows]


@pytest.mark.skipif(not published(), reason="the published histories (../shared/known-answers) are not here")
@pytest.mark.parametrize(("name", "model", "expected"), published())
def test_published_answer(name: str, model: str, expected: str) -> None:
    history = load(FOLDER / name)
    results = check_linearizability(history.ops, model, zero_ns=history.start_ns)
    assert [result.outcome for result in results] == [expected]
    assert bool(results[0].witness) == (expected == "violated")


@pytest.mark.skipif(not published(), reason="the published histories (../shared/known-answers) are not here")
def test_both_answers_are_among_them() -> None:
    assert {expected for _, _, expected in published()} == {"ok", "violated"}
