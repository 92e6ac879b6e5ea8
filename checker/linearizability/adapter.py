"""From the table of client operations to what the algorithms and the search read."""

from __future__ import annotations

from collections.abc import Collection, Hashable

import numpy as np
from numpy.typing import NDArray

from checker.history.events import ABSENT, MISMATCH, SUPPOSED_MISMATCH
from checker.history.operations import NEVER, NONE, F, Operations, Status
from checker.linearizability.columns import (
    ACQUIRE,
    NO_FENCE,
    REFUSED,
    RELEASE,
    IntArray,
    OpColumns,
    rank_events,
)
from checker.linearizability.model import Op


def lock_columns(ops: Operations, refusals: Collection[str] = (), epsilon_ns: int = 0) -> OpColumns:
    """Acquires and releases of every key; what failed had no effect and is left out.

    A failed acquire counts as a refused try (somebody held the lock) only if its error is one of
    `refusals`: a time-out, a split vote or a lost quorum proves nothing of the kind. With `epsilon_ns`,
    stamps are widened by the uncertainty on both sides before they are put in order.
    """
    refused = (ops.f == F.ACQUIRE) & (ops.status == Status.FAIL) & _has_error(ops, refusals)
    kept = ((ops.f == F.ACQUIRE) | (ops.f == F.RELEASE)) & (ops.status != Status.FAIL)
    rows = np.flatnonzero(kept | refused)
    whole = len(rows) == len(ops)

    def at(column: NDArray[np.generic]) -> NDArray[np.generic]:
        return column if whole else column[rows]

    kind = np.where(at(ops.f) == F.ACQUIRE, ACQUIRE, RELEASE).astype(np.int8)
    kind[at(refused)] = REFUSED
    key = at(ops.key).astype(np.int32, copy=False)
    if bool((key == NONE).any()):
        key = np.where(key == NONE, len(ops.names.key), key).astype(np.int32)
    called, call_index, returned, return_index = _stamps(ops, None if whole else rows, epsilon_ns)
    fence = at(ops.fence).astype(np.int64, copy=False)
    unknown = returned == NEVER
    if bool(unknown.any()) and bool((fence[unknown] != NO_FENCE).any()):
        fence = np.where(unknown, NO_FENCE, fence)
    return OpColumns(
        kind=kind,
        process=at(ops.process).astype(np.int32, copy=False),
        key=key,
        called=called,
        returned=returned,
        fence=fence,
        row=rows.astype(np.int64, copy=False),
        call_index=call_index,
        return_index=return_index,
    )


def _stamps(ops: Operations, rows: IntArray | None, epsilon_ns: int) -> list[IntArray]:
    """Times and event indices of calls and of returns of the rows (None: all)."""
    columns = [ops.call_ns, ops.call_index, ops.return_ns, ops.return_index]
    call_ns, call_index, return_ns, return_index = (c if rows is None else c[rows] for c in columns)
    if epsilon_ns:
        call_ns = call_ns - epsilon_ns
        # One more, so that what may have been at one time is no proof of an order.
        return_ns = np.where(return_ns == NEVER, NEVER, return_ns + epsilon_ns + 1)
    return [call_ns, call_index, return_ns, return_index]


def without_empty_cores(columns: OpColumns, ops: Operations, epsilon_ns: int) -> OpColumns:
    """Leave out sessions so short that, given uncertain stamps, no instant is held for certain.

    Widened stamps can put the call of a release before the return of its own acquire. Such a pair claims
    nothing; any order of the rest is still an order. It might have explained a refusal, so refusals on its
    key go as well.
    """
    while True:
        columns = columns.ranked()
        order = np.lexsort((columns.called, columns.process, columns.key))
        first, second = order[:-1], order[1:]
        same = (columns.key[first] == columns.key[second]) & (
            columns.process[first] == columns.process[second]
        )
        pair = same & (columns.kind[first] == ACQUIRE) & (columns.kind[second] == RELEASE)
        opened = ops.return_ns[columns.row[first]]
        closed = ops.call_ns[columns.row[second]]
        empty = pair & (opened != NEVER) & (closed - opened <= 2 * epsilon_ns)
        if not bool(empty.any()):
            return columns
        keep = np.ones(len(columns), np.bool_)
        keep[first[empty]] = keep[second[empty]] = False
        touched = np.zeros(columns.keys, np.bool_)
        touched[columns.key[first[empty]]] = True
        keep &= ~(touched[columns.key] & (columns.kind == REFUSED))
        columns = columns.select(keep)


def register_ops(ops: Operations, rows: IntArray, without: Collection[str] = ()) -> list[Op]:
    """Reads, writes and compare-and-sets among `rows` as operations for the search.

    What failed is left out, but for a compare-and-set with the error `MISMATCH`; reads of unknown outcome
    are too. `without` names answers that may mean nothing, and are left out: reads of `ABSENT`, and
    `SUPPOSED_MISMATCH`.
    """
    mismatch = _has_error(ops, {MISMATCH, SUPPOSED_MISMATCH}.difference(without))
    called, returned = rank_events(
        ops.call_ns[rows], ops.call_index[rows], ops.return_ns[rows], ops.return_index[rows]
    )
    found: list[Op] = []
    for row, call, back in zip(rows.tolist(), called.tolist(), returned.tolist(), strict=True):
        kind, status = F(int(ops.f[row])), Status(int(ops.status[row]))
        f = kind.name.lower()
        if status == Status.FAIL:
            if kind != F.CAS or not mismatch[row]:
                continue
            f = "refused cas"
        if kind not in (F.READ, F.WRITE, F.CAS) or (kind == F.READ and status == Status.INFO):
            continue
        value = ops.name("value", row)
        if kind == F.READ:
            if value == ABSENT and ABSENT in without:
                continue
        else:
            value = tuple(map(_stored, value)) if isinstance(value, tuple) else _stored(value)
        found.append(Op(row, f, int(ops.process[row]), call, back, value))
    return found


def _stored(value: Hashable) -> Hashable:
    """What a register holds that was given a value: one that is set to `nil` is absent."""
    return None if value == ABSENT else value


def _has_error(ops: Operations, errors: Collection[str]) -> NDArray[np.bool_]:
    """Shape (n,): True where the operation ended with one of these errors."""
    codes = [code for code, name in enumerate(ops.names.error) if name in errors]
    return np.isin(ops.error, codes) if codes else np.zeros(len(ops), np.bool_)
