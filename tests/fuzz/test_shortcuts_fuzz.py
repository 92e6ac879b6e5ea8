"""Shortcuts for what is in order anyway: with and without them every verdict is the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker import check
from checker.history import accesses
from checker.history.arrays import grow_together, sort_grouped
from checker.history.history import History
from checker.history.operations import NEVER
from checker.properties import fencing
from tests.fuzz.live import draw
from tests.fuzzing import examples
from tests.unit.checker.builder import HistoryBuilder, names

HISTORIES = 150
ROWS = st.lists(st.tuples(st.sampled_from([-1, 0, 1, 2, 65_536]), st.integers(-3, 3)), max_size=12)


@pytest.mark.parametrize("length", [12, 40])
def test_verdicts_are_the_same_without_shortcuts(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"shortcuts/{length}")
    answers: list[bool] = []

    def counted(*arguments: Any, **named: Any) -> bool:
        answers.append(grow_together(*arguments, **named))
        return answers[-1]

    for _ in range(HISTORIES):
        events, params = draw(random, length, certain=False)
        history = History.from_events(events, params)
        monkeypatch.setattr(fencing, "grow_together", counted)
        quick = check(history).to_dict()
        with monkeypatch.context() as without:
            without.setattr(fencing, "grow_together", lambda *_, **__: False)
            without.setattr(accesses, "running_max", lambda values, _: np.full_like(values, NEVER))
            assert check(history).to_dict() == quick, events
    assert answers.count(True) > HISTORIES // 2
    assert answers.count(False) > HISTORIES // 10


def test_a_write_that_was_under_way_for_long_is_late_by_its_version() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).write("alice", "g1", 20, 200, None, 2)
    builder.acquire("bob", "g2", 50, 60).write("bob", "g2", 70, 80, None, 1)
    assert "unfenced-write" in names(builder.verdict())


def test_a_cycle_is_found_also_between_writes_that_are_not_neighbours() -> None:
    builder = HistoryBuilder().write("carol", None, 0, 50, None, 3).write("bob", None, 5, 200, None, 2)
    assert "cycle" in names(builder.write("alice", None, 100, 110, None, 1).verdict())


@settings(max_examples=examples(300), deadline=None)
@given(ROWS)
def test_sorting_by_group_is_sorting_by_group_stamp_and_row(rows: list[tuple[int, int]]) -> None:
    group, stamp = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    expected = sorted(range(len(rows)), key=lambda at: (*rows[at], at))
    assert sort_grouped(group, stamp).tolist() == expected


@settings(max_examples=examples(300), deadline=None)
@given(ROWS, st.booleans())
def test_growing_together_is_told_of_each_group(rows: list[tuple[int, int]], strictly: bool) -> None:
    group, value = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    stamp = np.arange(len(rows))
    grows = all(
        a < b if strictly else a <= b
        for g in set(group.tolist())
        for a, b in zip(value[group == g].tolist(), value[group == g].tolist()[1:], strict=False)
    )
    assert grow_together(group, stamp, value, strictly=strictly) == grows
    if len(set(group.tolist())) < len(rows):
        assert not grow_together(group, -stamp, value, strictly=strictly)
