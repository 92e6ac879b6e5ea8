"""Long histories are judged by two properties at a time, which must not be seen in the verdict."""

from __future__ import annotations

import sys
from threading import Barrier

import msgspec
import pytest

from checker.errors import HistoryError
from checker.history.evidence import Evidence
from checker.properties import fencing, lease_honesty, resource
from checker.verdict import PropertyVerdict
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.checker.drawn import drawn_builder

MODULE = sys.modules["checker.decide"]


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every history counts as long."""
    monkeypatch.setattr(MODULE, "LONG", 0)


def test_two_properties_are_judged_at_the_same_time(long: None, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier, judged = Barrier(2), lease_honesty.check

    def meet(evidence: Evidence) -> PropertyVerdict:
        barrier.wait(30.0)  # for the other, and never alone
        return judged(evidence)

    monkeypatch.setattr(lease_honesty, "check", meet)
    monkeypatch.setattr(fencing, "check", meet)
    verdict = HistoryBuilder().acquire("alice", "g1", 0, 10).release("alice", "g1", 20, 30).verdict()
    assert verdict["fencing"].outcome == verdict["lease_honesty"].outcome == "ok"


def test_the_verdict_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = set()
    for number in range(200):
        alone = drawn_builder(number).verdict()
        monkeypatch.setattr(MODULE, "LONG", 0)
        together = drawn_builder(number).verdict()
        monkeypatch.undo()
        assert msgspec.json.encode(alone.to_dict()) == msgspec.json.encode(together.to_dict()), number
        outcomes.add(alone.outcome)
    assert {"ok", "violated", "unknown"} <= outcomes


def test_a_check_that_crashes_is_unknown(long: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(evidence: Evidence) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(resource, "check", crash)
    verdict = HistoryBuilder().acquire("alice", "g1", 0, 10).verdict()
    assert verdict["resource"].why == "the check crashed: ZeroDivisionError: by nothing"
    assert verdict["mutual_exclusion"].outcome == "ok"


def test_a_record_that_contradicts_itself_is_an_error(long: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(evidence: Evidence) -> None:
        raise HistoryError("saw nonsense, expected sense")

    monkeypatch.setattr(resource, "check", refuse)
    with pytest.raises(HistoryError, match="saw nonsense"):
        HistoryBuilder().acquire("alice", "g1", 0, 10).verdict()
