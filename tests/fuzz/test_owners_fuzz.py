"""Who owns a lock, against brute force: clients under many process names, with grant ids and without."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import get_args

import pytest

from checker import check
from checker.verdict import Property
from tests.fuzz import renamed
from tests.fuzz.owners import draw, judged
from tests.fuzz.renamed import Kind
from tests.fuzzing import examples

pytestmark = pytest.mark.full

HISTORIES = 1_000
LEAST = 20


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_ownership_is_by_client_and_grant(depth: int, fenced: bool) -> None:
    random = Random(f"owners/{depth}/{fenced}")
    seen: Counter[tuple[str, str]] = Counter()
    new_names = 0
    for _ in range(examples(HISTORIES)):
        drawn = draw(random, depth, fenced)
        answer, oracle = judged(drawn, depth, fenced)
        assert answer == oracle, drawn
        seen[answer, oracle] += 1
        new_names += any("/" in draft.process for draft in drawn.drafts)
    assert seen["ok", "ok"] >= LEAST, "too few of them were right"
    assert seen["violated", "violated"] >= LEAST, "too few of them were wrong"
    assert new_names >= HISTORIES // 2


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_where_clients_are_not_recorded_nobody_is_accused_for_a_new_process_number(
    depth: int, fenced: bool
) -> None:
    random = Random(f"numbered/{depth}/{fenced}")
    seen: Counter[tuple[str, str]] = Counter()
    for _ in range(examples(HISTORIES)):
        drawn = draw(random, depth, fenced)
        answer, oracle = judged(drawn, depth, fenced, numbered=True)
        assert answer in (oracle, "unknown"), drawn
        seen[answer, oracle] += 1
    assert seen["ok", "ok"] >= LEAST
    assert seen["violated", "violated"] >= LEAST
    assert seen["unknown", "ok"] >= LEAST // 2, "too few in which it matters who went on"


@pytest.mark.parametrize("prefix", ["", "worker-"])
@pytest.mark.parametrize("kind", get_args(Kind))
def test_no_correct_lock_is_accused_where_only_process_numbers_are_recorded(kind: Kind, prefix: str) -> None:
    seen: Counter[str] = Counter()
    for number in range(examples(HISTORIES // 4)):
        history = renamed.draw(Random(f"{kind}/{number}"), kind, (8, 16, 30, 60)[number % 4], prefix)
        verdict = check(history)
        assert [f.why for p in verdict.properties.values() for f in p.violations] == [], number
        exclusion = verdict[Property.MUTUAL_EXCLUSION]
        seen["open" if "Record the client" in exclusion.why else str(exclusion.outcome)] += 1
    assert seen["ok"] >= LEAST
    assert seen["open"] >= 1
