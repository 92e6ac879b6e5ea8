"""What Sentinels and the nodes of a Redis Cluster say of the master, in the history of a run.

Each of them is asked past all links. The events that a Sentinel publishes (``+sdown``, ``+odown``,
``+switch-master`` …) are stamped when they arrive; a node of a Redis Cluster publishes none, so each is asked
again and again, and what changes is recorded. Every failover is recorded as a fault with its receipt, in a
Redis Cluster that of the master which serves the slot of the lock's key. The first who reports it counts:
others report the same epoch later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Final

from lab.errors import UnknownOutcome
from lab.faults.base import Target, is_running
from lab.faults.down import NOT_DURABLE
from lab.faults.failover import Failover, switched
from lab.faults.nemesis import Nemesis, Record
from lab.faults.reshard import Reshard
from lab.substrates.base import Cluster, Reporter, Sentinel, View

AGAIN_S: Final = 0.05
SWITCHED: Final = "+switch-master"


class FailoverWatch:
    """Listens to all Sentinels of a cluster, or asks all nodes of a Redis Cluster."""

    def __init__(self, cluster: Cluster, nemesis: Nemesis, record: Record) -> None:
        self._cluster, self._nemesis, self._record = cluster, nemesis, record
        self._sentinels: Mapping[str, Sentinel] = cluster.sentinels
        self._tasks: list[asyncio.Task[None]] = []
        self._master = next((name for name in cluster.nodes if name not in cluster.replicas), "")
        self._epoch = 0

    def start(self) -> None:
        """Begin to listen, or to ask."""
        asked = () if self._sentinels else self._cluster.reporters.values()
        works = [*map(self._listen, self._sentinels.values()), *map(self._ask, asked)]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def stop(self) -> None:
        """Stop it."""
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
                        await self._note_failover(await sentinel.view())
            await asyncio.sleep(AGAIN_S)

    async def _ask(self, reporter: Reporter) -> None:
        """Ask what it reports, and record it when that is another than before."""
        before: View | None = None
        while True:
            with contextlib.suppress(UnknownOutcome):
                if is_running(reporter) and (view := await reporter.view()) != before:
                    value = {"master": view.master, "epoch": view.epoch, "down": sorted(view.down)}
                    self._record.write("lab", "info", "cluster", node=reporter.name, value=value)
                    if before is None:
                        self._begin(view)
                    elif view.master:
                        await self._note_failover(view)
                    before = view
            await asyncio.sleep(AGAIN_S)

    def _is_told(self, old: str, view: View) -> bool:
        """Whether the receipt of a step tells of it: of a failover, or of a slot that was moved."""
        return any(
            (f == Failover.KEY and evidence.get("epoch") == view.epoch)
            or (f == Reshard.KEY and (evidence.get("from"), evidence.get("to")) == (old, view.master))
            for f, evidence in self._nemesis.receipts
        )

    def _begin(self, view: View) -> None:
        if view.epoch > self._epoch:
            self._master, self._epoch = view.master, view.epoch

    async def _note_failover(self, view: View) -> None:
        if view.epoch <= self._epoch:
            return
        old, self._master, self._epoch = self._master, view.master, view.epoch
        if old == view.master or Failover.KEY in self._nemesis.under_way or self._is_told(old, view):
            return
        await self._nemesis.record(
            Failover.KEY,
            Target(f"from {old} to {view.master}", (view.master,)),
            NOT_DURABLE,
            partial(switched, old, view, self._cluster),
        )
