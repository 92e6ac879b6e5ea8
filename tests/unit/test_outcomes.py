"""How operations ended is read from the history alone, and held against what the scenario expects."""

from __future__ import annotations

import pytest

from checker import Verdict
from lab.analysis.comparison import compare
from lab.analysis.outcomes import outcomes
from lab.scenario.load import load_text
from lab.scenario.model import Scenario
from tests.unit.checker.builder import HistoryBuilder


def scenario(*actions: str, **expected: object) -> Scenario:
    operations = {words.replace("_", " "): outcome for words, outcome in expected.items()}
    expect = {"mutual_exclusion": "ok", **({"operations": operations} if operations else {})}
    steps = f"[{{do: {list(actions)}}}]"
    text = f"{{title: t, source: s, why: w, clients: [alice, bob], steps: {steps}, expect: {expect}}}"
    return load_text(text, "s.yaml").scenario


def ended(builder: HistoryBuilder, *actions: str) -> list[str]:
    return [outcome for _, outcome in outcomes(builder.history(), scenario(*actions).steps)]


def test_each_operation_meets_its_action() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 20, 30, "fail")
    builder.extend("alice", "g1", 40, 50).extend("alice", "g1", 60, 70, "fail").release("alice", "g1", 80, 90)
    actions = "alice acquires", "bob acquires", "alice extends", "alice extends", "alice releases"
    assert ended(builder, *actions) == ["ok", "refused", "ok", "refused", "ok"]


def test_what_was_not_asked_for_without_a_lease_is_skipped() -> None:
    builder = HistoryBuilder().acquire("bob", "g1", 0, 10, "fail").acquire("bob", "g2", 20, 30)
    assert ended(builder, "bob acquires", "bob extends", "bob acquires") == ["refused", "skipped", "ok"]


def test_nobody_knows_of_what_never_returned() -> None:
    assert ended(HistoryBuilder().acquire("alice", "g1", 0, None), "alice acquires") == ["unknown"]


def test_work_ends_as_its_first_part_that_does_not_succeed() -> None:
    builder = (
        HistoryBuilder().acquire("alice", "g1", 0, 10).op("alice", "read", 20, 30, key="k", grant_id="g1")
    )
    builder.op("alice", "held", 40, 50, value="no").release("alice", "g1", 60, 70)
    builder.acquire("alice", "g2", 80, 90)
    assert ended(builder, "alice works", "alice acquires") == ["refused", "ok"]


def test_work_that_stops_on_its_way_ends_in_two_parts() -> None:
    builder = (
        HistoryBuilder().acquire("alice", "g1", 0, 10).op("alice", "read", 20, 30, key="k", grant_id="g1")
    )
    builder.release("alice", "g1", 60, 70, "fail")
    assert ended(builder, "alice works until before-write", "alice continues") == ["ok", "refused"]


def test_what_goes_on_unasked_is_no_operation_of_the_history() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10)
    builder.op("alice/renewal of g1", "extend", 15, None, key="k", grant_id="g1")
    assert ended(builder.release("alice", "g1", 60, 70), "alice acquires", "alice extends") == [
        "ok",
        "skipped",
    ]


def test_a_new_life_after_an_unknown_outcome_is_the_same_client() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, "info").acquire("alice/2", "g2", 20, 30)
    assert ended(builder, "alice acquires", "alice acquires") == ["unknown", "ok"]


@pytest.mark.parametrize(
    ("expected", "reported"),
    [
        ("refused", []),
        (["refused", "refused"], []),
        ("ok", [("bob acquires (1 of 2)", "ok", "refused"), ("bob acquires (2 of 2)", "ok", "refused")]),
        (["refused", "unknown"], [("bob acquires (2 of 2)", "unknown", "refused")]),
    ],
)
def test_what_differs_is_told(expected: object, reported: list[tuple[str, str, str]]) -> None:
    builder = HistoryBuilder().acquire("bob", "g1", 0, 10, "fail").acquire("bob", "g2", 20, 30, "fail")
    wanted = scenario("bob acquires", "bob acquires", bob_acquires=expected)
    compared = compare(Verdict({}), builder.history(), wanted)
    assert [(m.what, m.expected, m.seen) for m in compared.mismatches] == reported


def told(error: str, *actions: str, **expected: object) -> list[str]:
    """What differs from the expectation if Bob's acquire was refused with this error."""
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10)
    builder.op("bob", "acquire", 20, 30, "fail", key="k", grant_id="g2", error=error)
    verdict, history = Verdict({}, (), ()), builder.history()
    found = compare(verdict, history, scenario("alice acquires", "bob acquires", **expected)).mismatches
    return [f"{each.expected} | {each.seen}" for each in found if each.what == "bob acquires"]


def test_why_an_operation_was_refused() -> None:
    error = "k: NOREPLICAS Not enough good replicas to write. (1 tries)"
    for reason in ("NOREPLICAS", "Not enough good replicas"):
        assert told(error, bob_acquires={"refused": reason}) == []
    assert told(error, bob_acquires="refused") == []
    assert told(error, bob_acquires=[{"refused": "OOM"}]) == [f"refused: OOM | refused: {error}"]
    assert told(error, bob_acquires={"refused": "REPLICAS"}) == [f"refused: REPLICAS | refused: {error}"]
    assert told(error, bob_acquires={"unknown": "NOREPLICAS"}) == ["unknown | refused"]


def test_a_reason_that_the_history_does_not_have() -> None:
    assert told("", bob_acquires={"refused": "OOM"}) == ["refused: OOM | refused: no reason recorded"]
