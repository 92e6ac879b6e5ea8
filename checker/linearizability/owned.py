"""A mutex that knows its owner, plain, reentrant or fenced: one scan in order of time, O(n), exact.

A session runs from a process's outermost acquire to the release that ends it. Its core, from the return of
that acquire to the call of that release, is held whatever the order; outside the cores there is always
room: between two successive cores the earlier may end just after its release is called, and the later begin
just before its acquire returns. So an order exists iff every process takes turns properly and the cores are
pairwise disjoint.

- An acquire of unknown outcome is the last word of its process: leave it out. It only ever explains why
  others were refused, and only after the last core, since nobody releases it.
- A release of unknown outcome ends the core at its call when its process holds, and is left out otherwise.
- A refused try by somebody else is impossible iff it lies wholly inside a gap that is free for certain:
  after the return of one session's release and before the call of the next session's acquire.
- A refused try by the holder itself is right only at full depth: below it, a reentrant lock must let it in.
- Fences grow strictly from session to session. An acquire nested in a session may repeat the session's
  fence or show a greater one than any before; both keep what fences are for, and libraries do both.

The proofs need a process that is silent after an unknown outcome. `keeps_identity` tells where that does
not hold.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checker.linearizability.columns import (
    ACQUIRE,
    NO_FENCE,
    REFUSED,
    RELEASE,
    Column,
    OpColumns,
    event_order,
    precedes,
)
from checker.linearizability.compiled import as_column, compiled_kernel, filled, uses_compiler
from checker.linearizability.result import Violation
from checker.linearizability.turns import scanned

# Why the scan stopped on a key.
CORES_OVERLAP: Final = 1  # two sessions held the lock at one time
TOO_DEEP: Final = 2  # the holder acquired once more than the depth allows
NOT_HELD: Final = 3  # a release succeeded although its process did not hold the lock
FREE_ALL_THE_TIME: Final = 4  # a try was refused although the lock was free during the whole of it
REFUSED_TO_HOLDER: Final = 5  # the holder's own try was refused below the full depth
FENCE_NOT_GREATER: Final = 6  # a session's fence is not greater than that of an earlier one

# One row of state per key, in a flat column so that one kernel serves lists and arrays.
_REASON: Final = 0
_EARLIER: Final = 1
_LATER: Final = 2
_HOLDER: Final = 3  # process, -1 while free
_DEPTH: Final = 4
_OPENED: Final = 5  # the acquire that opened the current or last session
_CLOSED: Final = 6  # the release that closed the last session
_FREED_AT: Final = 7  # from here on the lock is free for certain; _END while unknown
_REFUSED: Final = 8  # the first try refused in the current free gap
_REFUSED_AT: Final = 9
_PENDING_AT: Final = 10  # call of the earliest acquire of unknown outcome
_FENCE: Final = 11  # the greatest fence so far
_FENCED: Final = 12  # the acquire that got it
_NESTED: Final = 13  # 1 when the current session has shown a fence
FIELDS: Final = 14
_END: Final = 2**62


def check_owned(columns: OpColumns, *, depth: int = 1, fenced: bool = False) -> list[Violation]:
    """The first violation on each key that has one. Time O(n), any number of keys at once.

    `depth` is how often one process may hold the lock at a time (1: not reentrant); `fenced` also compares
    fences. Processes must be silent after an unknown outcome (see `keeps_identity`); operations of one
    process on one key must not overlap. Violations are definite; so is their absence.

    Raises:
        ValueError: depth < 1.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    scan = partial(scan_owned, depth=depth, fenced=fenced)
    return scanned(columns, scan, fenced=fenced)


def scan_owned(columns: OpColumns, *, depth: int, fenced: bool) -> list[Violation]:
    """What `check_owned` answers, by the scan alone; at least one operation."""
    compiled = uses_compiler(len(columns))
    helpers = (_fail, _acquired, _release_called, _refused)
    scan = compiled_kernel(_scan, *helpers) if compiled else _scan
    state = filled(columns.keys * FIELDS, -1, compiled)
    fence = columns.fence if fenced else np.full(len(columns), NO_FENCE, np.int64)
    scan(
        as_column(event_order(columns), compiled),
        as_column(columns.kind, compiled),
        as_column(columns.process, compiled),
        as_column(columns.key, compiled),
        as_column(fence, compiled),
        as_column(columns.certain, compiled),
        filled(len(columns), -1, compiled),
        depth,
        state,
    )
    table = np.asarray(state, np.int64).reshape(-1, FIELDS)
    return [
        Violation(int(key), *(int(value) for value in table[key, :3]))
        for key in np.flatnonzero(table[:, _REASON] > 0)
    ]


