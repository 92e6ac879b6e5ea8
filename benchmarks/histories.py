"""Histories of a correct lock, of any size, as columns: what scale benchmarks and tests feed to the checker.

One grant is four operations: acquire, read, write, release. Grants of one key follow each other without a
definite overlap, while the calls of waiting clients overlap freely, as they do in real histories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from checker.history.events import Params
from checker.history.history import History
from checker.history.operations import MISSING, NEVER, NONE, F, Names, Operations, Status
from checker.history.unpairing import events_of

STEP_NS = 1_000
TTL_NS = 10_000_000_000


class Numbered(Sequence[str]):
    """The names prefix0, prefix1, … without storing them."""

    def __init__(self, prefix: str, count: int) -> None:
        self._prefix, self._count = prefix, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int | slice) -> str:
        if isinstance(at, slice):
            raise TypeError("one name at a time")
        if not 0 <= at < self._count:
            raise IndexError(at)
        return f"{self._prefix}{at}"


def correct_lock(
    operations: int,
    *,
    clients: int = 50,
    keys: int = 10,
    info: float = 0.0,
    late_violation: bool = False,
    seed: int = 0,
) -> History:
    """A history of about `operations` operations of a lock that keeps its promise.

    A share `info` of the releases is of unknown outcome; their clients go on as new processes, and the next
    grant waits for the lease to be over. With `late_violation` the last grant but one is not released
    before the last one begins, which is an overlap.
    """
    rng = np.random.default_rng(seed)
    rounds = max(2, operations // (4 * keys))
    clients = max(clients, 2 * keys)
    n = rounds * keys
    turn = np.arange(n) // keys
    key = np.arange(n) % keys
    client = key + keys * (turn % (clients // keys))
    lost = rng.random(n) < info
    lost[(turn >= rounds - 2)] = False
    wait = np.where(lost, 2 * TTL_NS, 0).reshape(rounds, keys)
    begin = (20 * STEP_NS * turn + np.vstack([np.zeros(keys), np.cumsum(wait, 0)[:-1]]).reshape(-1)).astype(
        np.int64
    )
    stamps = _stamps(n, begin, key, lost, rng)
    if late_violation:
        victim = n - 2 * keys
        stamps[victim, 6:] += 30 * STEP_NS
    return _history(stamps, key, client, turn, lost)


def _stamps(
    n: int, begin: np.ndarray, key: np.ndarray, lost: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Call and return stamps of the four operations of each grant, shape (n, 8), all different."""
    offsets = np.array([-12, 2, 4, 6, 8, 10, 12, 14]) * STEP_NS
    jitter = rng.integers(0, STEP_NS // 64, (n, 8)) * 64 + (key[:, None] % 64)
    return np.asarray(begin[:, None] + offsets + jitter + 20 * STEP_NS, np.int64)


def _history(
    stamps: np.ndarray, key: np.ndarray, client: np.ndarray, turn: np.ndarray, lost: np.ndarray
) -> History:
    n = key.size
    kinds = np.array([F.ACQUIRE, F.READ, F.WRITE, F.RELEASE], np.int8)
    call, back = stamps[:, 0::2].reshape(-1), stamps[:, 1::2].reshape(-1)
    status = np.zeros((n, 4), np.int8)
    status[lost, 3] = Status.INFO
    order = np.argsort(call, kind="stable")
    rank = np.empty(8 * n, np.int64)
    rank[np.argsort(stamps.reshape(-1), kind="stable")] = np.arange(8 * n)
    index = rank.reshape(n, 4, 2)
    info = status.reshape(-1) == Status.INFO
    process, process_names = _processes(client, lost)

    def column(*values: object) -> np.ndarray:
        return np.stack([np.broadcast_to(np.asarray(v, np.int64), (n,)) for v in values], 1).reshape(-1)[
            order
        ]

    version = column(MISSING, turn, turn, MISSING)
    written = column(MISSING, MISSING, turn + 1, MISSING)
    ops = Operations.build(
        4 * n,
        Names(
            process=process_names,
            client=[f"client{i}" for i in range(int(client.max()) + 1)],
            key=[f"key{i}" for i in range(int(key.max()) + 1)],
            grant=Numbered("g", n),
            token=Numbered("t", n),
            value=Numbered("v", n),
        ),
        f=np.tile(kinds, n)[order],
        status=status.reshape(-1)[order],
        process=np.repeat(process, 4)[order],
        client=np.repeat(client, 4)[order],
        key=np.repeat(key, 4)[order],
        grant=np.repeat(np.arange(n), 4)[order],
        token=column(np.arange(n), NONE, np.arange(n), NONE),
        value=column(NONE, np.where(turn > 0, np.arange(n) - int(key.max()) - 1, NONE), np.arange(n), NONE),
        call_ns=call[order],
        return_ns=np.where(info, NEVER, back)[order],
        info_ns=np.where(info, back, NEVER)[order],
        call_index=index[:, :, 0].reshape(-1)[order],
        return_index=index[:, :, 1].reshape(-1)[order],
        fence=column(turn + 1, MISSING, turn + 1, MISSING),
        ttl_ns=column(TTL_NS, MISSING, MISSING, MISSING),
        claimed_ns=column(TTL_NS * 98 // 100, MISSING, MISSING, MISSING),
        version_read=version,
        version_written=written,
    )
    ops = replace(ops, call_index=np.ascontiguousarray(ops.call_index))
    params = Params(nodes=5, lock_fences=True)
    history = History(ops=ops, params=params, start_ns=int(call.min()), end_ns=int(back.max()))
    return replace(history, source=lambda: events_of(ops))


def _processes(client: np.ndarray, lost: np.ndarray) -> tuple[np.ndarray, Sequence[str]]:
    """A process per client, a new one after each unknown outcome."""
    if not lost.any():
        return client, [f"client{i}" for i in range(int(client.max()) + 1)]
    order = np.argsort(client, kind="stable")
    fresh = np.ones(order.size, bool)
    fresh[1:] = (client[order][1:] != client[order][:-1]) | lost[order][:-1]
    process = np.empty(order.size, np.int64)
    process[order] = np.cumsum(fresh) - 1
    return process, Numbered("process", int(fresh.sum()))
