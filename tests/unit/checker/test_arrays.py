"""Array primitives: what sorts where, also what was not among the items."""

from __future__ import annotations

import numpy as np
import pytest

from checker.history.arrays import Composite, largest_before, which_before
from checker.history.operations import MISSING


@pytest.mark.parametrize("far", [10, 2**61])  # stamps as they are, and by their ranks
def test_a_group_that_is_no_items_sorts_after_all_of_them(far: int) -> None:
    group, stamp = np.array([0, 1]), np.array([5, far])
    code = Composite(group, stamp)
    (beyond,) = code.encode(np.array([2]), np.array([5])).tolist()
    assert beyond > int(code.encode(group, stamp).max())
    assert beyond > int(code.encode(np.array([1]), np.array([far])).max())


def test_the_largest_before_is_of_the_same_group_and_strictly_before() -> None:
    group, stamp, value = np.array([0, 0, 1]), np.array([1, 3, 2]), np.array([7, 9, 8])
    queries, at = np.array([0, 0, 1, 1, 2]), np.array([3, 4, 2, 3, 9])
    assert largest_before(group, stamp, value, queries, at).tolist() == [7, 9, MISSING, 8, MISSING]
    assert [
        which_before(group, stamp, value, *q) for q in zip(queries.tolist(), at.tolist(), strict=True)
    ] == [*(0, 1, -1, 2, -1)]
