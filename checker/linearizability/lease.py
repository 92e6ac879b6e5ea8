"""Where a timed lease is as good as a plain mutex: it was given back before it could end by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checker.history.arrays import shorter
from checker.history.operations import MISSING, NEVER, NONE, F, Operations, Status
from checker.history.windows import promised


def may_end_by_itself(ops: Operations, keys: int, rho: float, delta_ns: int) -> NDArray[np.bool_]:
    """Shape (keys,): True where some lease of the key was not surely released before its time was over.

    Surely means: a release that did not fail, of the same process and key, is its next operation on the
    lock and was called by `ca + TTL * (1 - rho) - delta`, with `ca` the call of the acquire, and within what
    that was told of its lease (`checker.history.windows`). Extensions,
    failed releases, grants of unknown outcome and grants without a TTL are never sure. The code of an
    absent key is the largest one.
    """
    lock = np.flatnonzero((ops.f == F.ACQUIRE) | (ops.f == F.RELEASE) | (ops.f == F.EXTEND))
    lock = lock[(ops.f[lock] != F.ACQUIRE) | (ops.status[lock] != Status.FAIL)]
    key = np.where(ops.key[lock] == NONE, keys - 1, ops.key[lock])
    found = np.zeros(keys, np.bool_)
    if not len(lock):
        return found
    order = np.lexsort((ops.call_index[lock], ops.process[lock], key))
    rows, key = lock[order], key[order]
    acquired = (ops.f[rows] == F.ACQUIRE) & (ops.status[rows] == Status.OK)
    ttl_ns = ops.ttl_ns[rows]
    timed = ttl_ns != MISSING
    lifetime_ns = shorter(np.where(timed, ttl_ns, 0), rho) - delta_ns
    deadline_ns = np.where(timed, ops.call_ns[rows] + lifetime_ns, -NEVER)
    deadline_ns = np.minimum(deadline_ns, promised(ops.return_ns[rows], ops.claimed_ns[rows], rho))
    released = np.zeros(len(rows), np.bool_)
    following = rows[1:]
    released[:-1] = (
        (key[1:] == key[:-1])
        & (ops.process[following] == ops.process[rows[:-1]])
        & (ops.f[following] == F.RELEASE)
        & (ops.status[following] != Status.FAIL)
        & (ops.call_ns[following] <= deadline_ns[:-1])
    )
    # A grant of unknown outcome may come and go by itself, and explain a refusal that no mutex could.
    unsure = (acquired & ~released) | ((ops.f[rows] == F.ACQUIRE) & (ops.status[rows] == Status.INFO))
    found[key[unsure]] = True
    return found
