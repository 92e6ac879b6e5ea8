"""Array primitives that every check is made of: running maxima within groups, and "the largest before".

All are O(n log n) by sorting, or linear when the input is sorted already, and loop over nothing in Python.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checker.history.masks import every, positions, some
from checker.history.operations import I64, MISSING, NEVER, Index

_ROOM: Final = 2**62
Codes = npt.NDArray[np.integer[Any]]


def group_starts(group: Codes) -> Index:
    """Positions at which a new group begins, for codes that are sorted."""
    if not group.size:
        return np.empty(0, np.int64)
    return np.concatenate([[0], positions(group[1:] != group[:-1]) + 1]).astype(np.int64)


def dense(group: Codes) -> I64:
    """Sorted codes renumbered 0, 1, 2… without gaps."""
    numbers = np.zeros(group.size, np.int64)
    np.cumsum(group[1:] != group[:-1], out=numbers[1:])
    return numbers


def both(one: Codes, other: Codes) -> I64:
    """One number for the two codes of each row, of which the second may be -1: equal where both are equal."""
    width = int(other.max(initial=-1)) + 2
    number: I64 = one.astype(np.int64) * width + other + 1
    return number


def running_max(values: I64, group: Codes) -> I64:
    """The maximum up to and including each row within its group (codes sorted), shape (n,).

    Values that never fall within their group are returned as they are, not as a copy.
    """
    if not values.size:
        return values
    if _grows(values, group, None, strictly=False):
        return values
    number = dense(group)
    low, high = int(values.min()), int(values.max())
    span = high - low + 1
    if span * (int(number[-1]) + 1) < _ROOM:
        shift = number * span - low
        return np.maximum.accumulate(values + shift) - shift
    distinct, rank = np.unique(values, return_inverse=True)
    shift = number * distinct.size
    highest: I64 = distinct[np.maximum.accumulate(rank + shift) - shift]
    return highest


class Composite:
    """One sortable integer for (group, stamp), in which order and strictness of stamps survive.

    Of one item at least. Stamps are rebased where that fits into 62 bits and replaced by their ranks where
    it does not. A stamp that was not among the items sorts between its neighbours, a group beyond theirs
    after all of them.
    """

    def __init__(self, group: Codes, stamp: I64) -> None:
        self.base = int(stamp.min()) - 1
        self.groups = int(group.max()) + 2
        self.span = int(stamp.max()) - self.base + 2
        self.distinct: I64 | None = None
        fits = self.base >= MISSING and self.base + self.span < 2**63
        if not fits or self.span * self.groups >= _ROOM:
            self.distinct = np.unique(stamp)
            self.span = 2 * self.distinct.size + 2

    def encode(self, group: Codes, stamp: I64) -> I64:
        """Codes of rows, shape (n,)."""
        base = np.minimum(group, self.groups - 1).astype(np.int64) * self.span
        if self.distinct is None:
            inside: I64 = np.minimum(np.maximum(stamp, self.base), self.base + self.span - 1)
            return base + (inside - self.base)
        left = np.searchsorted(self.distinct, stamp)
        known = self.distinct[np.minimum(left, self.distinct.size - 1)] == stamp
        codes: I64 = base + 2 * left + known
        return codes


def sort_grouped(group: Codes, stamp: I64) -> Index:
    """The order of rows by group, then stamp, then row; linear when stamps grow within each group."""
    order = by_group(group)
    if _grows(stamp, group, order, strictly=False):
        return np.arange(group.size) if order is None else order
    if order is None:
        return np.argsort(Composite(group, stamp).encode(group, stamp), kind="stable")
    group, stamp = group[order], stamp[order]  # a few long runs, which a stable sort merges
    sorted_rows: Index = order[np.argsort(Composite(group, stamp).encode(group, stamp), kind="stable")]
    return sorted_rows


def by_group(group: Codes) -> Index | None:
    """The order of rows by group, then row; None where rows are in this order."""
    if every(group[1:] >= group[:-1]):
        return None
    low, high = int(group.min()), int(group.max())
    if high - low < 2**16:  # 8 and 16 bits: radix sort
        group = (group - low).astype(np.uint8 if high - low < 2**8 else np.uint16)
    return np.argsort(group, kind="stable")


def grow_together(group: Codes, stamp: I64, *values: I64, strictly: bool = False) -> bool:
    """Whether, within each group, stamps and all of the values grow (or stay) from row to row; linear.

    `strictly` asks that each of the values grows.
    """
    order = by_group(group)
    return _grows(stamp, group, order, strictly=False) and all(
        _grows(value, group, order, strictly=strictly) for value in values
    )


def _grows(value: I64, group: Codes, order: Index | None, *, strictly: bool) -> bool:
    if order is not None:
        value = value[order]
    falls = positions(value[1:] <= value[:-1] if strictly else value[1:] < value[:-1])
    if not falls.size:
        return True
    if order is None:  # mostly where a new group begins
        return not some(group[falls + 1] == group[falls])
    return not some(group[order[falls + 1]] == group[order[falls]])


def largest_before(group: Codes, stamp: I64, value: I64, query_group: Codes, query_stamp: I64) -> I64:
    """For every query the largest value of the items of its group with a stamp strictly before it.

    Items have shape (n,), queries shape (m,); the answer has shape (m,), `MISSING` where there is no item.
    """
    if not stamp.size or not query_stamp.size:
        return np.full(query_stamp.size, MISSING, np.int64)
    code = Composite(group, stamp)
    keys = code.encode(group, stamp)
    order = np.argsort(keys, kind="stable")  # merges runs: linear in what is in order already
    keys, items = keys[order], group[order]
    best = running_max(value[order], items)
    queries = code.encode(query_group, query_stamp)
    sequence = np.argsort(queries, kind="stable")
    found = np.empty(queries.size, np.int64)
    found[sequence] = np.searchsorted(keys, queries[sequence])
    last = np.maximum(found - 1, 0)
    valid = (found > 0) & (items[last] == query_group)
    return np.where(valid, best[last], MISSING)


def which_before(group: Codes, stamp: I64, value: I64, query_group: int, query_stamp: int) -> int:
    """The row that `largest_before` found for one query (the earliest such row), -1 if there is none."""
    rows = positions((group == query_group) & (stamp < query_stamp))
    return int(rows[np.argmax(value[rows])]) if rows.size else -1


def longer(ttl_ns: I64, rho: float) -> I64:
    """How long a lease may last by the recorder's clock: TTL·(1+ρ)/(1−ρ), rounded up; `NEVER` stays.

    Two clocks may err, each by `rho`: the node that counts the TTL is slow, the recorder is fast.
    """
    if not ttl_ns.size:
        return ttl_ns
    extra = np.minimum(np.ceil(ttl_ns * (2 * rho / (1 - rho))), float(NEVER))
    lasts: I64 = ttl_ns + extra.astype(np.int64)
    lasts[ttl_ns >= NEVER] = NEVER
    return lasts


def shorter(ttl_ns: I64, rho: float) -> I64:
    """How long a lease lasts at least by the recorder's clock: TTL·(1−ρ)/(1+ρ), rounded down.

    Two clocks may err, each by `rho`: the node that counts the TTL is fast, the recorder is slow.
    """
    if not ttl_ns.size:
        return ttl_ns
    missing = np.ceil(ttl_ns * (2 * rho / (1 + rho)))
    lasts: I64 = ttl_ns - missing.astype(np.int64)
    lasts[ttl_ns >= NEVER] = NEVER
    return lasts


def plus(stamp: I64, duration: I64) -> I64:
    """A stamp and a duration, of which either may be `NEVER`, which swallows the other."""
    total: I64 = stamp + duration
    total[np.maximum(stamp, duration) >= NEVER] = NEVER
    return total
