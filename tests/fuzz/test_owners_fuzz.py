"""Who owns a lock, against brute force: clients under many process names, with grant ids and without."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.fuzz.owners import draw, judged
from tests.fuzzing import examples

HISTORIES = 1_000
LEAST = 20


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_ownership_is_by_client_and_grant(depth: int, fenced: bool) -> None:
    random = Random(f"owners/{depth}/{fenced}")
    seen: Counter[tuple[str, str]] = Counter()
    renamed = 0
    for _ in range(examples(HISTORIES)):
        drawn = draw(random, depth, fenced)
        answer, oracle = judged(drawn, depth, fenced)
        assert answer == oracle, drawn
        seen[answer, oracle] += 1
        renamed += any("/" in draft.process for draft in drawn.drafts)
    assert seen["ok", "ok"] >= LEAST, "too few of them were right"
    assert seen["violated", "violated"] >= LEAST, "too few of them were wrong"
    assert renamed >= HISTORIES // 2
