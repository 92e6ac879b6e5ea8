"""A trial's cluster that is driven step by step: operations, time and faults, in whatever order is asked for.

The same world, clients and faults as in ``lab.search.runner``; only who decides what happens next differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from lab.client_protocol import Answer, Verb
from lab.client_protocol import Outcome as Ending
from lab.errors import UnknownOutcome
from lab.faults.base import Fault
from lab.faults.client_crash import ClientCrash
from lab.faults.nemesis import Injected
from lab.faults.pause import Pause
from lab.search.actor import Actor, needs_no_connection
from lab.search.cluster import TrialCluster
from lab.search.runner import Outcome, TrialRun
from lab.search.trial import START_NS, Trial
from lab.substrates.base import Cluster

T = TypeVar("T")
CRITICAL: Final[tuple[Verb, ...]] = ("read", "check", "write")
"""What a holder does with the resource; each only if the one before it succeeded."""


@dataclass
class SteppedClient:
    """One client: what it acts with, and the operation that it is in."""

    actor: Actor
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
        return self.actor.worker().grant[0] is not None


@dataclass
class Lasting:
    """A fault that goes on."""

    fault: Fault
    injected: Injected


class SteppedRun(TrialRun):
    """A cluster with connected clients; only inside ``trials``. Call ``close`` at the end.

    Args:
        trial: the cluster, the lock and the clients' names; its rounds and faults are not looked at.
    """

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial, "direct" if needs_no_connection(trial) else "resp")
        self.lasting: list[Lasting] = []
        """The faults that were injected and not ended, oldest first."""
        actors = self._bring_clients_up()
        self.wait(START_NS)
        self.clients_by_name = {name: SteppedClient(actor) for name, actor in actors.items()}
        for name, actor in actors.items():
            _result(actor.opening, name, trial)

    @property
    def cluster(self) -> TrialCluster:
        """What it consists of."""
        return self._cluster

    def start(self, client: str, *verbs: Verb) -> None:
        """Let a client begin operations, one after the other while they succeed; it must be free."""
        self.clients_by_name[client].task = self._loops[client].create_task(self._each(client, verbs))

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
        for each in fault.parts(cast(Cluster, self._cluster)) or (fault,):
            injected = self.at_once(self._player.inject(each))
            self._mark(each, begins=True)
            if self._player.lasts(injected):
                self.lasting.append(Lasting(each, injected))

    def end(self, lasting: Lasting) -> None:
        """End a fault."""
        self.lasting.remove(lasting)
        ending = lasting.fault.ending()
        if ending is not None and self._player.lasts(lasting.injected):
            self.at_once(self._player.play_one(ending))
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

    async def _each(self, client: str, verbs: tuple[Verb, ...]) -> Answer:
        answer = Answer(0, Ending.SKIPPED)
        for verb in verbs:
            answer = await self._player.order(client, client, self._player.command(verb))
            if answer.outcome is not Ending.OK:
                break
        return answer

    def at_once(self, work: Coroutine[Any, Any, T]) -> T:
        """What takes no time."""
        task = self._lab.create_task(work)
        self._world.run_until(task.done)
        return task.result()

    def _until(self, done: Callable[[], object], within_ns: int) -> None:
        end_ns = self._world.now_ns + within_ns
        self._world.at(end_ns, _nothing)  # so that there is something to happen then
        self._world.run_until(done, end_ns)

    def _mark(self, fault: Fault, *, begins: bool) -> None:
        if not isinstance(fault, Pause | ClientCrash) or fault.client is None:
            return
        one = self.clients_by_name[fault.client]
        if isinstance(fault, Pause):
            one.paused = begins
        else:
            one.crashed = True


def _result(task: asyncio.Task[T], client: str, trial: Trial) -> T:
    if not task.done():
        raise UnknownOutcome(f"{client} does not get to connect", where=trial.lock)
    error = task.exception()
    if error is not None:
        raise UnknownOutcome(f"{client}'s own code failed: {error!r}", where=trial.lock)
    return task.result()


def _nothing() -> None:
    """The end of a wait."""


__all__ = ["CRITICAL", "Lasting", "SteppedClient", "SteppedRun"]
