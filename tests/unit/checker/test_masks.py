"""Questions to masks: the answers of numpy's own methods."""

from __future__ import annotations

import numpy as np
import pytest

from checker.history.masks import count, every, positions, some


@pytest.mark.parametrize("rows", [[], [False], [True], [True, False, True], [True, True]])
def test_the_answers_are_those_of_numpys_methods(rows: list[bool]) -> None:
    mask = np.array(rows, np.bool_)
    assert positions(mask).tolist() == np.flatnonzero(mask).tolist()
    assert [count(mask), some(mask), every(mask)] == [int(mask.sum()), bool(mask.any()), bool(mask.all())]


def test_the_answers_are_plain_values() -> None:
    mask = np.array([True])
    assert [type(answer) for answer in (count(mask), some(mask), every(mask))] == [int, bool, bool]
