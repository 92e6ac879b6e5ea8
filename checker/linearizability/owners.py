"""Who owns what: locks belong to clients and their grants, not to the processes that they go on under.

The scan of `owned` takes every owner for one thread of control that is silent after an unknown outcome. A
client is not: it goes on under another process name, and may have several threads. What the scan counts as
depth is then a lower bound (certain acquires that returned, less all releases that were called), so two cores
that meet, a session too deep and fences that do not grow are violations all the same, and a key on which the
scan finds none has an order, unless

- a release is called at depth 0: an acquire of unknown outcome may explain it, or an earlier release of
  unknown outcome that had no effect; if its own outcome is unknown, it may take effect after a later acquire;
- tries were refused: an acquire of unknown outcome may have been the reason;
- acquires in one session may repeat its fence, and it is open where a session ends.

Keys of this kind are left to the search, if an owner on them did two things at once; all others are scanned.

Where the record names neither clients nor grants, an owner may be part of a client
(`checker.history.renaming`), that goes on as another owner after an operation of unknown outcome. Parts for
owners ask more than a lock promises. What they answer for a plain mutex depends on it only where a part
releases more than it acquired; for a reentrant one it may with anything that a later part does (`doubts`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checker.history.arrays import both, dense, group_starts, running_max, sort_grouped
from checker.history.identity import origins, owners, unknown_grants
from checker.history.operations import NEVER, NONE, F, Operations
from checker.history.renaming import Renaming
from checker.linearizability.columns import ACQUIRE, NO_FENCE, REFUSED, RELEASE, OpColumns
from checker.linearizability.owned import keeps_identity


def by_client(ops: Operations) -> Operations:
    """The same table with the owner of each operation in place of its process."""
    return replace(ops, process=owners(ops))


def by_owner(columns: OpColumns, ops: Operations) -> OpColumns:
    """The same operations by owner in place of process.

    A release that names a grant which nobody acquired proves nothing about any other: its outcome counts as
    unknown.
    """
    stray = unknown_grants(ops) & (ops.f == F.RELEASE)
    returned = columns.returned
    if stray.any():
        returned = np.where(stray[columns.row], NEVER, returned)
    return replace(columns, process=owners(ops)[columns.row], returned=returned)


def to_be_searched(columns: OpColumns, depth: int, *, fenced: bool) -> NDArray[np.bool_]:
    """Shape (keys,): True where the scan of `owned` is not exact, O(n log n). `process` holds owners."""
    found = np.zeros(columns.keys, np.bool_)
    if not len(columns):
        return found
    busy = _does_two_things_at_once(columns)
    if not busy.any():
        return found
    found |= _has_excess_release(columns, busy)
    refused = _has(columns, columns.kind == REFUSED)
    found |= refused & (busy if depth > 1 else keeps_identity(columns))
    if fenced and depth > 1:
        found |= busy & _has(columns, columns.fence != NO_FENCE)
    return found


def _has(columns: OpColumns, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found = np.zeros(columns.keys, np.bool_)
    found[columns.key[rows]] = True
    return found


def _does_two_things_at_once(columns: OpColumns) -> NDArray[np.bool_]:
    """Shape (keys,): True where an owner called an operation before an earlier one of its own was over."""
    owner = both(columns.key, columns.process)
    order = sort_grouped(owner, columns.called)
    group = dense(owner[order])
    last = int(columns.called.max()) + 1  # later is all the same here, and NEVER takes longer to sort
    over = running_max(np.minimum(columns.returned, last)[order], group)
    busy = (group[1:] == group[:-1]) & (over[:-1] > columns.called[order[1:]])
    found = np.zeros(columns.keys, np.bool_)
    found[columns.key[order[1:][busy]]] = True
    return found


def _has_excess_release(columns: OpColumns, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Shape (keys,): True where a release was called when its owner held nothing for certain."""
    return _has(columns, excess_releases(columns, among))


def excess_releases(columns: OpColumns, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Shape (n,): releases on some keys, called when their owner held nothing for certain. O(n log n)."""
    acquire, release = columns.kind == ACQUIRE, columns.kind == RELEASE
    rows = np.flatnonzero(among[columns.key] & ((acquire & columns.certain) | release))
    when = np.where(acquire[rows], columns.returned[rows], columns.called[rows])
    found = np.zeros(len(columns), np.bool_)
    if not rows.size:
        return found
    owner = both(columns.key[rows], columns.process[rows])
    in_turn = sort_grouped(owner, when)
    order, group = rows[in_turn], dense(owner[in_turn])
    step = np.where(acquire[order], 1, -1).astype(np.int64)
    total = np.cumsum(step)
    first = np.searchsorted(group, np.arange(int(group[-1]) + 1))
    total -= (total[first] - step[first])[group]
    lowest = np.minimum(-running_max(-total, group), 0)
    before = np.zeros(order.size, np.int64)
    before[1:] = np.where(group[1:] == group[:-1], lowest[:-1], 0)
    found[order[release[order] & (total < before)]] = True
    return found


def doubts(
    columns: OpColumns, ops: Operations, renamed: Renaming, depth: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """By key, the first operation with which a process may have used what another acquired for its client.

    Its rank, `NEVER` where there is none, its row, and whether any such operation was a refused try; shape
    (keys,) each. `columns` are ranked, by owner.
    """
    process = ops.process[origins(ops)][columns.row]
    acquire, certain = columns.kind == ACQUIRE, columns.certain
    since, row = np.full(columns.keys, NEVER, np.int64), np.full(columns.keys, NONE, np.int64)
    gone = renamed.retired[process] < NEVER
    order = np.flatnonzero(gone & (acquire | ((columns.kind == RELEASE) & certain)))
    order = order[np.lexsort((process[order], columns.key[order]))]
    starts = group_starts(both(columns.key[order], process[order]))
    left = np.add.reduceat(np.where(acquire[order], 1, -1), starts) > 0 if starts.size else starts > 0
    excess = excess_releases(columns, np.ones(columns.keys, np.bool_))
    holders, late = _earliest(columns, renamed, process, order[starts[left]]), excess & gone
    later = renamed.begins[process] > holders[columns.key]
    if depth == 1:
        later &= excess
    later |= renamed.begins[process] > _earliest(columns, renamed, process, np.flatnonzero(late))[columns.key]
    rows = np.flatnonzero(later)
    rows = rows[np.argsort(columns.called[rows])][::-1]
    since[columns.key[rows]], row[columns.key[rows]] = columns.called[rows], columns.row[rows]
    return since, row, _has(columns, later & (columns.kind == REFUSED))


def _earliest(
    columns: OpColumns, renamed: Renaming, process: NDArray[np.int32], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Shape (keys,): when the first of the processes of some rows retired, `NEVER` if none did."""
    found = np.full(columns.keys, NEVER, np.int64)
    np.minimum.at(found, columns.key[rows], renamed.retired[process[rows]])
    return found


def before(columns: OpColumns, rank: int) -> OpColumns:
    """What was called before a call, as it was known then."""
    columns = columns.select(columns.called < rank)
    cut = replace(columns, returned=np.where(columns.returned < rank, columns.returned, NEVER))
    return cut.select((cut.kind != REFUSED) | cut.certain)
