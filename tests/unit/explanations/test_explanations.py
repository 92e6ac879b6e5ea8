"""Explanations: the shortest witness is one, and every finding has its argument."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from checker import check
from checker.explanations import explain, explanations
from checker.explanations.argument import ARGUMENTS
from checker.explanations.witness import _reduced, _wholes, shortest_witness, shows
from checker.formats import load
from checker.history.evidence import Evidence
from checker.verdict import Severity
from lab.report.meanings import FINDINGS
from tests.unit.checker.builder import MS, HistoryBuilder

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
VIOLATED = sorted(path.name.removesuffix(".jsonl") for path in GOLDEN.glob("*-violated.jsonl"))


@pytest.mark.parametrize("case", VIOLATED)
def test_a_witness_is_violated_for_the_same_reason(case: str) -> None:
    history = load(GOLDEN / f"{case}.jsonl")
    model = Evidence(history).model
    for finding in check(history).findings:
        if finding.severity is not Severity.INFORMATION:
            witness = shortest_witness(history, finding)
            assert shows(witness, finding, model)
            assert set(witness.ops.call_index) <= set(history.ops.call_index)


def noise(builder: HistoryBuilder, random: Random, sessions: int) -> HistoryBuilder:
    """Sessions of others on the same key, before and after, and on another key meanwhile."""
    for number in range(sessions):
        who, at = f"client-{random.randrange(5)}", 20_000 + 100 * number
        builder.acquire(who, f"n{number}", at, at + 5, ttl=None).op(
            who, "release", at + 50, at + 60, grant_id=f"n{number}"
        )
        other = f"other-{number % 3}"
        builder.acquire(other, f"o{number}", at, at + 5, ttl=None, key=f"k{number % 3}")
        builder.op(other, "release", at + 50, at + 60, grant_id=f"o{number}", key=f"k{number % 3}")
    return builder


def test_two_grants_are_left_of_a_long_history() -> None:
    builder = noise(HistoryBuilder(), Random(1), 200)
    builder.acquire("alice", "a", 0, 10).acquire("bob", "b", 500, 510)
    builder.read("alice", "a", 20, 21, 0).write("alice", "a", 30, 31, 0, 1)
    history = builder.history()
    (finding,) = check(history).named("overlap")
    witness = shortest_witness(history, finding)
    assert sorted(witness.ops.name("grant", row) for row in range(len(witness.ops))) == ["a", "b"]
    explanation = explain(history, finding)
    assert (explanation.size, explanation.of) == (2, len(history.ops))
    assert "alice" not in explanation.however
    assert "alice held it at least from 10 ms" in explanation.because[0]
    assert "bob held it" in explanation.however


def test_nothing_can_be_left_out_of_a_witness() -> None:
    builder = noise(HistoryBuilder(), Random(2), 20)
    builder.acquire("alice", "a", 0, 10).acquire("bob", "b", 500, 510).op(
        "alice", "release", 600, 610, grant_id="a"
    )
    history = builder.history()
    (finding,) = check(history).named("overlap")
    witness = shortest_witness(history, finding)
    grants = witness.ops.grant
    for one in np.unique(grants):
        fewer = replace(witness, ops=witness.ops.take(grants != one), source=None)
        assert not shows(fewer, finding, "lease")
    # The release ends the window of alice: without it, the witness would claim more than the history.
    assert len(witness.ops) == 3


def test_who_may_have_held_the_lock_stays_when_refusals_are_the_point() -> None:
    history = load(GOLDEN / "leak-violated.jsonl")
    (finding,) = check(history).named("leak")
    witness = shortest_witness(history, finding)
    held = [
        row for row in range(len(history.ops)) if history.ops.f[row] == 0 and history.ops.status[row] != 1
    ]
    assert {int(history.ops.call_index[row]) for row in held} <= set(witness.ops.call_index.tolist())


def test_an_earlier_grant_stays_that_may_explain_a_leak_away_and_one_of_another_key_goes() -> None:
    builder = (
        HistoryBuilder(grace_ns=1_000 * MS)
        .acquire("carol", "earlier", 0, 10)
        .release("carol", "earlier", 20, 30)
    )
    builder.acquire("carol", "other", 40, 50, key="other").op(
        "carol", "release", 60, 70, grant_id="other", key="other"
    )
    builder.acquire("alice", "lost", 100, 110)
    for number in range(50):
        at = 200 + 100 * number
        builder.acquire("bob", f"b{number}", at, at + 50, "fail", error="held")
    history = builder.history()
    (finding,) = check(history).named("leak")
    rows = np.arange(len(history.ops))
    without = rows[[history.ops.name("grant", int(row)) not in ("earlier", "other") for row in rows]]
    assert shows(replace(history, ops=history.ops.take(without), source=None), finding, "lease")
    witness = shortest_witness(history, finding)
    kept = {witness.ops.name("grant", row) for row in range(len(witness.ops))}
    assert {"earlier", "lost"} <= kept
    assert "other" not in kept


def test_values_of_a_register_go_together() -> None:
    builder = HistoryBuilder(model="cas-register")
    for number in range(10):
        builder.op("bob", "write", 10 * number, 10 * number + 1, value=number)
        builder.op("bob", "read", 10 * number + 2, 10 * number + 3, value=number)
    builder.op("alice", "write", 200, 201, value="x").op("bob", "write", 202, 203, value="y")
    builder.op("alice", "read", 204, 205, value="x")
    history = builder.history()
    (finding,) = check(history).named("not-linearizable")
    witness = shortest_witness(history, finding)
    assert {witness.ops.name("value", row) for row in range(len(witness.ops))} == {"x", "y"}


def test_every_finding_that_accuses_has_an_argument() -> None:
    blamed = {name for name, meaning in FINDINGS.items() if not meaning.counts.startswith("information")}
    assert blamed == set(ARGUMENTS)


def test_the_command_line_explains(tmp_path: Path) -> None:
    case = str(GOLDEN / "overlap-violated.jsonl")
    command = [sys.executable, "-m", "checker", case, "--explain"]
    text = subprocess.run(command, capture_output=True, text=True, check=False)
    assert text.returncode == 1
    assert [line.split()[0] for line in text.stdout.splitlines()[-3:]] == ["because", "however", "a"]
    reported = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=False).stdout)
    assert reported["explanations"][0]["operations_in_witness"] == 2


def test_nothing_is_explained_where_nothing_was_found() -> None:
    history = HistoryBuilder().acquire("alice", "a", 0, 10).history()
    assert list(explanations(history, check(history))) == []


def test_what_is_not_needed_is_left_out_of_a_larger_part() -> None:
    builder = noise(HistoryBuilder(), Random(3), 5).acquire("alice", "a", 0, 10).acquire("bob", "b", 500, 510)
    history = builder.history()
    (finding,) = check(history).named("overlap")
    evidence = Evidence(history)
    rows = np.arange(len(history.ops))
    part = _reduced(history, evidence, finding, _wholes(evidence, finding), rows)
    assert sorted(part.ops.name("grant", row) for row in range(len(part.ops))) == ["a", "b"]
