"""A few histories of each family against brute force and the search; `tests/fuzz` judges many more."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from checker import check
from checker.history.history import History
from tests.fuzz import live, owners, renamed
from tests.fuzz.linearizability import FAMILIES, run
from tests.fuzz.test_live_fuzz import unknown_to


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FAMILIES)
def test_a_few_of_each_family_agree_with_the_oracle(name: str, seed: int) -> None:
    tally = run(name, 150, seed=100 + seed)
    assert tally.disagreements == []
    assert tally.valid
    assert tally.invalid


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_owners_of_locks_with_and_without_names(depth: int, fenced: bool, numbered: bool) -> None:
    random = Random(f"few owners/{depth}/{fenced}/{numbered}")
    seen = set()
    for _ in range(60):
        drawn = owners.draw(random, depth, fenced)
        answer, oracle = owners.judged(drawn, depth, fenced, numbered=numbered)
        assert answer == oracle or (numbered and answer == "unknown"), drawn
        seen.add(answer)
    assert {"ok", "violated"} <= seen


@pytest.mark.parametrize("kind", get_args(renamed.Kind))
def test_no_correct_lock_of_a_few_is_accused(kind: renamed.Kind) -> None:
    for number in range(24):
        verdict = check(renamed.draw(Random(f"few/{kind}/{number}"), kind, (8, 16, 30, 60)[number % 4]))
        assert [f.why for p in verdict.properties.values() for f in p.violations] == [], number


@pytest.mark.parametrize("certain", [True, False])
@pytest.mark.parametrize("length", [12, 40])
def test_the_live_form_and_the_offline_check_of_a_few(length: int, certain: bool) -> None:
    random = Random(f"few live/{length}/{certain}")
    reported = 0
    for _ in range(20):
        events, params = live.draw(random, length, certain=certain)
        said, judge = live.judged(events, params)
        known = live.offline(History.from_events(events, params))
        assert not unknown_to(known, said), events
        missed = {name for name, _ in set(known) - set(said)}
        assert not certain or missed <= {"false-validity"}, (missed, events)
        assert not certain or not judge.doubts.left_out() or missed <= {"false-validity"}
        reported += len(said)
    assert reported
