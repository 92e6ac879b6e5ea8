"""Operations of a lock from lists or arrays, as tests and benchmarks write them down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checker.linearizability.columns import NO_FENCE, IntArray, OpColumns, precedes


def op_columns(
    kind: NDArray[np.integer] | list[int],
    process: NDArray[np.integer] | list[int],
    called: NDArray[np.integer] | list[int],
    returned: NDArray[np.integer] | list[int],
    *,
    key: NDArray[np.integer] | list[int] | None = None,
    fence: NDArray[np.integer] | list[int] | None = None,
    row: NDArray[np.integer] | list[int] | None = None,
    call_index: IntArray | None = None,
    return_index: IntArray | None = None,
) -> OpColumns:
    """Build `OpColumns` from anything array-like; key defaults to 0, fence to none, row to the position.

    Stamps are times if the two index columns are given, else ranks.

    A fence that an operation of unknown outcome may carry is dropped: nobody was told it.

    Raises:
        ValueError: an operation returns before it is called, or the columns differ in length.
    """
    n = len(kind)
    columns = OpColumns(
        kind=np.asarray(kind, np.int8),
        process=np.asarray(process, np.int32),
        key=np.zeros(n, np.int32) if key is None else np.asarray(key, np.int32),
        called=np.asarray(called, np.int64),
        returned=np.asarray(returned, np.int64),
        fence=np.full(n, NO_FENCE, np.int64) if fence is None else np.array(fence, np.int64),
        row=np.arange(n, dtype=np.int64) if row is None else np.asarray(row, np.int64),
        call_index=call_index,
        return_index=return_index,
    )
    given = [column for name in columns.__slots__ if (column := getattr(columns, name)) is not None]
    lengths = {len(column) for column in given}
    if lengths - {n}:
        raise ValueError(f"columns differ in length: {sorted(lengths)}")
    if fence is not None:
        columns.fence[~columns.certain] = NO_FENCE
    backward = ~precedes(columns.called, call_index, columns.returned, return_index)
    if bool(backward.any()):
        raise ValueError(f"operation {int(np.argmax(backward))} returns at or before its call")
    return columns
