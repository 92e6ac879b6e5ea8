"""Events at one stamp come in the order in which they were recorded."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from checker import check
from checker.history.history import History
from checker.properties.linearizable import WINDOWED
from checker.verdict import Property
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.checker.drawn import mutex, register

JUDGED = (Property.MUTUAL_EXCLUSION, Property.RESOURCE)
TIMELESS = ("mutex", "owner-mutex", "reentrant-mutex", "fenced-mutex", "reentrant-fenced-mutex")


def compare(made: HistoryBuilder, model: str | None, together: int) -> set[str]:
    """The outcomes of a history with a stamp for each event, which those with one for several must be."""
    answers = []
    for several in (1, together):
        events = [
            msgspec.structs.replace(event, time_ns=i // several, client=None)
            for i, event in enumerate(made.events())
        ]
        verdict = check(History.from_events(events, made.params), model=model)
        exclusion, resource = (verdict.properties.get(name) for name in JUDGED)
        outcomes = {
            "lock": exclusion and str(exclusion.outcome),
            "register": resource and str(resource.outcome),
        }
        found = [f.witnesses for f in verdict.findings if f.name == "not-linearizable"]
        answers.append((outcomes, [] if model in WINDOWED else found))
    assert answers[0] == answers[1], (made.params, made.events())
    return {outcome for outcome in answers[0][0].values() if outcome}


@pytest.mark.parametrize("model", TIMELESS)
def test_a_mutex_is_judged_alike_with_one_stamp_for_several_events(model: str) -> None:
    seen = set()
    for number in range(40):
        seen |= compare(mutex(Random(number)), model, 2 + number % 4)
    assert {"ok", "violated"} <= seen


def test_a_register_is_judged_alike_with_one_stamp_for_several_events() -> None:
    seen = set()
    for number in range(40):
        seen |= compare(register(Random(number)), None, 2 + number % 4)
    assert {"ok", "violated"} <= seen
