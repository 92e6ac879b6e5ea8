"""The reads and writes of the resource in the order of the store's own version numbers.

The store serialises writes and returns the version of each, so the order of versions is known, not guessed:
a write of version v stands at 2v, a read that saw v at 2v + 1. A history of one key is free of cycles over
ww, wr, rw and real-time edges if and only if no operation returned before one with a smaller position was
called, and no write replaced a version other than the one it was based on: every ww, wr and rw edge leads to
a larger position, and from any position a path leads to every larger write (and to what read it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.history.arrays import Composite, largest_before, running_max, sort_grouped, which_before
from checker.history.evidence import Evidence
from checker.history.masks import positions, some
from checker.history.operations import I32, I64, MISSING, Bools, F, Index, Status


@dataclass(frozen=True, slots=True)
class Accesses:
    """Reads and accepted writes of known version, ordered by key, then position; shape (n,) each.

    `based_on` is the version that a write read before, `MISSING` for blind writes and for reads. `row` is a
    row of the operations.
    """

    row: Index
    key: I32
    call_ns: I64
    done_ns: I64
    write: Bools
    version: I64
    based_on: I64

    def __len__(self) -> int:
        return int(self.row.size)

    @property
    def position(self) -> I64:
        """Where an access stands in the order of versions."""
        return self.version * 2 + ~self.write

    def take(self, rows: Index | Bools) -> Accesses:
        """The same table restricted to rows or a mask."""
        return Accesses(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Pairs of accesses (rows of `Accesses`): `first` must come before `second`, but stands after it.

    `kind` says why: "real-time" (`first` had returned before `second` was called), "rw" (`first` is a write
    that was based on an older version than that of `second`, which it replaced), or "wr" (`second` is a write
    that was based on `first`, a later version than its own).
    """

    first: Index
    second: Index
    kind: tuple[str, ...]
    count: int


def accesses_of(evidence: Evidence) -> Accesses:
    """All accesses whose version is known."""
    ops, writes = evidence.ops, evidence.writes
    written = positions(writes.version_written != MISSING)
    known = np.zeros(len(ops), bool)  # rows in their order: versions mostly grow with it, which sorts fast
    known[ops.rows(F.READ, Status.OK)] = True
    known &= ops.version_read != MISSING
    known[writes.row[written]] = True
    row = positions(known)
    write = ops.f[row] == F.WRITE
    done_ns, version = ops.return_ns[row], ops.version_read[row]
    done_ns[write], version[write] = writes.done_ns[written], writes.version_written[written]
    based = np.full(row.size, MISSING, np.int64)
    based[write] = evidence.based_on[written]
    joined = Accesses(row, ops.key[row], ops.call_ns[row], done_ns, write, version, based)
    return joined.take(sort_grouped(joined.key, joined.position))


def contradictions(
    accesses: Accesses, epsilon_ns: int, limit: int, explained: Bools | None = None
) -> Contradictions:
    """Where real time or a read-modify-write contradicts the order of versions, O(n log n); exact.

    Lists the `limit` pairs that are nearest to each other in that order. Those with an `explained` access
    (a mask of shape (n,)) are left out.
    """
    new = np.ones(len(accesses), bool) if explained is None else ~explained
    position, key = accesses.position, accesses.key
    called = accesses.call_ns - 2 * epsilon_ns
    late = np.empty(0, np.int64)
    reached = running_max(called, key)
    # Only if one returned before another of a smaller position was called is there anything to look for.
    if some((accesses.done_ns[1:] < reached[:-1]) & (key[1:] == key[:-1])):
        best = largest_before(key, accesses.done_ns, position, key, called)
        late = positions((best > position) & new)
        late = late[np.argsort(best[late] - position[late], kind="stable")]
    found = [
        (which_before(key, accesses.done_ns, position, int(key[b]), int(called[b])), b, "real-time")
        for b in late[:limit].tolist()
    ]
    skips, ahead = (p[new[p].all(axis=1)] if len(p) else p for p in (_skips(accesses), _ahead(accesses)))
    found += [(t, x, "rw") for t, x in skips[: limit - len(found)].tolist()]
    found += [(x, t, "wr") for x, t in ahead[: limit - len(found)].tolist()]
    first, second, kind = zip(*found, strict=True) if found else ((), (), ())
    return Contradictions(
        np.array(first, np.int64),
        np.array(second, np.int64),
        kind,
        int(late.size + len(skips) + len(ahead)),
    )


def _skips(accesses: Accesses) -> Index:
    """Writes that replaced another version than they were based on, and the replaced; shape (m, 2)."""
    writer = positions(accesses.write)
    before, after = writer[:-1], writer[1:]
    based = accesses.based_on[after]
    skips = (accesses.key[after] == accesses.key[before]) & (based != MISSING)
    skips &= accesses.version[before] > based
    return np.stack([after[skips], before[skips]], axis=1)


def _ahead(accesses: Accesses) -> Index:
    """Writes of known version, and the writes of smaller version based on them; shape (m, 2)."""
    writer = positions(accesses.write)
    ahead = positions(accesses.write & (accesses.based_on > accesses.version))
    if not ahead.size:
        return np.stack([ahead, ahead], axis=1)
    code = Composite(accesses.key[writer], accesses.version[writer])
    known = code.encode(accesses.key[writer], accesses.version[writer])
    wanted = code.encode(accesses.key[ahead], accesses.based_on[ahead])
    at = np.minimum(np.searchsorted(known, wanted), writer.size - 1)
    exists = known[at] == wanted
    return np.stack([writer[at[exists]], ahead[exists]], axis=1)
