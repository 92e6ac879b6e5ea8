"""The live form against the offline check: it accuses nobody else, and where it claims to, everybody."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest

from checker.history.events import Event
from checker.history.history import History
from checker.verdict import Finding
from tests.fuzz.live import NAMES, Told, draw, judged, offline

pytestmark = pytest.mark.full

HISTORIES = 80
SEVERAL = frozenset(("stale-write", "unfenced-write", "fence-breach", "fence-order"))
"""Findings for which the offline check may choose another witness that came later."""


def listed_in_full(findings: list[Finding]) -> bool:
    """Whether the offline check lists all findings of a name, not only the first few."""
    return bool(len(findings) >= findings[0].details.get("count", 1))


def unknown_to(known: Told, live: Told) -> set[str]:
    """The names that are reported live, of which the offline check has no such finding on that key."""
    by_name: dict[str, list[Finding]] = {}
    for (name, _), findings in known.items():
        by_name.setdefault(name, []).extend(findings)
    extra = {name for name, key in live if name not in by_name}
    return extra | {
        n for n, key in live if n in by_name and listed_in_full(by_name[n]) and (n, key) not in known
    }


@pytest.mark.parametrize("length", [12, 40, 120])
def test_with_known_outcomes_both_forms_find_the_same(length: int) -> None:
    random = Random(f"live/{length}")
    met: Counter[str] = Counter()
    clean = witnessed = 0
    for _ in range(HISTORIES):
        events, params = draw(random, length, certain=True)
        live, judge = judged(events, params)
        known = offline(History.from_events(events, params))
        assert not any("unknown" in what or "forgotten" in what for what in judge.doubts.left_out())
        assert not unknown_to(known, live), events
        missed = {name for name, key in set(known) - set(live)}
        assert missed <= {"false-validity"}, (missed, events)
        assert not missed or any("stall" in what for what in judge.doubts.left_out()), events
        met.update(name for name, _ in live)
        clean += not live
        for name, findings in live.items():
            same = any(set(findings[0].witnesses) <= set(f.witnesses) for f in known.get(name, ()))
            witnessed += same
            if length == 12:  # so short that there is seldom more than one pair of witnesses
                assert same or len(known[name]) > 1 or name[0] in SEVERAL, (findings, known[name])
    assert set(met) == NAMES if length == 120 else length == 40 or clean > 0
    assert witnessed > 0.8 * sum(met.values())


@pytest.mark.parametrize("length", [12, 40, 120])
def test_with_unknown_outcomes_nothing_is_reported_that_the_offline_check_does_not_find(length: int) -> None:
    random = Random(f"live/unknown/{length}")
    reported = 0
    for _ in range(HISTORIES):
        events, params = draw(random, length, certain=False)
        live, _ = judged(events, params)
        known = offline(History.from_events(events, params))
        assert not unknown_to(known, live), events
        reported += len(live)
    assert reported


def without_ids(events: list[Event], *, numbered: bool) -> list[Event]:
    """The same record by a tool that names no grants; `numbered`: and no clients, as Jepsen does not."""
    numbers: dict[str, str] = {}
    return [
        msgspec.structs.replace(
            event,
            grant_id=None,
            client=None if numbered else event.client,
            process=numbers.setdefault(event.process, str(len(numbers))) if numbered else event.process,
        )
        for event in events
    ]


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("certain", [False, True])
@pytest.mark.parametrize("model", [None, "lease", "owner-mutex"])
def test_without_ids_of_grants_nothing_is_reported_that_the_offline_check_does_not_find(
    certain: bool, numbered: bool, model: str | None
) -> None:
    random = Random(f"live/bare/{certain}/{numbered}/{model}")
    reported = 0
    for number in range(2 * HISTORIES):
        drawn, params = draw(random, (12, 40)[number % 2], certain=certain)
        params = msgspec.structs.replace(params, model=model)
        events = without_ids(drawn, numbered=numbered)
        live, _ = judged(events, params)
        known = offline(History.from_events(events, params))
        assert not unknown_to(known, live), events
        reported += sum(name == "overlap" for name, _ in live)
    assert reported
