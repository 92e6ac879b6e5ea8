"""Whether the sessions on a key follow one another, decided on whole arrays; O(n) when nearly in order.

In most histories, also of contended locks, every acquire returns after the release of the session before it
was called, and is followed by a release of the same process. Then acquires in the order of their returns and
releases in the order of their calls alternate, and ordering each acquire at its return and each release at
its call is a linearization. So a key that passes here is linearizable as an owned mutex (of any depth, and
with `fenced` also by its fences), and as a mutex without owners.

A key that fails here is only left undecided: nested sessions, releases of unknown outcome by a process that
does not hold, refused tries, and violations are left to the scans (`owned`, `unowned`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checker.history.arrays import sort_grouped
from checker.linearizability.columns import (
    ACQUIRE,
    NO_FENCE,
    REFUSED,
    RELEASE,
    IntArray,
    OpColumns,
)
from checker.linearizability.result import Violation

BLOCK: Final = 2**16
Bools = NDArray[np.bool_]


def in_turns(columns: OpColumns, *, owners: bool = True, fenced: bool = False) -> Bools:
    """Shape (keys,): True where sessions follow one another, which proves that the key is linearizable.

    `owners` asks that every release is made by the process that acquired; `fenced` that fences grow.
    """
    fine = np.ones(columns.keys, np.bool_)
    fine[columns.key[columns.kind == REFUSED]] = False
    opens = np.flatnonzero((columns.kind == ACQUIRE) & columns.certain)
    closes = np.flatnonzero(columns.kind == RELEASE)
    opened, closed = (_count(columns, rows) for rows in (opens, closes))
    fine &= (opened == closed) | (opened == closed + 1)
    if not bool(fine.all()):
        opens, closes = opens[fine[columns.key[opens]]], closes[fine[columns.key[closes]]]
        opened, closed = np.where(fine, opened, 0), np.where(fine, closed, 0)
    acquired = _Events(columns, columns.returned, columns.return_index)
    released = _Events(columns, columns.called, columns.call_index)
    opens, closes = acquired.in_order(opens), released.in_order(closes)
    # The i-th acquire of a key with its i-th release, and with the release before; the last may have none.
    last_open, last_close, open_ended = np.cumsum(opened) - 1, np.cumsum(closed) - 1, opened > closed
    paired = _without(opens, last_open[open_ended])
    following = _without(opens, (last_open - opened + 1)[opened > 0])
    preceding = _without(closes, last_close[~open_ended & (closed > 0)])
    for part in _blocks(len(closes)):
        right = acquired.precede(paired[part], released, closes[part])
        if owners:
            right &= columns.process[paired[part]] == columns.process[closes[part]]
        fine[columns.key[paired[part][~right]]] = False
    for part in _blocks(len(following)):
        right = released.precede(preceding[part], acquired, following[part])
        fine[columns.key[following[part][~right]]] = False
    if fenced:
        shown = opens[columns.fence[opens] != NO_FENCE]
        fence, key = columns.fence[shown], columns.key[shown]
        fine[key[1:][(fence[1:] <= fence[:-1]) & (key[1:] == key[:-1])]] = False
    return fine


def scanned(
    columns: OpColumns,
    scan: Callable[[OpColumns], list[Violation]],
    *,
    owners: bool = True,
    fenced: bool = False,
) -> list[Violation]:
    """What `scan` answers about the keys that `in_turns` leaves undecided; places are those in `columns`."""
    doubtful = ~in_turns(columns, owners=owners, fenced=fenced)
    if not bool(doubtful.any()):
        return []
    rows = np.flatnonzero(doubtful[columns.key])
    some = columns if len(rows) == len(columns) else columns.select(rows)
    return [
        Violation(v.key, v.reason, int(rows[v.earlier]) if v.earlier >= 0 else -1, int(rows[v.later]))
        for v in scan(some)
    ]


@dataclass(frozen=True, slots=True)
class _Events:
    """The calls, or the returns, of all operations."""

    columns: OpColumns
    stamp: IntArray
    index: IntArray | None

    def in_order(self, rows: IntArray) -> IntArray:
        """The rows, which ascend, by key, then stamp, then index."""
        stamp, key = self.stamp[rows], self.columns.key
        if self.columns.keys > 1:
            rows = rows[sort_grouped(key[rows], stamp)]
        elif bool((stamp[1:] < stamp[:-1]).any()):
            rows = rows[np.argsort(stamp)]
        if self.index is None:
            return rows
        for part in _blocks(len(rows) - 1):
            one, two = rows[part], rows[part.start + 1 : part.stop + 1]
            tied = (self.stamp[one] == self.stamp[two]) & (key[one] == key[two])
            if bool(tied.any()) and bool((self.index[one] > self.index[two])[tied].any()):
                return rows[np.lexsort((self.index[rows], self.stamp[rows], key[rows]))]
        return rows

    def precede(self, rows: IntArray, other: _Events, others: IntArray) -> Bools:
        """Shape (n,): True where the event of a row comes before the other event of the other row."""
        stamp, later = self.stamp[rows], other.stamp[others]
        before = stamp < later
        if self.index is not None and other.index is not None and not bool(before.all()):
            before |= (stamp == later) & (self.index[rows] < other.index[others])
        return before


def _count(columns: OpColumns, rows: IntArray) -> IntArray:
    if columns.keys == 1:
        return np.array([len(rows)], np.int64)
    return np.bincount(columns.key[rows], minlength=columns.keys)


def _without(rows: IntArray, positions: IntArray) -> IntArray:
    """The rows but for those at some positions; no copy where the first or the last is all that goes."""
    if len(positions) == 1 and positions[0] in (0, len(rows) - 1):
        return rows[1:] if positions[0] == 0 else rows[:-1]
    return np.delete(rows, positions) if len(positions) else rows


def _blocks(length: int) -> Iterator[slice]:
    """Slices that cover 0..length; temporary arrays of their size stay in the processor's cache."""
    for start in range(0, length, BLOCK):
        yield slice(start, min(start + BLOCK, length))
