"""The checker says of drawn and golden histories what it said before, down to each number.

That it is right is shown elsewhere, against brute force; this shows that nothing else changed.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.checker.damaged import DAMAGED
from tests.unit.checker.recorded import (
    CASES,
    CHANGED,
    COUNT,
    DENSE,
    FILES,
    GRID,
    NUMBERED,
    changed_line,
    damaged_line,
    dense_line,
    drawn_line,
    file_line,
    golden_line,
    grid_line,
    numbered_line,
    read,
)

RECORD = read()
HINT = "if the change is meant: python -m tests.unit.checker.recorded, then read the diff"


def some(count: int) -> list[object]:
    """The numbers below `count`; five of six are left to `make test-all`."""
    return [pytest.param(number, marks=pytest.mark.full) if number % 6 else number for number in range(count)]


@pytest.mark.parametrize("number", some(COUNT))
def test_a_drawn_history(number: int) -> None:
    assert drawn_line(number) == RECORD[number], HINT


@pytest.mark.parametrize("number", some(GRID))
def test_a_history_on_a_grid(number: int) -> None:
    assert grid_line(number) == RECORD[f"grid {number}"], HINT


@pytest.mark.parametrize("number", some(CHANGED))
def test_a_history_with_changes(number: int) -> None:
    assert changed_line(number) == RECORD[f"changed {number}"], HINT


@pytest.mark.parametrize("number", some(NUMBERED))
def test_a_history_that_names_no_client(number: int) -> None:
    assert numbered_line(number) == RECORD[f"numbered {number}"], HINT


@pytest.mark.parametrize("number", some(DENSE))
def test_many_histories_of_one_kind(number: int) -> None:
    assert dense_line(number) == RECORD[f"dense {number}"], HINT


@pytest.mark.parametrize("case", CASES)
def test_a_golden_history(case: str) -> None:
    assert golden_line(case) == RECORD[case], HINT


@pytest.mark.parametrize("number", some(FILES))
def test_an_edited_text(number: int) -> None:
    assert file_line(number) == RECORD[f"edited {number}"], HINT


@pytest.mark.parametrize("number", some(len(DAMAGED)))
def test_a_damaged_text(number: int) -> None:
    assert damaged_line(number) == RECORD[f"damaged {number}"], HINT


def test_the_record_holds_every_answer() -> None:
    outcomes = Counter(o for line in RECORD.values() for o in line.get("outcomes", {}).values())
    assert min(outcomes[name] for name in ("ok", "absent", "unknown", "violated")) > 20
