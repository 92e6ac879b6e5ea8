"""Array primitives: what sorts where, also what was not among the items."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from checker.history.arrays import (
    Composite,
    both,
    by_group,
    dense,
    group_starts,
    grow_together,
    largest_before,
    longer,
    plus,
    running_max,
    shorter,
    sort_grouped,
    which_before,
)
from checker.history.operations import MISSING, NEVER


@pytest.mark.parametrize("far", [10, 2**61])  # stamps as they are, and by their ranks
def test_a_group_that_is_no_items_sorts_after_all_of_them(far: int) -> None:
    group, stamp = np.array([0, 1]), np.array([5, far])
    code = Composite(group, stamp)
    (beyond,) = code.encode(np.array([2]), np.array([5])).tolist()
    assert beyond > int(code.encode(group, stamp).max())
    assert beyond > int(code.encode(np.array([1]), np.array([far])).max())


@pytest.mark.parametrize("far", [10, 2**61])
def test_a_stamp_beyond_those_of_its_group_sorts_before_the_next_group(far: int) -> None:
    code = Composite(np.array([0, 1]), np.array([far, 5]))
    (before, after) = code.encode(np.array([0, 1]), np.array([far + 10, 5])).tolist()
    assert before < after
    (before, after) = code.encode(np.array([0, 1]), np.array([far, -10])).tolist()
    assert before < after


@pytest.mark.parametrize(
    "stamps", [[MISSING, 5], [MISSING, MISSING + 1], [2**63 - 2, 2**63 - 1], [0, 2**63 - 1]]
)
def test_the_smallest_and_the_largest_stamps_there_are(stamps: list[int]) -> None:
    group, stamp = np.array([0, 0, 1, 1]), np.array(stamps * 2)
    codes = Composite(group, stamp).encode(group, stamp).tolist()
    assert codes == sorted(set(codes))
    assert largest_before(group, stamp, stamp, group, stamp).tolist() == [MISSING, stamps[0]] * 2


@pytest.mark.parametrize("far", [2**16 - 1, 2**16, 2**16 + 1])
def test_groups_that_just_fit_into_16_bits(far: int) -> None:
    order = by_group(np.array([7 + far, 7, 8, 7 + far, 7], np.int32))
    assert order is not None
    assert order.tolist() == [1, 4, 2, 0, 3]


def test_the_largest_before_is_of_the_same_group_and_strictly_before() -> None:
    group, stamp, value = np.array([0, 0, 1]), np.array([1, 3, 2]), np.array([7, 9, 8])
    queries, at = np.array([0, 0, 1, 1, 2]), np.array([3, 4, 2, 3, 9])
    assert largest_before(group, stamp, value, queries, at).tolist() == [7, 9, MISSING, 8, MISSING]
    assert [
        which_before(group, stamp, value, *q) for q in zip(queries.tolist(), at.tolist(), strict=True)
    ] == [*(0, 1, -1, 2, -1)]


Rows = tuple[Any, Any, Any]


def rows(number: int) -> Rows:
    """Groups, stamps and values of a few rows, of every size at which the arithmetic differs."""
    random = Random(number)
    n = random.choice((0, 1, 2, 5, 12, 40))
    groups = random.choice((1, 2, 4, 70_000))
    reach = random.choice((2, 5, 1000, 2**40, 2**61))
    near = (-(2**63) + 1, 2**62 - reach, 2**63 - reach - 1) if reach < 2**61 else (0,)
    base = random.choice((0, 0, 10**9, -(2**61), *near))
    group = [random.randrange(groups) for _ in range(n)]
    stamp = [base + random.randrange(reach) for _ in range(n)]
    value = [random.choice((-1, 1)) * random.randrange(reach) for _ in range(n)]
    if random.random() < 0.3:
        group.sort()
    if random.random() < 0.3:
        stamp.sort()
    return np.array(group, np.int32), np.array(stamp, np.int64), np.array(value, np.int64)


@pytest.mark.parametrize("first", range(0, 600, 50))
def test_all_primitives_against_loops(first: int) -> None:
    for number in range(first, first + 50):
        group, stamp, value = rows(number)
        n = range(group.size)
        g, s, v = group.tolist(), stamp.tolist(), value.tolist()
        assert sort_grouped(group, stamp).tolist() == sorted(n, key=lambda i: (g[i], s[i], i))
        order = by_group(group)
        wanted = sorted(n, key=lambda i: (g[i], i))
        assert (list(n) if order is None else order.tolist()) == wanted
        assert (order is None) == (wanted == list(n))
        pairs = [(i, j) for i in n for j in n if i < j and g[i] == g[j]]
        assert grow_together(group, stamp) == all(s[i] <= s[j] for i, j in pairs)
        assert grow_together(group, stamp, value) == all(s[i] <= s[j] and v[i] <= v[j] for i, j in pairs)
        neighbours = [(i, j) for i, j in pairs if not any(i < k < j and g[k] == g[i] for k in n)]
        assert grow_together(group, stamp, value, strictly=True) == all(
            s[i] <= s[j] and v[i] < v[j] for i, j in neighbours
        )
        assert largest_before(group, stamp, value, group, stamp).tolist() == [
            max((v[j] for j in n if g[j] == g[i] and s[j] < s[i]), default=MISSING) for i in n
        ]
        beside, beyond = stamp + Random(number).choice((-1, 1)), group + 1
        assert largest_before(group, stamp, value, beyond, beside).tolist() == [
            max((v[j] for j in n if g[j] == g[i] + 1 and s[j] < beside[i]), default=MISSING) for i in n
        ]
        for i in n:
            before = [j for j in n if g[j] == g[i] and s[j] < s[i]]
            best = max(before, key=lambda j: (v[j], -j), default=-1)
            assert which_before(group, stamp, value, g[i], s[i]) == best
        placed = np.sort(group)
        p = placed.tolist()
        assert running_max(value, placed).tolist() == [
            max(v[j] for j in n if j <= i and p[j] == p[i]) for i in n
        ]
        assert dense(placed).tolist() == [len({q for q in p if q < p[i]}) for i in n]
        assert group_starts(placed).tolist() == [i for i in n if i == 0 or p[i] != p[i - 1]]


def test_durations_of_clocks_that_err() -> None:
    ttl = np.array([0, 1, 999, 1000, 10**9, NEVER - 1, NEVER, NEVER + 1])
    assert longer(ttl, 0.0).tolist() == [0, 1, 999, 1000, 10**9, NEVER - 1, NEVER, NEVER]
    assert shorter(ttl, 0.0).tolist() == [0, 1, 999, 1000, 10**9, NEVER - 1, NEVER, NEVER]
    assert longer(ttl, 0.25)[:5].tolist() == [0, 2, 1665, 1667, 1_666_666_667]
    assert shorter(ttl, 0.25)[:5].tolist() == [0, 0, 599, 600, 600_000_000]
    assert (longer(ttl, 0.9)[-2:] == NEVER).all()
    assert (shorter(ttl, 0.9)[-2:] == NEVER).all()
    one, two = np.array([1, 1, NEVER, NEVER, NEVER + 5, -3]), np.array([2, NEVER, 2, NEVER, -1, 1])
    assert plus(one, two).tolist() == [3, NEVER, NEVER, NEVER, NEVER, -2]


def test_pairs_of_codes_are_told_apart_and_none_that_is_there_is_negative() -> None:
    for most in (-1, 0, 3):
        pairs = [(one, other) for one in range(4) for other in range(-1, most + 1)]
        numbers = both(*(np.array(codes, np.int32) for codes in zip(*pairs, strict=True))).tolist()
        assert len(set(numbers)) == len(pairs)
        assert min(numbers) >= 0
