"""Injects faults and records them: invoke, then ok with a receipt, or fail without one.

Faults that last are kept open until they are ended. An end that covers only part of a fault ends it and opens
it again for the rest, so that the history shows exactly what was broken when.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

from lab.errors import UnknownOutcome
from lab.faults.base import Fault, Receipt, Target, Tolerance, all_at_once
from lab.scenario.registry import steps
from lab.scenario.step_base import StepModel
from lab.substrates.base import Cluster

Action = Callable[[], Awaitable[Receipt]]


class Record(Protocol):
    """A history."""

    def write(self, process: str, kind: str, f: str, **fields: Any) -> None:
        """Append an event, now."""
        ...


class Injected(NamedTuple):
    """What came of a fault: its target as text, its receipt, and the ids of its parts in the history."""

    words: str
    receipt: Receipt
    fault_ids: tuple[str, ...]


@dataclass(slots=True)
class Open:
    """A fault that lasts until it is ended. When a part is ended, one with fewer ``ends`` remains.

    ``first_id`` is the id under which it was injected, whatever was ended of it since.
    """

    fault_id: str
    first_id: str
    f: str
    ended_by: str
    target: Target
    breaks: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


class End(StepModel):
    """A step that ends faults: those that name its key."""

    SAYS: ClassVar[str]
    """Its line in the output, with a place for the target: ``heals {}``."""
    TURN: ClassVar[int] = 0
    """Its place in the order of ends when all faults are ended after the last step."""

    @abstractmethod
    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """End them; return what was ended as text, and whether every receipt is there."""

    @classmethod
    @abstractmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """End all of them, after the last step."""

    def brings_up(self, cluster: Cluster) -> tuple[str, ...]:
        """The nodes that are up again when it is done, and must be observed again."""
        return ()


class Nemesis:
    """Injects and ends the faults of a run."""

    def __init__(self, cluster: Cluster, record: Record, tolerance: Tolerance) -> None:
        self.cluster = cluster
        self._history = record
        self._tolerance = tolerance
        self._count = 0
        self._open: list[Open] = []
        self.returning: dict[str, asyncio.Task[Receipt]] = {}
        """By node, the task beside the steps that restarts it after a delay."""
        self.under_way: list[str] = []
        """The keys of the faults that are being injected."""
        self.receipts: list[tuple[str, Mapping[str, Any]]] = []
        """What was recorded so far: the keys of faults and ends, and their evidence."""
        self.hurry = asyncio.Event()
        """Set after the last step: delays are cut short."""

    async def inject(self, fault: Fault) -> Injected:
        """Inject a fault."""
        target, parts = fault.target(self.cluster), fault.parts(self.cluster)
        if not parts:
            fault_id, receipt = await self._inject(fault, target)
            return Injected(target.words, receipt, (fault_id,))
        done = await all_at_once(self._inject(one, one.target(self.cluster)) for one in parts)
        evidence = {name: value for _, receipt in done for name, value in receipt.evidence.items()}
        confirmed = all(receipt.confirmed for _, receipt in done)
        return Injected(target.words, Receipt(confirmed, evidence), tuple(fault_id for fault_id, _ in done))

    async def _inject(self, fault: Fault, target: Target) -> tuple[str, Receipt]:
        breaks = fault.breaks(self._tolerance)
        self.under_way.append(fault.KEY)
        try:
            fault_id, receipt = await self.record(
                fault.KEY, target, breaks, partial(fault.inject, self.cluster)
            )
        finally:
            self.under_way.remove(fault.KEY)
        # A killed client is not paused any more, and can't be resumed.
        self._open = [
            f for f in self._open if f.ended_by not in fault.RULES_OUT or f.target.ends != target.ends
        ]
        if fault.ENDED_BY is not None:
            self._open.append(
                Open(fault_id, fault_id, fault.KEY, fault.ENDED_BY, target, breaks, receipt.evidence)
            )
        elif fault.PASSES and receipt.confirmed:
            await self.record("heal", target, None, partial(returned, receipt), heals=fault_id)
        return fault_id, receipt

    def lasts(self, injected: Injected) -> bool:
        """Whether some of a fault has not been ended."""
        return any(fault.first_id in injected.fault_ids for fault in self._open)

    async def end(self, step: End) -> tuple[str, bool]:
        """End what a step ends; return that as text, and whether every receipt is there."""
        return await step.end(self)

    async def until_up(self, names: Iterable[str], timeout_s: float) -> bool:
        """Wait until each of these nodes is up; False: it did not come back in time."""
        returning = [self.returning[name] for name in names if name in self.returning]
        if returning:
            await asyncio.wait(returning, timeout=timeout_s)
        return all(task.done() and task.result().confirmed for task in returning)

    async def heal_everything(self) -> None:
        """End all faults that still last, for the final reads after the last step.

        Nodes that are down are started as well, those with a delay at once; killed clients stay dead.
        """
        self.hurry.set()
        ends = [step for step in steps().values() if issubclass(step, End)]
        for end in sorted(ends, key=lambda end: end.TURN):
            await end.end_all(self)

    async def abandon(self) -> None:
        """Cancel delayed restarts; used when a run ends early."""
        for task in self.returning.values():
            task.cancel()
        await asyncio.gather(*self.returning.values(), return_exceptions=True)

    def lasting(self, key: str) -> list[Open]:
        """The faults that last and are ended by steps with this key, the oldest first."""
        return [fault for fault in self._open if fault.ended_by == key]

    def take(self, fault: Open) -> None:
        """Leave it to the caller to end this fault."""
        self._open.remove(fault)

    async def close(self, fault: Open, f: str, target: Target, action: Action) -> Receipt:
        """End a fault for the target's ends; it lasts on, under another id, for those that are left."""
        _, receipt = await self.record(f, target, None, action, heals=fault.fault_id)
        if fault in self._open:
            self._open.remove(fault)
        rest = tuple(end for end in fault.target.ends if end not in target.ends)
        if rest:
            words = fault.target.words.replace(",".join(fault.target.ends), ",".join(rest))
            left = Target(words, rest, fault.target.near)
            fault_id, _ = await self.record(fault.f, left, fault.breaks, partial(_continues, fault.fault_id))
            self._open.append(
                Open(fault_id, fault.first_id, fault.f, fault.ended_by, left, fault.breaks, fault.evidence)
            )
        return receipt

    async def record(
        self, f: str, target: Target, breaks: str | None, action: Action, heals: str | None = None
    ) -> tuple[str, Receipt]:
        """Do something and record it with its receipt; return its id in the history."""
        fault_id = self._new_id(f, heals)
        about: dict[str, Any] = {
            "fault_id": fault_id,
            "target": target.words,
            "targets": list(target.names),
            "breaks": breaks,
            "heals": heals,
        }
        self._history.write("nemesis", "invoke", f, **about)
        try:
            receipt = await action()
        except UnknownOutcome as error:
            self._history.write("nemesis", "fail", f, **about, error=error.seen)
            raise
        self.receipts.append((f, receipt.evidence))
        kind = "ok" if receipt.confirmed else "fail"
        self._history.write("nemesis", kind, f, **about, receipt=dict(receipt.evidence))
        return fault_id, receipt

    def _new_id(self, f: str, heals: str | None) -> str:
        """The next id in the history; ``heals``: of the fault that this is the end of."""
        self._count += 1
        return f"{f}-{self._count}"


async def _continues(fault_id: str) -> Receipt:
    return Receipt(True, {"continues": fault_id})


async def returned(receipt: Receipt) -> Receipt:
    """A receipt that is there already, as an action."""
    return receipt
