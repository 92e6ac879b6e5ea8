"""What the Sentinels of a run publish, in its history; and each failover as a fault with its receipt.

Each Sentinel is asked past all links. Its events (``+sdown``, ``+odown``, ``+switch-master`` …) are stamped
when they arrive. The first ``+switch-master`` of an epoch is the failover: Sentinels that hear of it later
publish the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Final

from lab.errors import UnknownOutcome
from lab.faults.base import Target
from lab.faults.failover import Failover, switched
from lab.faults.nemesis import Nemesis, Record
from lab.substrates.base import Cluster, Sentinel

AGAIN_S: Final = 0.05
SWITCHED: Final = "+switch-master"


class SentinelWatch:
    """Listens to all Sentinels of a cluster."""

    def __init__(self, cluster: Cluster, nemesis: Nemesis, record: Record) -> None:
        self._cluster, self._nemesis, self._record = cluster, nemesis, record
        self._sentinels: Mapping[str, Sentinel] = cluster.sentinels
        self._tasks: list[asyncio.Task[None]] = []
        self._master = next((name for name in cluster.nodes if name not in cluster.replicas), "")
        self._epoch = 0

    def start(self) -> None:
        """Begin to listen."""
        self._tasks = [asyncio.create_task(self._listen(each)) for each in self._sentinels.values()]

    async def stop(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, sentinel: Sentinel) -> None:
        """Listen, and again when it is back after it was down."""
        while True:
            with contextlib.suppress(OSError, UnknownOutcome):
                async for event, text in sentinel.heard():
                    value = {"event": event, "text": text}
                    self._record.write("lab", "info", "sentinel", node=sentinel.name, value=value)
                    if event == SWITCHED:
                        await self._note_failover(sentinel)
            await asyncio.sleep(AGAIN_S)

    async def _note_failover(self, sentinel: Sentinel) -> None:
        view = await sentinel.view()
        old, self._master = self._master, view.master
        if view.epoch <= self._epoch:
            return
        self._epoch = view.epoch
        if Failover.KEY in self._nemesis.under_way:
            return  # its own receipt tells of it
        await self._nemesis.record(
            Failover.KEY,
            Target(f"from {old} to {view.master}", (view.master,)),
            Failover.BREAKS,
            partial(switched, old, view, self._cluster),
        )
