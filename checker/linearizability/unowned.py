"""A mutex that does not look at who calls: lazy earliest-deadline-first, O(n log n), exact.

Operations of one kind are interchangeable here, so only deadlines matter. Nothing is ordered before it must
be: at the *return* of an operation, if the state forbids it, the pending operation of the other kind with
the earliest return goes first. Choosing the earliest is safe by exchange (swapping it with a later one
keeps both inside their intervals); waiting is safe because a pending pair can still be put in at any later
instant. A refused try needs the lock to be held at some instant of its interval; if it was free all the
time, the pending acquire with the earliest return has to take effect by then.

Unknown outcomes have no deadline: they fill a gap when nothing else does, and are otherwise left out.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checker.linearizability.columns import ACQUIRE, REFUSED, RELEASE, Column, OpColumns, event_order
from checker.linearizability.compiled import as_column, compiled_kernel, filled, uses_compiler
from checker.linearizability.result import Violation
from checker.linearizability.turns import scanned

# Why a scan stopped on a key.
NO_RELEASE: Final = (
    1 + ACQUIRE
)  # an acquire returned, the lock was held, and every release called so far was used up
NO_ACQUIRE: Final = (
    1 + RELEASE
)  # a release returned, the lock was free, and every acquire called so far was used up
NEVER_HELD: Final = 3  # a try was refused although the lock was free during the whole of it

# Fields of the answer, one row of three per key.
FIELDS: Final = 3


def check_unowned(columns: OpColumns) -> list[Violation]:
    """The first violation on each key that has one. Time O(n log n), any number of keys at once."""
    return scanned(columns, scan_unowned, owners=False)


def scan_unowned(columns: OpColumns) -> list[Violation]:
    """What `check_unowned` answers, by the scan alone; at least one operation."""
    compiled = uses_compiler(len(columns))
    events, starts = _by_key(event_order(columns), columns)
    scan = compiled_kernel(_scan, _earliest) if compiled else _scan
    answers = filled(columns.keys * FIELDS, 0, compiled)
    scan(
        as_column(events, compiled),
        as_column(starts, compiled),
        as_column(columns.kind, compiled),
        as_column(_deadlines(events, columns), compiled),
        as_column(np.zeros(len(columns), np.uint8), compiled),
        answers,
    )
    table = np.asarray(answers, np.int64).reshape(-1, FIELDS)
    return [
        Violation(int(key), int(table[key, 0]), int(table[key, 1]), int(table[key, 2]))
        for key in np.flatnonzero(table[:, 0])
    ]


def _by_key(events: NDArray[np.int32], columns: OpColumns) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The events grouped by key (in order within each), and where each group starts (keys + 1 bounds)."""
    if columns.keys == 1:
        return events, np.array([0, len(events)], np.int64)
    keys = columns.key[events >> 1]
    counts = np.bincount(keys, minlength=columns.keys)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return events[np.argsort(keys, kind="stable")], starts


def _deadlines(events: NDArray[np.int32], columns: OpColumns) -> NDArray[np.int64]:
    """Per op the position of its return in `events`; unknown outcomes lie beyond the end, one after another.

    A refused try waits in no heap: its entry is the position of its call, which is what the scan asks for.
    """
    deadlines = len(events) + np.arange(len(columns), dtype=np.int64)
    position = np.flatnonzero(events & 1)
    deadlines[events[position] >> 1] = position
    position = np.flatnonzero((events & 1) == 0)
    position = position[columns.kind[events[position] >> 1] == REFUSED]
    deadlines[events[position] >> 1] = position
    return deadlines


def _earliest(heap: list[int], now: int) -> int:
    """Take the pending op with the earliest deadline; -1 when none is pending.

    Entries at or before `now` have returned, and were ordered by then.
    """
    while len(heap) > 0 and heap[0] <= now:
        heappop(heap)
    return heappop(heap) if len(heap) > 0 else -1


def _scan(
    events: Column, starts: Column, kind: Column, deadline: Column, ordered: Column, answers: Column
) -> None:
    """Fill `answers` with (reason, earlier op, later op) per key; `ordered` is scratch, 0 for every op."""
    end = len(events)
    for key in range(len(starts) - 1):
        acquires = [0 for _ in range(0)]
        releases = [0 for _ in range(0)]
        held = False
        freed_at = -1
        last = -1
        for now in range(starts[key], starts[key + 1]):
            op = events[now] >> 1
            wanted = kind[op]
            if events[now] & 1 == 0:
                if wanted == ACQUIRE:
                    heappush(acquires, deadline[op])
                elif wanted == RELEASE:
                    heappush(releases, deadline[op])
                continue
            if ordered[op] or (wanted == REFUSED and (held or freed_at > deadline[op])):
                continue
            if wanted == REFUSED or held == (wanted == ACQUIRE):
                first = _earliest(releases if held else acquires, now)
                if first < 0:
                    answers[key * FIELDS] = NEVER_HELD if wanted == REFUSED else 1 + wanted
                    answers[key * FIELDS + 1] = last
                    answers[key * FIELDS + 2] = op
                    break
                last = events[first] >> 1 if first < end else first - end
                ordered[last] = 1
            if wanted == REFUSED:
                held = True
                continue
            held = wanted == ACQUIRE
            last = op
            if not held:
                freed_at = now
