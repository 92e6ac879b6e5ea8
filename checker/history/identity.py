"""Which grant, and whose, every operation of a lock is about; records that leave it open are refused.

A grant is known by its `grant_id`, its holder by its client. A process is only a thread of control: after an
`info` the client goes on under another process name, and so may release what it acquired under the first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from checker.errors import HistoryError
from checker.history.masks import positions, some
from checker.history.operations import I32, NONE, Bools, F, Index, Operations, Status

_HINT = "give every acquire a grant_id of its own, and repeat it on what is done with that grant"


def acquires_by_grant(ops: Operations) -> Index:
    """The row of the acquire that made a grant, by grant code; -1 for a grant that none made.

    An acquire that failed made none. The last element is -1, so that the code of an absent grant finds it.
    """
    rows = positions((ops.f == F.ACQUIRE) & (ops.status != Status.FAIL))
    made = np.full(max(int(ops.grant.max(initial=NONE)), NONE) + 2, NONE, np.int64)
    code = ops.grant[rows]
    made[code[::-1]] = rows[::-1]
    made[-1] = NONE
    return made


def unknown_grants(ops: Operations) -> Bools:
    """Shape (n,): True where an operation names a grant that no acquire of this history asked for."""
    asked = np.zeros(max(int(ops.grant.max(initial=NONE)), NONE) + 2, np.bool_)
    asked[ops.grant[ops.rows(F.ACQUIRE)]] = True
    asked[-1] = True
    return ~asked[ops.grant]


def identified(ops: Operations) -> Operations:
    """The same operations, those that name a grant but no key with the key of their grant, O(n).

    Raises:
        HistoryError: two acquires that made the same grant; an operation under another key than its grant;
            an acquire without a key, or a release or an extension without key and grant, among acquires that
            have keys.
    """
    if not len(ops):
        return ops
    lock = ops.f <= F.RELEASE
    named = lock & (ops.grant != NONE)
    if some(named):
        made = acquires_by_grant(ops)
        _require_one_acquire(ops, made)
        origin = np.where(named, made[ops.grant], NONE)
        key = np.where(origin != NONE, ops.key[origin], NONE).astype(np.int32)
        fill = (ops.key == NONE) & (key != NONE)
        if some(fill):
            ops = replace(ops, key=np.where(fill, key, ops.key).astype(np.int32))
        _refuse(
            ops,
            (key != NONE) & (ops.key != NONE) & (ops.key != key),
            "this grant is of another key: saw {key!r}, its acquire is of {other!r}",
            key,
        )
    acquire = lock & (ops.f == F.ACQUIRE)
    keyless = ops.key == NONE
    if some(keyless) and some(acquire & ~keyless):
        absent = "is absent, but other acquires have a key, so nobody can tell which lock this is about"
        _refuse(ops, acquire & keyless, absent)
        absent = "is absent, as is grant_id, so nobody can tell which grant this is about"
        _refuse(ops, lock & keyless & (ops.grant == NONE) & (ops.status != Status.FAIL), absent)
    return ops


def _require_one_acquire(ops: Operations, made: Index) -> None:
    mine = (ops.f == F.ACQUIRE) & (ops.status != Status.FAIL) & (ops.grant != NONE)
    rows = positions(mine)
    again = rows[made[ops.grant[rows]] != rows]
    if again.size:
        row = int(again.min())
        first = int(ops.call_index[made[ops.grant[row]]])
        grant = ops.name("grant", row)
        raise _error(ops, row, "grant_id", f"saw {grant!r} again, the grant of the acquire in event {first}")


def _refuse(ops: Operations, wrong: Bools, problem: str, other: I32 | None = None) -> None:
    if some(wrong):
        row = int(positions(wrong)[0])
        names = {"key": ops.name("key", row)}
        if other is not None:
            names["other"] = ops.names.key[int(other[row])]
        raise _error(ops, row, "key", problem.format(**names))


def _error(ops: Operations, row: int, field: str, problem: str) -> HistoryError:
    what = f"{ops.name('process', row)} {F(int(ops.f[row])).name.lower()}"
    return HistoryError(f"{problem}: {what} (event {int(ops.call_index[row])})", field=field, hint=_HINT)


def owners(ops: Operations) -> I32:
    """Who each operation of a lock is done for, as a code, shape (n,).

    That is the client that asked for the grant that it names, else its own client; its process where the
    record knows no client.
    """
    owner: I32 = np.where(ops.client == NONE, len(ops.names.client) + ops.process, ops.client)
    return owner[origins(ops)] if some(ops.grant != NONE) else owner


def origins(ops: Operations) -> Index:
    """The row of the acquire that asked for the grant that each operation names, else its own; shape (n,)."""
    rows = ops.rows(F.ACQUIRE)
    asked = acquires_by_grant(ops)
    failed = rows[(ops.grant[rows] != NONE) & (asked[ops.grant[rows]] == NONE)]
    asked[ops.grant[failed]] = failed
    origin = asked[ops.grant]
    return np.where(origin != NONE, origin, np.arange(len(ops)))


def threaded(ops: Operations) -> Bools:
    """By client code: whether processes of the client take turns, so that they are several threads.

    A client with one thread of control never comes back to a process name that it gave up.
    """
    processes = int(ops.process.max(initial=NONE)) + 1
    first = np.full(processes, np.iinfo(np.int64).max)
    last = np.full(processes, -1, np.int64)
    client = np.full(processes, NONE, np.int64)
    np.minimum.at(first, ops.process, ops.call_index)
    np.maximum.at(last, ops.process, ops.call_index)
    client[ops.process] = ops.client
    order = np.lexsort((first, client))
    same = client[order[1:]] == client[order[:-1]]
    found = np.zeros(int(client.max(initial=NONE)) + 2, np.bool_)
    found[client[order[1:]][same & (first[order[1:]] < last[order[:-1]])]] = True
    return found