def keeps_identity(columns: OpColumns) -> NDArray[np.bool_]:
    """Shape (keys,): True where a process went on, on that key, after an operation of unknown outcome."""
    found = np.zeros(columns.keys, np.bool_)
    unknown = ~columns.certain
    if not bool(unknown.any()):
        return found
    called = columns.called
    if columns.call_index is not None:
        in_order = precedes(called[:-1], columns.call_index[:-1], called[1:], columns.call_index[1:])
        called = np.arange(len(columns)) if bool(in_order.all()) else columns.ranked().called
    # Only processes that go on at all, on whatever key, can go on with the same; as a rule there are none.
    latest = np.full(int(columns.process.max()) + 1, -1, np.int64)
    if bool((called[1:] > called[:-1]).all()):
        latest[columns.process] = called  # of several the last one stays
    else:
        np.maximum.at(latest, columns.process, called)
    suspects = np.zeros(len(latest), np.bool_)
    suspects[columns.process[unknown & (latest[columns.process] > called)]] = True
    if not bool(suspects.any()):
        return found
    rows = np.flatnonzero(suspects[columns.process])
    order = rows[np.lexsort((called[rows], columns.process[rows], columns.key[rows]))]
    goes_on = (columns.key[order[1:]] == columns.key[order[:-1]]) & (
        columns.process[order[1:]] == columns.process[order[:-1]]
    )
    found[columns.key[order[:-1][goes_on & unknown[order[:-1]]]]] = True
    return found


def _scan(
    events: Column,
    kind: Column,
    process: Column,
    key: Column,
    fence: Column,
    certain: Column,
    called: Column,
    depth: int,
    state: Column,
) -> None:
    """Walk the events once; `state` (keys * FIELDS, all -1) ends with reason, earlier and later op per key.

    `called` is scratch: the position of each op's call.
    """
    for at in range(len(state) // FIELDS):
        state[at * FIELDS + _FENCE] = NO_FENCE
        state[at * FIELDS + _PENDING_AT] = _END
    for now in range(len(events)):
        op = events[now] >> 1
        at = key[op] * FIELDS
        if state[at + _REASON] > 0:
            continue
        if events[now] & 1 == 0:
            called[op] = now
            if kind[op] == RELEASE:
                _release_called(state, at, op, process[op], certain[op])
            elif not certain[op] and state[at + _HOLDER] != process[op] and state[at + _PENDING_AT] == _END:
                state[at + _PENDING_AT] = now
        elif kind[op] == ACQUIRE:
            _acquired(state, at, op, process[op], called[op], fence[op], depth)
        elif kind[op] == REFUSED:
            _refused(state, at, op, process[op], called[op], now, depth)
        elif state[at + _CLOSED] == op:
            state[at + _FREED_AT] = now
    for at in range(0, len(state), FIELDS):
        open_gap = state[at + _REASON] < 0 and state[at + _HOLDER] == -1 and state[at + _REFUSED] >= 0
        if open_gap and state[at + _PENDING_AT] > state[at + _REFUSED_AT]:
            _fail(state, at, FREE_ALL_THE_TIME, state[at + _CLOSED], state[at + _REFUSED])


def _fail(state: Column, at: int, reason: int, earlier: int, later: int) -> None:
    """Stop on this key."""
    state[at + _REASON] = reason
    state[at + _EARLIER] = earlier
    state[at + _LATER] = later


def _acquired(state: Column, at: int, op: int, process: int, called: int, fence: int, depth: int) -> None:
    """An acquire returned: open a core, or go one deeper into one's own."""
    nested = state[at + _HOLDER] == process
    if state[at + _HOLDER] != -1 and not nested:
        _fail(state, at, CORES_OVERLAP, state[at + _OPENED], op)
        return
    if nested and state[at + _DEPTH] >= depth:
        _fail(state, at, TOO_DEEP, state[at + _OPENED], op)
        return
    if state[at + _REFUSED] >= 0 and called > state[at + _REFUSED_AT]:
        _fail(state, at, FREE_ALL_THE_TIME, state[at + _CLOSED], state[at + _REFUSED])
        return
    state[at + _REFUSED] = -1
    if nested:
        state[at + _DEPTH] += 1
    else:
        state[at + _HOLDER] = process
        state[at + _DEPTH] = 1
        state[at + _OPENED] = op
        state[at + _NESTED] = 0
    if fence == NO_FENCE:
        return
    repeats = state[at + _NESTED] == 1 and fence == state[at + _FENCE]
    if fence <= state[at + _FENCE] and not repeats:
        _fail(state, at, FENCE_NOT_GREATER, state[at + _FENCED], op)
        return
    state[at + _FENCE] = fence
    state[at + _FENCED] = op
    state[at + _NESTED] = 1


def _release_called(state: Column, at: int, op: int, process: int, certain: int) -> None:
    """A release was called: one level up; the core ends here with the last one."""
    if state[at + _HOLDER] != process:
        if certain:
            _fail(state, at, NOT_HELD, state[at + _OPENED], op)
        return
    state[at + _DEPTH] -= 1
    if state[at + _DEPTH] == 0:
        state[at + _HOLDER] = -1
        state[at + _CLOSED] = op
        state[at + _FREED_AT] = _END


def _refused(state: Column, at: int, op: int, process: int, called: int, now: int, depth: int) -> None:
    """A try was refused: note the first that met a lock free for certain; the next core may explain it."""
    if state[at + _HOLDER] == process:
        if state[at + _DEPTH] < depth:
            _fail(state, at, REFUSED_TO_HOLDER, state[at + _OPENED], op)
    elif state[at + _HOLDER] == -1 and called > state[at + _FREED_AT] and state[at + _REFUSED] < 0:
        state[at + _REFUSED] = op
        state[at + _REFUSED_AT] = now
