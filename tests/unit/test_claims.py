"""The scenarios and the argument: what has to be told is told, each scenario with a clean control."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.publish import COMMANDS, kept
from lab.report.arguments import claims_page, words_of
from lab.report.words import verdict_words
from lab.scenario.claims import ClaimRow, claim_rows, claims
from lab.scenario.files import defect_names, library_names
from lab.scenario.library import Summary
from tests.shipped import SCENARIOS, summaries

ROOT = Path(__file__).resolve().parents[2]
TOLD = [
    "healthy",
    "partition-clockjump",
    "partition-minority",
    "gc-pause-after-acquire",
    "gc-pause-in-flight",
    "pause-before-write",
    "delayed-write",
    "delayed-replies",
    "clock-jump-node",
    "clock-jump-back",
    "clock-jump-client",
    "clock-drift",
    "restart-no-persistence",
    "power-cut-everysec",
    "power-cut-always",
    "restart-clean",
    "restart-delayed",
    "restart-delayed-clockjump",
    "failover-race",
    "single-node-restart",
    "crash-between-setnx-and-expire",
    "late-release",
    "client-crash",
    "minority-down",
    "majority-down",
    "repeated-partitions",
    "split-vote",
    "extend-across-partition",
    "extension-limit",
    "fence-counters-diverge",
    "chaos",
]
"""The scenarios whose names others rely on."""


def scenarios() -> list[Summary]:
    """Those with a control; the others are held against locks (``tests/known_bad``)."""
    reported = (summary for summary in summaries().values() if summary.control_of is None)
    return [summary for summary in reported if summary.name not in defect_names()]


def controls() -> list[Summary]:
    return [summary for summary in summaries().values() if summary.control_of is not None]


@cache
def rows_by_number() -> dict[int, ClaimRow]:
    return {row.claim.number: row for row in claim_rows()}


def test_the_scenarios_that_others_name_are_there() -> None:
    assert set(TOLD) <= set(summaries())


def test_every_scenario_has_a_control_of_its_name() -> None:
    assert [one.name for one in scenarios()] == SCENARIOS
    reported = {one.name: one.control for one in scenarios() if one.name != "healthy"}
    assert reported == {name: f"{name}-control" for name in reported}
    assert {one.name: one.control_of for one in controls()} == {f"{name}-control": name for name in reported}


def test_a_control_expects_something_and_nothing_bad() -> None:
    for control in controls():
        assert set(control.expected.values()) <= {"ok", "absent"}, control.name
        assert {"mutual_exclusion", "resource", "fencing"} <= control.expected.keys(), control.name


def test_every_claim_has_its_row() -> None:
    assert [claim.number for claim in claims()] == list(range(1, 22))
    assert [row.claim for row in claim_rows()] == list(claims())


def test_a_claim_is_tested_or_says_what_it_lacks() -> None:
    for number, row in rows_by_number().items():
        assert row.tested or row.claim.elsewhere, number
        assert all(one.control for one in row.tested if one.scenario != "healthy"), number


@pytest.mark.parametrize(("number", "scenario"), [(1, "pause"), (2, "delayed-write"), (3, "pause")])
def test_claims_about_every_lock_service_are_tested_on_some(number: int, scenario: str) -> None:
    reported = {one.scenario: words_of(one) for one in rows_by_number()[number].tested}
    for service in ("etcd", "zookeeper", "postgres"):
        assert reported[f"{service}-{scenario}-fenced"] == "clean, fenced"


@pytest.mark.parametrize(("number", "service"), [(1, "etcd"), (1, "zookeeper"), (20, "etcd")])
def test_that_no_lock_service_prevents_it_is_shown_where_the_store_checks_nothing(
    number: int, service: str
) -> None:
    reported = {one.scenario: words_of(one) for one in rows_by_number()[number].tested}
    assert reported[f"{service}-pause"].startswith("fencing, resource violated")


def test_a_claim_has_a_conclusion_and_promises_no_later_work() -> None:
    for claim in claims():
        assert len(claim.conclusion.split()) > 8, claim.number
        said = " ".join(filter(None, (claim.conclusion, claim.open, claim.measured, claim.elsewhere)))
        assert not re.search("later survey|not measured|yet", said), claim.number
        assert claim.verdict != "held in part" or re.search(r"not confirmed|did not", claim.conclusion)
        if claim.verdict == "held if":
            found = re.search(r"condition| if |as long as|when|inside", claim.conclusion)
            assert found, f"claim {claim.number} does not say on what condition it holds"


def test_what_cannot_be_decided_is_named_on_both_sides() -> None:
    left = {claim.number for claim in claims() if claim.open}
    assert {1, 3, 13, 14, 20, 21} <= left, "here the two sides differ in judgement"
    assert [claim.number for claim in claims() if claim.verdict == "refuted"] == [11]


def test_scenarios_about_libraries_that_a_claim_names_exist() -> None:
    named = {name for claim in claims() for name in claim.libraries}
    assert named <= set(library_names())
    assert {"sesamecare-late-success", "redlock-clock-back"} <= named


def test_claims_that_rest_on_benchmarks_quote_their_tables() -> None:
    page = (ROOT / "docs" / "measurements.md").read_text()
    assert list(kept(page)) == list(COMMANDS), "python -m benchmarks.publish"
    for number, benchmark in ((17, "split_vote"), (19, "persistence"), (20, "consensus")):
        claim = rows_by_number()[number].claim
        assert claim.measured
        assert f"benchmarks.{benchmark}" in (claim.elsewhere or "")
        printed = kept(page)[benchmark]
        for figure in re.findall(r"\d+\.\d+|\d+ ?%|\d+(?= ms)", claim.measured):
            assert figure in printed, f"claim {number} says {figure}, and the table does not"


def test_what_comes_out_is_told_from_the_files() -> None:
    rows = rows_by_number()
    reported = {one.scenario: words_of(one) for row in rows.values() for one in row.tested}
    assert reported["partition-clockjump"] == (
        "exclusion, fencing, resource violated (overlap, unfenced-write, lost-update)"
    )
    assert reported["gc-pause-in-flight"] == "clean, no fence"
    assert "partition-clockjump-control" not in reported, "a control tests no claim by itself"
    page = claims_page(rows.values(), "")
    assert all(row.claim.claim in page for row in rows.values())


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ({"mutual_exclusion": "ok", "fencing": "absent"}, "clean, no fence"),
        ({"mutual_exclusion": "ok", "fencing": "ok"}, "clean, fenced"),
        ({"mutual_exclusion": "ok", "resource": "unknown"}, "clean; unknown: resource"),
        ({"mutual_exclusion": "unknown", "resource": "unknown"}, "unknown"),
        ({"mutual_exclusion": "violated", "fencing": "absent"}, "exclusion violated (overlap)"),
    ],
)
def test_a_verdict_in_words(outcomes: dict[str, str], words: str) -> None:
    assert verdict_words(outcomes, ["overlap", "overlap"]) == words
