"""The operations of a lock as plain arrays, and the one order of their calls and returns.

Every algorithm of this package reads `OpColumns` and nothing else, so it can be fed from a recorded
history, a foreign log or a generator alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from checker.history.operations import MISSING, NEVER

# What an operation asks of the lock. A refused try is a certain operation that saw the lock held by somebody.
ACQUIRE: Final = 0
RELEASE: Final = 1
REFUSED: Final = 2
KIND_NAMES: Final = ("acquire", "release", "refused acquire")

# `fence` of an operation that was given none.
NO_FENCE: Final = MISSING

IntArray: TypeAlias = NDArray[np.int64]
# Kernels run on arrays when compiled and on lists when interpreted (a list is 3x faster to index one by one).
Column: TypeAlias = "NDArray[np.integer] | NDArray[np.bool_] | list[int]"


@dataclass(frozen=True, slots=True)
class OpColumns:
    """Lock operations, one per row; all arrays have the same length n.

    `called` and `returned` are stamps in one total order of all calls and returns. Without the two index
    columns they are ranks: distinct and >= 0, op a precedes op b iff `returned[a] < called[b]`. With them
    they are times, of which equal ones are ordered by event index; `ranked` turns these into ranks, which
    costs a sort that not every check needs. `returned` is `NEVER` for an operation of unknown outcome: it
    may take effect at any time after its call, or not at all.
    """

    kind: NDArray[np.int8]  # ACQUIRE | RELEASE | REFUSED
    process: NDArray[np.int32]  # dense code of the process, >= 0
    key: NDArray[np.int32]  # dense code of the lock's key, >= 0
    called: IntArray
    returned: IntArray
    fence: IntArray  # NO_FENCE where there is none
    row: IntArray  # where this operation stands in the caller's own table; witnesses are given in these
    call_index: IntArray | None = None
    return_index: IntArray | None = None

    def __len__(self) -> int:
        """Number of operations."""
        return len(self.kind)

    @property
    def keys(self) -> int:
        """Number of key codes in use (the largest code + 1)."""
        return int(self.key.max()) + 1 if len(self.key) else 0

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Shape (n,): True where the operation is known to have taken effect."""
        return np.not_equal(self.returned, NEVER)

    def select(self, keep: NDArray[np.bool_] | IntArray) -> OpColumns:
        """Keep the rows of a mask or an index array; ranks stay as they are (gaps in them are allowed)."""
        return OpColumns(
            kind=self.kind[keep],
            process=self.process[keep],
            key=self.key[keep],
            called=self.called[keep],
            returned=self.returned[keep],
            fence=self.fence[keep],
            row=self.row[keep],
            call_index=None if self.call_index is None else self.call_index[keep],
            return_index=None if self.return_index is None else self.return_index[keep],
        )

    def ranked(self) -> OpColumns:
        """The same operations with ranks for stamps."""
        if self.call_index is None or self.return_index is None:
            return self
        called, returned = rank_events(self.called, self.call_index, self.returned, self.return_index)
        return replace(self, called=called, returned=returned, call_index=None, return_index=None)


def precedes(
    stamp: IntArray, index: IntArray | None, other: IntArray, other_index: IntArray | None
) -> NDArray[np.bool_]:
    """Shape (n,): True where the event at `stamp` comes before the one at `other`."""
    before = stamp < other
    if index is None or other_index is None:
        return before
    tied = stamp == other
    return before | (tied & (index < other_index)) if bool(tied.any()) else before


def rank_events(
    call_ns: IntArray, call_index: IntArray, return_ns: IntArray, return_index: IntArray
) -> tuple[IntArray, IntArray]:
    """Ranks of calls and returns in the order of (time, event index); `return_ns == NEVER` stays `NEVER`.

    When times grow with the index, as one recorder writes them, the index itself is the rank and nothing is
    sorted. Times in ns, all arrays of shape (n,). Two events may not share an index.
    """
    known = return_ns != NEVER
    times = np.concatenate([call_ns, return_ns[known]])
    index = np.concatenate([call_index, return_index[known]])
    size = int(index.max()) + 1 if len(index) else 0
    if size <= 4 * len(index):
        by_index = np.full(size, np.iinfo(np.int64).min, np.int64)
        by_index[index] = times
        present = by_index[by_index != np.iinfo(np.int64).min]
        if bool((present[1:] >= present[:-1]).all()):
            returned = np.where(known, return_index, NEVER)
            return call_index.astype(np.int64, copy=False), returned
    order = _by_time(times, index)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    returned = np.full(len(call_ns), NEVER, np.int64)
    returned[known] = rank[len(call_ns) :]
    return rank[: len(call_ns)], returned


def _by_time(times: IntArray, index: IntArray) -> IntArray:
    """Positions in the order of (time, index): a plain sort by time, then only what is tied by index."""
    order = np.argsort(times, kind="stable")  # merges the runs that calls and returns come in
    in_order = times[order]
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = in_order[1:] == in_order[:-1]
    tied[:-1] |= tied[1:]
    among = order[tied]
    order[tied] = among[np.lexsort((index[among], times[among]))]
    return order


def event_order(columns: OpColumns) -> NDArray[np.int32]:
    """All calls and returns in order: `2*op` for the call of an op, `2*op + 1` for its return.

    Linear when the ranks are nearly dense (as they come from one history), a sort otherwise.
    """
    columns = columns.ranked()
    n = len(columns)
    ops = np.arange(n, dtype=np.int32)
    known = columns.certain
    size = n + int(known.sum())
    top = int(max(columns.called.max(), columns.returned[known].max(initial=0))) + 1 if n else 0
    if top <= 3 * size + 1024:
        slots = np.full(top, -1, np.int32)
        slots[columns.called] = 2 * ops
        slots[columns.returned[known]] = 2 * ops[known] + 1
        events = slots if size == top else slots[slots >= 0]
        if len(events) != size:
            raise ValueError("two events share a rank")
        return events
    ranks = np.concatenate([columns.called, columns.returned[known]])
    codes = np.concatenate([2 * ops, 2 * ops[known] + 1])
    return codes[np.argsort(ranks, kind="stable")]
