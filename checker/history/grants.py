"""The grants of a history: who was given which key, when at the earliest and latest, and for how long.

A grant joins an acquire with its extensions and releases. An acquire that timed out is kept (it may hold the
key for ever) but proves nothing, until an accepted write carries its token: then it is promoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from checker.history.arrays import both, group_starts, largest_before
from checker.history.identity import threaded, unknown_grants
from checker.history.masks import positions, some
from checker.history.operations import I32, I64, MISSING, NEVER, NONE, Bools, F, Index, Operations, Status

NOT_HELD = "not-held"


@dataclass(frozen=True, slots=True)
class Extensions:
    """Attempts to extend, ordered by grant, then call; `grant` is a row of `Grants`."""

    grant: Index
    row: Index
    call_ns: I64
    return_ns: I64
    ttl_ns: I64
    claimed_ns: I64
    status: np.ndarray

    def __len__(self) -> int:
        return int(self.grant.size)

    def only(self, status: Status) -> Extensions:
        """Those that ended in one way."""
        kept = self.status == status
        return Extensions(*(getattr(self, name)[kept] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Grants:
    """One row per acquire that succeeded or may have; shape (n,) each, ordered by call.

    `held` marks the certain ones. `acquired_ns` is when an acquire had happened at the latest, `NEVER` for
    uncertain ones; `release_call_ns` is the first attempt to release whatever its outcome, and
    `release_return_ns` when the key was known not to be held any more; `NEVER` where absent. `ttl_ns` is
    `NEVER` for a lock without expiry. `row_of` maps a grant code of the operations to a row here, or -1.
    """

    row: Index
    code: I32
    key: I32
    client: I32
    process: I32
    held: Bools
    returned: Bools
    called_ns: I64
    acquired_ns: I64
    release_call_ns: I64
    release_return_ns: I64
    release_row: Index
    ttl_ns: I64
    claimed_ns: I64
    fence: I64
    token: I32
    extensions: Extensions
    row_of: Index

    def __len__(self) -> int:
        return int(self.row.size)

    def of(self, codes: I32) -> Index:
        """Rows of the grants that operations name by code, -1 where they name none or an unknown one."""
        return self.row_of[codes]  # code NONE picks the last element, which is -1

    def certain(self, rows: Index) -> Bools:
        """Which of some rows (-1 for no grant) are grants that certainly happened."""
        certain = rows >= 0
        certain[certain] = self.held[rows[certain]]
        return certain


def grants_of(ops: Operations, unnamed: Index | None = None) -> Grants:
    """Join acquires, extensions and releases by grant code, O(n log n).

    `unnamed` are the releases (rows) of which the record does not say which grant they are about. Such a
    release may end any grant of its client and key, so it counts as an attempt to release all of them.
    """
    rows = positions((ops.f == F.ACQUIRE) & (ops.status != Status.FAIL))
    code = ops.grant[rows]
    size = max(int(ops.grant.max(initial=NONE)), NONE) + 1
    row_of = np.full(size + 1, NONE, np.int64)
    row_of[code[::-1]] = np.arange(rows.size)[::-1]
    known = ops.status[rows] == Status.OK
    release = _releases(ops, row_of, rows.size)
    if unnamed is not None and unnamed.size:
        release = (np.minimum(release[0], _next_unnamed(ops, rows, unnamed)), *release[1:])
    return Grants(
        row=rows,
        code=code,
        key=ops.key[rows],
        client=ops.client[rows],
        process=ops.process[rows],
        held=known,
        returned=known,
        called_ns=ops.call_ns[rows],
        acquired_ns=np.where(known, ops.return_ns[rows], NEVER),
        release_call_ns=release[0],
        release_return_ns=release[1],
        release_row=release[2],
        ttl_ns=_endless(ops.ttl_ns[rows]),
        claimed_ns=ops.claimed_ns[rows],
        fence=ops.fence[rows],
        token=ops.token[rows],
        extensions=_extensions(ops, row_of, rows),
        row_of=row_of,
    )


def promote(grants: Grants, row: Index, seen_ns: I64) -> Grants:
    """Grants whose acquire had happened by `seen_ns` although nobody was told; rows may repeat."""
    unsure = ~grants.held[row]
    row, seen_ns = row[unsure], seen_ns[unsure]
    if not row.size:
        return grants
    held, acquired = grants.held.copy(), grants.acquired_ns.copy()
    held[row] = True
    np.minimum.at(acquired, row, seen_ns)
    return replace(grants, held=held, acquired_ns=acquired)


def _endless(ttl_ns: I64) -> I64:
    return np.where(ttl_ns == MISSING, NEVER, ttl_ns)


def _releases(ops: Operations, row_of: Index, n: int) -> tuple[I64, I64, Index]:
    rows = ops.rows(F.RELEASE)
    grant = row_of[ops.grant[rows]]
    rows, grant = rows[grant >= 0], grant[grant >= 0]
    call, gone, first = (np.full(n, NEVER, np.int64) for _ in range(3))
    np.minimum.at(call, grant, ops.call_ns[rows])
    np.minimum.at(first, grant, rows)
    ended = ops.status[rows] == Status.OK
    if NOT_HELD in ops.names.error:
        ended |= (ops.status[rows] == Status.FAIL) & (
            ops.error[rows] == list(ops.names.error).index(NOT_HELD)
        )
    np.minimum.at(gone, grant[ended], ops.return_ns[rows[ended]])
    return call, gone, np.where(first == NEVER, NONE, first)


def unnamed_releases(ops: Operations) -> Index:
    """The releases that name no grant, or one that no acquire of this history made."""
    rows = ops.rows(F.RELEASE)
    open_ones: Bools = (ops.grant[rows] == NONE) | unknown_grants(ops)[rows]
    return rows[open_ones]


def _next_unnamed(ops: Operations, acquires: Index, releases: Index) -> I64:
    """When the client of each acquire called one of these releases of the key next; `NEVER` if it did not."""
    releases, lock = releases[ops.client[releases] != NONE], both(ops.client, ops.key)
    here, there = lock[releases], lock[acquires]
    call: I64 = -ops.call_ns[releases]
    known = ops.client[acquires] != NONE
    following = largest_before(here, call, call, np.where(known, there, -1), -ops.call_ns[acquires])
    next_ns: I64 = np.where(following == MISSING, NEVER, -following)
    return next_ns


def _extensions(ops: Operations, row_of: Index, acquires: Index) -> Extensions:
    rows = ops.rows(F.EXTEND)
    grant = row_of[ops.grant[rows]]
    rows, grant = rows[grant >= 0], grant[grant >= 0]
    order = np.lexsort((ops.call_ns[rows], grant))
    rows, grant = rows[order], grant[order]
    asked = ops.ttl_ns[rows]
    ttl = np.where(asked == MISSING, _endless(ops.ttl_ns[acquires][grant]), asked)
    return Extensions(
        grant,
        rows,
        ops.call_ns[rows],
        ops.return_ns[rows],
        ttl,
        ops.claimed_ns[rows],
        ops.status[rows],
    )


class _Numbered(Sequence[str]):
    """Grant names, followed by made-up ones for the acquires that were recorded without."""

    def __init__(self, names: Sequence[str], extra: int) -> None:
        self._names, self._extra = names, extra

    def __len__(self) -> int:
        return len(self._names) + self._extra

    def __getitem__(self, at: int | slice) -> str:
        if isinstance(at, slice):
            raise TypeError("one name at a time")
        return self._names[at] if at < len(self._names) else f"grant {at - len(self._names) + 1}"


def with_grants(ops: Operations) -> Operations:
    """Give a grant to acquires that were recorded without one, as other tools record them.

    Releases, extensions and questions that name no grant are about the last acquire of that key by the same
    process; if it made none, by the same client, which may go on under a new process name after an info.
    Where a client has several threads only the process counts.
    """
    bare = (ops.grant == NONE) & (ops.f <= F.HELD)
    if not some(bare):
        return ops
    acquire = (ops.f == F.ACQUIRE) & (ops.status != Status.FAIL)
    rows = positions(acquire | (bare & (ops.f != F.ACQUIRE)))
    fresh = positions(bare & acquire)
    grant = ops.grant.copy()
    base = len(ops.names.grant)
    grant[fresh] = base + np.arange(fresh.size)
    asking = ~acquire[rows]
    about = _last_acquire(ops, rows, acquire, ops.process)
    lonely = (about == NONE) & (ops.client[rows] != NONE) & ~threaded(ops)[ops.client[rows]]
    if some(lonely & asking):
        about = np.where(lonely, _last_acquire(ops, rows, acquire, ops.client), about)
    known = asking & (about != NONE)
    grant[rows[known]] = grant[about[known]]
    if not fresh.size:
        return replace(ops, grant=grant)
    return replace(ops, grant=grant, names=replace(ops.names, grant=_Numbered(ops.names.grant, fresh.size)))


def _last_acquire(ops: Operations, rows: Index, acquire: Bools, actor: I32) -> Index:
    """The row of the last acquire of the same actor and key up to each of some rows, -1 if there is none."""
    group = both(actor, ops.key)[rows]
    order = np.argsort(group, kind="stable")
    group = group[order]
    starts = group_starts(group)
    begin = np.repeat(starts, np.diff(np.append(starts, rows.size)))
    last = np.maximum.accumulate(np.where(acquire[rows[order]], np.arange(rows.size), -1))
    found = np.empty(rows.size, np.int64)
    found[order] = np.where(last >= begin, rows[order][last], NONE)
    return found
