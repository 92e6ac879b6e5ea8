"""Published histories with the answers that their publishers state; kept outside the repository."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from checker import check
from checker.formats import load
from checker.linearizability import check_linearizability

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "known-answers"
WORDS = {"valid": "ok", "invalid": "violated"}
AS_FOUND = {
    "raft-bug-register.edn": {"ok"},
    "raft-bug-register.txt": {"ok"},
    "gator-prefix.txt": {"ok"},
    "redis-latency-register.txt": {"ok", "unknown"},  # no answer is published, and the search is long
    "jepsen-log-current.log": {"ok"},
    "omnipaxos-kv-prefix.edn": {"ok"},
    "elle-cli-mutex-etcd.json": {"violated"},
}
"""Histories that people published with their projects: what their own tools say of them."""


def rows(name: str) -> list[list[str]]:
    """The rows of a table that is there."""
    if not (FOLDER / name).is_file():
        return []
    with (FOLDER / name).open(newline="") as file:
        return [row for row in csv.reader(file, skipinitialspace=True) if row and not row[0].startswith("#")]


def published() -> list[tuple[str, str, str]]:
    """File, model and outcome of every history that is there."""
    return [(name, model, WORDS[expected]) for name, model, expected in rows("expected.csv")]


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


@pytest.mark.skipif(not rows("as-found.csv"), reason="the histories (../shared/known-answers) are not here")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name.startswith("redis-latency") else ())
        for name, *_ in rows("as-found.csv")
    ],
)
def test_histories_as_they_were_found_are_read_and_judged_as_their_own_tools_do(name: str) -> None:
    assert str(check(load(FOLDER / name)).outcome) in AS_FOUND[name]
