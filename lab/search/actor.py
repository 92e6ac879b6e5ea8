"""What a client does in a trial: its rounds, with the same worker and the same lock as everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from lab.addresses import Address
from lab.analysis.assumptions import EPSILON_NS, RHO
from lab.channel import Channel
from lab.client.log import Recording, Sink
from lab.client.points import Points
from lab.client.worker import Worker
from lab.locks import lock_class, margin_ns
from lab.locks.base import Surroundings
from lab.search.trial import START_NS, Trial
from lab.store import StoreClient

KEY = "resource"


class WatchedPoints(Points):
    """Points at which somebody else may look in; a client that is paused there goes no further."""

    def __init__(self, passes: Callable[[str], bool]) -> None:
        super().__init__()
        self._passes = passes

    async def at(self, point: str) -> None:
        """Tell that the client is here, and stay if it was paused."""
        if self._passes(point):
            await asyncio.sleep(0)


async def act(
    trial: Trial,
    client: str,
    nodes: Sequence[Address],
    store: StoreClient,
    sink: Sink,
    *,
    passes: Callable[[str], bool],
    clock_ns: Callable[[], int],
    record_clock_ns: Callable[[], int],
    entropy: Random,
    channel: Callable[..., Channel],
) -> None:
    """Carry out the client's rounds, and record them.

    Args:
        trial: what is to be done.
        client: whose rounds these are.
        nodes: how this client reaches the nodes.
        store: how it reaches the store.
        sink: where its operations are recorded.
        passes: told at which point the client is; answers whether it must stop there.
        clock_ns: the client's monotonic clock.
        record_clock_ns: the history's clock.
        entropy: the client's entropy.
        channel: makes the lock's connections.
    """
    points = WatchedPoints(passes)
    around = Surroundings(
        clock_ns, lambda: f"{entropy.getrandbits(160):040x}", entropy, points.at, channel=channel
    )
    lock = lock_class(trial.lock).build(nodes, trial.options, around, client)
    worker = Worker(
        Recording(client, sink, record_clock_ns),
        lock,
        store,
        key=KEY,
        ttl_ns=trial.ttl_ns,
        check_before_write=True,
        points=points,
        clock_ns=clock_ns,
    )
    start_ns = clock_ns() + START_NS
    await lock.open()
    await store.connect()
    await asyncio.sleep((start_ns - clock_ns()) / 1e9)
    for each in trial.clients[client]:
        if each.think_ns:
            await asyncio.sleep(each.think_ns / 1e9)
        await worker.critical_section(_computing(each.hold_ns))


def _computing(hold_ns: int) -> Callable[[], Any]:
    async def compute() -> None:
        await asyncio.sleep(hold_ns / 1e9)

    return compute


def params_of(trial: Trial) -> dict[str, Any]:
    """What the checker may assume about a trial: its history's header. Raises ``LabError``."""
    return {
        "rho": RHO,
        "delta_ns": margin_ns(trial.lock, trial.ttl_ns, trial.options),
        "epsilon_ns": EPSILON_NS,
        "store_fences": trial.store_fences,
        "lock_fences": lock_class(trial.lock).hands_out_fences,
        "nodes": trial.nodes,
        "clients": list(trial.clients),
    }
