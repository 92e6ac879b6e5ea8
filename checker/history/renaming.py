"""Which processes may go on for the client of another, where the record does not say it.

After an operation of unknown outcome a client goes on under another process name. The record says under
which, if its events name their clients, or if processes are called after them (`alice`, then `alice/1`).
Jepsen gives the process a new number and names no client, and others do the same with `worker-3`: then every
process that begins later may be the same client, and may release or extend what was acquired under the old
number, unless its operations name their grants. An accusation must not depend on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checker.history.arrays import largest_before
from checker.history.identity import acquires_by_grant, origins, unknown_grants
from checker.history.masks import positions, some
from checker.history.operations import I64, MISSING, NEVER, NONE, Bools, F, Index, Operations, Status


@dataclass(frozen=True, slots=True)
class Renaming:
    """By process code, in positions of events.

    `begins` is the first call of a process, -1 where the record says whose process it is; `retired` is when
    an operation of unknown outcome ended it, `NEVER` if none did or the record says whose it is.
    """

    begins: I64
    retired: I64

    def goes_on(self, ops: Operations, process: int) -> Bools:
        """Whether a process may go on for that of each operation; shape (n,)."""
        following: Bools = self.retired[ops.process] < self.begins[process]
        return following

    def successors_ns(self, ops: Operations, rows: Index, earlier: Index) -> I64:
        """The first call among `rows` of a process that may go on for that of each operation of `earlier`.

        Both of one key; in ns, `NEVER` if there is none, shape (len(earlier),). O(n log n).
        """
        began, key = -self.begins[ops.process[rows]], ops.key[rows] + 1
        asked, of = -self.retired[ops.process[earlier]], ops.key[earlier] + 1
        found = largest_before(key, began, -ops.call_ns[rows], of, asked)
        first_ns: I64 = np.where(found == MISSING, NEVER, -found)
        return first_ns


def renaming(ops: Operations) -> Renaming | None:
    """Who may go on for whom; None if nobody may go on for another. O(n)."""
    if not len(ops) or not some(ops.status == Status.INFO) or some(ops.process == NONE):
        return None
    size, rows = int(ops.process.max()) + 1, np.arange(len(ops))
    first, last = np.zeros(size, np.int64), np.full(size, NONE, np.int64)
    first[ops.process[::-1]] = rows[::-1]
    last[ops.process] = rows
    used = positions(last != NONE)
    begins, retired = np.full(size, NONE, np.int64), np.full(size, NEVER, np.int64)
    begins[used] = ops.call_index[first[used]]
    ended = used[ops.status[last[used]] == Status.INFO]
    back = ops.return_index[last[ended]]
    retired[ended] = np.where(back == NONE, ops.call_index[last[ended]], back)
    stated = _stated(ops, last, used)
    begins[stated], retired[stated] = NONE, NEVER
    return Renaming(begins, retired) if some(begins > retired.min()) else None


def _stated(ops: Operations, last: Index, used: Index) -> Index:
    """Processes of which the record says whose they are.

    Those without a number at their end follow the rule of the format (`alice`, then `alice/1`); one with a
    number (`3`, `worker-3`) is whose the record says if other processes share its client, or if that has
    another name.
    """
    client = ops.client[last[used]]
    shared = np.bincount(client + 1) > 1
    shared[0] = False  # the place of those without a client
    alone = used[~shared[client + 1]]
    of = ops.client[last[alone]].tolist()
    names, clients = ops.names.process, ops.names.client
    same = [
        names[p][-1:].isdigit() and (c == NONE or names[p] == clients[c])
        for p, c in zip(alone.tolist(), of, strict=True)
    ]
    return np.setdiff1d(used, alone[np.array(same, np.bool_)])


def open_ends(raw: Operations, ops: Operations, acquires: Index) -> tuple[I64, Index]:
    """From when on each of some acquires may be undone though its process did not release, and by which row.

    `NEVER` and -1 where nothing may. `raw` is as recorded, `ops` is the same with every release given to
    the last acquire of its process (`checker.history.grants.with_grants`). There are two ways: a process
    that may go on for the same client releases or extends; or an operation without a grant, whose outcome
    is unknown, takes effect late, since it had nothing to release when it was called, or a lease that may
    have ended by itself, or it is an extension. O(n log n).
    """
    ends, by = np.full(acquires.size, NEVER, np.int64), np.full(acquires.size, NONE, np.int64)
    bare = (raw.grant == NONE) | (unknown_grants(raw) & (raw.f == F.RELEASE))
    rows = positions(bare & ((raw.f == F.RELEASE) | (raw.f == F.EXTEND)))
    if not rows.size:
        return ends, by
    renamed, late = renaming(raw), _late(ops, rows)
    if renamed is not None:
        ends = renamed.successors_ns(ops, rows, acquires)
        for at in positions(ends < NEVER).tolist():
            process = ops.process[acquires[at]]
            mine = renamed.begins[ops.process[rows]] > renamed.retired[process]
            mine &= (ops.call_ns[rows] == ends[at]) & (ops.key[rows] == ops.key[acquires[at]])
            by[at] = rows[mine][0]
    for row in late.tolist():
        same = (ops.client[acquires] == ops.client[row]) & (ops.call_index[acquires] > ops.call_index[row])
        if renamed is not None:
            same |= renamed.begins[ops.process[acquires]] > renamed.retired[ops.process[row]]
        same &= ops.key[acquires] == ops.key[row]
        ends[same], by[same] = ops.call_ns[acquires][same], row
    return ends, by


def _late(ops: Operations, rows: Index) -> Index:
    """Which of some releases and extensions may take effect on a later grant of their client."""
    releases, made = ops.rows(F.RELEASE), acquires_by_grant(ops)
    first = np.full(made.size, NONE, np.int64)
    first[ops.grant[releases][::-1]] = releases[::-1]
    taken = made[ops.grant[rows]]
    session = (taken != NONE) & (ops.status[taken] == Status.OK) & (ops.ttl_ns[taken] == MISSING)
    settled = session & (first[ops.grant[rows]] == rows) & (ops.f[rows] == F.RELEASE)
    late: Index = rows[~settled & (ops.status[rows] == Status.INFO)]
    return late


def in_doubt(ops: Operations, renamed: Renaming | None, row: int, at: Callable[[int], str]) -> str:
    """What may have ended a grant of another process, and what to record; `at` puts a stamp into words."""
    process = int(ops.process[origins(ops)[row]])
    name, key = ops.names.process[process], ops.name("key", row)
    what = "the lock" if key is None else repr(key)
    hint = "Record the client, or the grant_id, of every operation"
    did = {F.ACQUIRE: "acquired", F.RELEASE: "released", F.EXTEND: "extended"}[F(int(ops.f[row]))]
    used = (ops.key == ops.key[row]) & ((ops.f == F.ACQUIRE) | (ops.f == F.RELEASE))
    used &= ops.status != Status.FAIL
    before = positions(used & renamed.goes_on(ops, process)) if renamed is not None else used[:0]
    if not before.size:
        return (
            f"process {name} {did} {what} at {at(int(ops.call_ns[row]))} without naming a grant and with an "
            f"unknown outcome: that may have ended any later grant of the same client. {hint}"
        )
    last = int(positions(ops.process == ops.process[before[-1]])[-1])
    gone = ops.name("process", last)
    return (
        f"process {name} {did} {what} at {at(int(ops.call_ns[row]))}, and "
        f"may be the client of process {gone} under a new name: {gone} used it before, its last "
        f"operation, at {at(int(ops.call_ns[last]))}, has an unknown outcome, and the record names neither "
        f"clients nor grants. {hint}"
    )
