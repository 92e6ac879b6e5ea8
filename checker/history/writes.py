"""The writes that the store accepted, and what they prove about acquires that nobody confirmed.

An acknowledged write was accepted. One of unknown outcome was accepted only if a later read, or the store's
own log, saw its value (every written value is unique).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checker.history.arrays import both, sort_grouped
from checker.history.grants import Grants, promote
from checker.history.history import History
from checker.history.masks import positions
from checker.history.operations import I32, I64, MISSING, NEVER, NONE, F, Index, Operations, Status


@dataclass(frozen=True, slots=True)
class Writes:
    """Accepted writes, shape (n,) each, ordered by call.

    `done_ns` is when the write had happened at the latest; `grant` a row of `Grants`, -1 for a write under
    none; `version_read` what it was based on, `version_written` the store's number for it (or `MISSING`).
    """

    row: Index
    key: I32
    grant: Index
    call_ns: I64
    done_ns: I64
    version_read: I64
    version_written: I64
    fence: I64

    def __len__(self) -> int:
        return int(self.row.size)

    def take(self, rows: Index | np.ndarray) -> Writes:
        """The same table restricted to rows or a mask."""
        return Writes(*(getattr(self, name)[rows] for name in self.__slots__))


def accepted_writes(history: History, ops: Operations, grants: Grants) -> tuple[Writes, Grants]:
    """All accepted writes; and the grants with those promoted that a write or the log proves."""
    rows = ops.rows(F.WRITE)
    sure = ops.status[rows] == Status.OK
    done = np.where(sure, ops.return_ns[rows], NEVER)
    version = ops.version_written[rows].copy()
    unsure = positions((ops.status[rows] == Status.INFO) & (ops.value[rows] != NONE))
    if unsure.size:
        seen_ns, seen_version = _sightings(history, ops, rows[unsure])
        done[unsure] = seen_ns
        fill = unsure[version[unsure] == MISSING]
        version[fill] = seen_version[np.searchsorted(unsure, fill)]
    kept = positions(done < NEVER)
    rows, done, version = rows[kept], done[kept], version[kept]
    grant = grants.of(ops.grant[rows])
    writes = Writes(
        row=rows,
        key=ops.key[rows],
        grant=grant,
        call_ns=ops.call_ns[rows],
        done_ns=done,
        version_read=ops.version_read[rows],
        version_written=version,
        fence=ops.fence[rows],
    )
    return writes, _promoted(history, ops, grants, writes)


def based_on(writes: Writes) -> I64:
    """What each write was based on; a client knows its own earlier writes under the same grant."""
    based = writes.version_read.copy()
    mine = positions((writes.grant >= 0) & (writes.version_written != MISSING) & (based != MISSING))
    if int(np.bincount(writes.grant[mine]).max(initial=0)) < 2:
        return based  # one write under each grant
    order = mine[sort_grouped(writes.grant[mine], writes.version_written[mine])]
    grant, version = writes.grant[order], writes.version_written[order]
    again = positions((grant[1:] == grant[:-1]) & (writes.key[order][1:] == writes.key[order][:-1]))
    based[order[again + 1]] = np.maximum(based[order[again + 1]], version[again])
    return based


def _sightings(history: History, ops: Operations, rows: Index) -> tuple[I64, I64]:
    """When each of these writes was seen at first (`NEVER` if it was not), and as which version."""
    seen = np.full(rows.size, NEVER, np.int64)
    version = np.full(rows.size, MISSING, np.int64)
    named = both(ops.key, ops.value)
    wanted = named[rows]
    reads = ops.rows(F.READ, Status.OK)
    reads = reads[ops.value[reads] != NONE]
    order = np.argsort(named[reads])
    sorted_code = named[reads[order]]
    left = np.searchsorted(sorted_code, wanted)
    right = np.searchsorted(sorted_code, wanted, "right")
    for at in positions(right > left).tolist():
        witnesses = reads[order[left[at] : right[at]]]
        seen[at] = ops.return_ns[witnesses].min()
        version[at] = ops.version_read[witnesses].max()
    wanted_by_name = {(ops.name("key", r), ops.name("value", r)): i for i, r in enumerate(rows.tolist())}
    for key, value, number, time_ns in _lab_sightings(history):
        found = wanted_by_name.get((key, value)) if isinstance(value, str | int) else None
        if found is not None:
            seen[found] = min(seen[found], time_ns)
            version[found] = max(version[found], MISSING if number is None else number)
    return seen, version


def _lab_sightings(history: History) -> Iterator[tuple[str | None, object, int | None, int]]:
    for record in history.lab:
        if record.f == "read":
            yield record.key, record.value, record.version_read, record.time_ns
        for version, value, _, _ in record.entries:
            yield record.key, value, version, record.time_ns


def _promoted(history: History, ops: Operations, grants: Grants, writes: Writes) -> Grants:
    token = ops.token[writes.row]
    proof = positions((token != NONE) & (writes.grant >= 0))
    grants = promote(grants, writes.grant[proof], writes.done_ns[proof])
    named = positions(~grants.held & (grants.token != NONE))
    if named.size:
        by_token = np.full(len(ops.names.token) + 1, NONE, np.int64)
        by_token[grants.token[named]] = named
        match = by_token[token]
        same = positions((match >= 0) & (grants.key[match] == writes.key))
        grants = promote(grants, match[same], writes.done_ns[same])
    unsure = {ops.names.grant[int(grants.code[g])]: g for g in positions(~grants.held).tolist()}
    if unsure:
        logged = [
            (unsure[grant_id], record.time_ns)
            for record in history.lab
            for _, _, grant_id, _ in record.entries
            if grant_id in unsure
        ]
        found = np.array(logged, np.int64).reshape(-1, 2)
        grants = promote(grants, found[:, 0], found[:, 1])
    return grants
