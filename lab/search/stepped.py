"""A trial's cluster that is driven step by step: operations, time and faults, in whatever order is asked for.

The same world, clients and faults as in ``lab.search.runner``; only who decides what happens next differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from lab.client.worker import Worker
from lab.client_protocol import Answer, Command, Verb
from lab.client_protocol import Outcome as Ending
from lab.errors import UnknownOutcome
from lab.faults.base import Receipt
from lab.faults.client_crash import ClientCrash
from lab.faults.pause import Pause
from lab.search.actor import connect, equip, key_of, needs_no_connection
from lab.search.runner import Outcome, TrialRun
from lab.search.trial import START_NS, Fault, Trial
from lab.substrates.sim.loop import HostLoop

T = TypeVar("T")
CRITICAL: Final[tuple[Verb, ...]] = ("read", "check", "write")
"""What a holder does with the resource; each only if the one before it succeeded."""


@dataclass
class SteppedClient:
    """One client: what it acts with, and the operation that it is in."""

    worker: Worker
    task: asyncio.Task[Answer] | None = None
    crashed: bool = False
    paused: bool = False

    @property
    def busy(self) -> bool:
        """Whether its last operation still goes on."""
        return self.task is not None and not self.task.done()

    @property
    def free(self) -> bool:
        """Whether it can be asked to do something."""
        return not (self.busy or self.crashed or self.paused)

    @property
    def holds(self) -> bool:
        """Whether it has a lease, over or not."""
        return self.worker.grant[0] is not None


@dataclass
class Lasting:
    """A fault that goes on, and the evidence of its receipt."""

    fault: Fault
    evidence: dict[str, Any] = field(default_factory=dict)


class SteppedRun(TrialRun):
    """A cluster with connected clients; only inside ``trials``. Call ``close`` at the end.

    Args:
        trial: the cluster, the lock and the clients' names; its rounds and faults are not looked at.
    """

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial, "direct" if needs_no_connection(trial) else "resp")
        self.lasting: list[Lasting] = []
        """The faults that were injected and not ended, oldest first."""
        self.clients_by_name: dict[str, SteppedClient] = {}
        opening = {
            name: loop.create_task(loop.host.run(self._open, name, loop))
            for name, loop in self._loops.items()
        }
        self.wait(START_NS)
        for name, task in opening.items():
            self.clients_by_name[name] = SteppedClient(_result(task, name, trial))

    def start(self, client: str, *verbs: Verb) -> None:
        """Let a client begin operations, one after the other while they succeed; it must be free."""
        one, loop = self.clients_by_name[client], self._loops[client]
        one.task = loop.create_task(loop.host.run(_each, one.worker, verbs))

    def finish(self, client: str, within_ns: int) -> Answer | None:
        """Let time pass until a client's operation is over; None if it goes on after ``within_ns``."""
        one = self.clients_by_name[client]
        self._until(lambda: not one.busy, within_ns)
        if one.task is None or not one.task.done():
            return None
        return _result(one.task, client, self._trial)

    def wait(self, for_ns: int) -> None:
        """Let so much time pass."""
        self._until(bool, for_ns)

    def strike(self, fault: Fault) -> None:
        """Inject a fault, which lasts until ``end``; nothing if it is so already."""
        before = len(self.lasting)
        self._faults.strike(fault)
        if len(self.lasting) > before:
            self._mark(fault, begins=True)

    def end(self, lasting: Lasting) -> None:
        """End a fault."""
        self.lasting.remove(lasting)
        self._faults.end(lasting.fault, lasting.evidence)
        self._mark(lasting.fault, begins=False)

    def outcome(self) -> Outcome:
        """The history so far, as that of a trial."""
        if self._world.violations:
            raise self._world.violations[0]
        return self._outcome()

    def close(self) -> None:
        """Stop everything, and let go of it."""
        self._bury()
        self._take_apart()

    async def _open(self, client: str, loop: HostLoop) -> Worker:
        context = self._context(client, loop)
        lock, worker_for, _ = equip(context)
        await connect(lock, context.store)
        return worker_for(key_of(self._trial, lock))

    def _until(self, done: Callable[[], object], within_ns: int) -> None:
        end_ns = self._world.now_ns + within_ns
        self._world.at(end_ns, _nothing)  # so that there is something to happen then
        self._world.run_until(done, end_ns)

    def _record(self, fault: Fault, begins: bool, receipt: Receipt) -> None:
        super()._record(fault, begins, receipt)
        if begins:
            self.lasting.append(Lasting(fault, dict(receipt.evidence)))

    def _mark(self, fault: Fault, *, begins: bool) -> None:
        one = self.clients_by_name.get(fault.client)
        if one is not None and fault.is_a(Pause):
            one.paused = begins
        elif one is not None and fault.is_a(ClientCrash):
            one.crashed = True
        if begins and not fault.lasts:
            self.lasting.pop()  # over at once, or never


def _result(task: asyncio.Task[T], client: str, trial: Trial) -> T:
    if not task.done():
        raise UnknownOutcome(f"{client} does not get to connect", where=trial.lock)
    error = task.exception()
    if error is not None:
        raise UnknownOutcome(f"{client}'s own code failed: {error!r}", where=trial.lock)
    return task.result()


async def _each(worker: Worker, verbs: tuple[Verb, ...]) -> Answer:
    answer = Answer(0, Ending.SKIPPED)
    for verb in verbs:
        answer = await worker.run(Command(0, verb))
        if answer.outcome is not Ending.OK:
            break
    return answer


def _nothing() -> None:
    """The end of a wait."""


__all__ = ["CRITICAL", "Lasting", "SteppedClient", "SteppedRun"]
