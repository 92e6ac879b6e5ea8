"""A client of a trial: what it does when it is told to, with the same worker and lock as everywhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from lab.addresses import Address
from lab.analysis.assumptions import EPSILON_NS, RHO
from lab.channel import Channel
from lab.client.log import Recording, Sink
from lab.client.points import Points
from lab.client.serve import used
from lab.client.worker import Worker
from lab.client_protocol import Answer, Command
from lab.locks import capacity_of, is_own, key_pattern, lock_class, margin_ns
from lab.locks.base import Lock, LockError, Surroundings
from lab.locks.capacity import Capacity
from lab.search.guard import Failure, Guarded, guard_announcing
from lab.search.trial import Trial
from lab.store import StoreClient

OTHER_GRANTS: Final = 1000
"""The grants of a second key, or a second task, are counted from this number on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientContext:
    """What one client of a trial is made of.

    Attributes:
        trial: the options of the lock, and its TTL.
        lock: its class.
        client: its name.
        nodes: how this client reaches the nodes.
        sentinels: how it reaches the Sentinels, where there are some.
        store: how it reaches the store.
        sink: where its operations are recorded.
        clock_ns: the client's monotonic clock.
        record_clock_ns: the history's clock.
        entropy: the client's entropy.
        channel: makes the lock's connections.
        failures: where exceptions are noted that the lock must not raise.
        opened: called with the lock, and the name of its key on the nodes, when it has been opened.
        guard: makes what stands between the client and its lock, see ``Guarded``.
    """

    trial: Trial
    lock: type[Lock]
    client: str
    nodes: Sequence[Address]
    store: StoreClient
    sink: Sink
    clock_ns: Callable[[], int]
    record_clock_ns: Callable[[], int]
    entropy: Random
    channel: Callable[..., Channel]
    failures: list[Failure]
    opened: Callable[[Lock, str], None]
    guard: Callable[[Lock, str, Callable[[], int], list[Failure]], Guarded] = Guarded
    sentinels: Sequence[Address] = ()


class Actor:
    """One client of a trial: it opens its lock, and carries out commands.

    Args:
        context: what it is made of.
        loop: the loop of its machine.
    """

    def __init__(self, context: ClientContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self.lock: Any = None
        """Its lock, once ``opening`` has ended."""
        self._workers: dict[tuple[int, str], Worker] = {}
        self._under_way: dict[int, tuple[Worker, asyncio.Task[Any]]] = {}
        self.opening = loop.create_task(self._open())

    async def run(self, command: Command) -> Answer:
        """Carry out a command, as a task of the client's own machine."""
        if not self.opening.done():
            await asyncio.wait([self.opening])
        if command.verb in ("close", "open"):
            return await used(self.lock, command)
        worker, task = self.worker(command.task, command.key), asyncio.current_task()
        assert task is not None
        self._under_way[command.id] = worker, task
        try:
            return await worker.run(command)
        finally:
            del self._under_way[command.id]

    def cancel(self, command_id: int) -> None:
        """Cancel a command, if it has begun and not ended."""
        if (found := self._under_way.get(command_id)) is not None:
            worker, task = found
            worker.cancel(task)

    async def _open(self) -> None:
        context = self._context
        trial = context.trial
        self.lock, self._worker_for = equip(context)
        await connect(self.lock, context.store)
        self._usual = key_of(trial, self.lock)
        context.opened(self.lock, node_key(self.lock, self._usual))

    def worker(self, task: int = 1, name: str | None = None) -> Worker:
        """The worker of a task for the key of a name; only once the lock has been opened."""
        key = self._usual if name is None else key_of(self._context.trial, self.lock, name)
        if (task, key) not in self._workers:
            self._workers[task, key] = self._worker_for(key, task, OTHER_GRANTS * len(self._workers))
        return self._workers[task, key]


def key_of(trial: Trial, lock: object, name: str = "") -> str:
    """The key of a name, by the pattern of the trial, or else of the lock; of a driver once it is open."""
    return (trial.keys or key_pattern(lock)).replace("{}", name or trial.key_name)


def node_key(lock: Any, key: str) -> str:
    """Under which name a key lies on the nodes, as far as the lock says so; of a driver once it is open."""
    return str(lock.node_key(key)) if hasattr(lock, "node_key") else key


async def connect(lock: Lock, store: StoreClient) -> None:
    """Connect to the nodes that can be reached, and to the store."""
    with contextlib.suppress(LockError):  # noted; what it means for the lock is seen when it is used
        await lock.open()
    await store.connect()


def equip(context: ClientContext) -> tuple[Lock, Callable[..., Worker]]:
    """Return its lock, and what makes a worker for a key and a task."""
    trial, clock_ns, entropy = context.trial, context.clock_ns, context.entropy
    points = Points()
    around = Surroundings(
        clock_ns,
        lambda: f"{entropy.getrandbits(160):040x}",
        entropy,
        points.at,
        channel=context.channel,
        sentinels=tuple(context.sentinels),
    )
    own = context.lock.build(context.nodes, trial.options, around, context.client)
    lock: Any = context.guard(own, context.client, context.record_clock_ns, context.failures)
    recordings: dict[int, Recording] = {}

    def worker(key: str, task: int, grants_from: int) -> Worker:
        if task not in recordings:
            recordings[task] = Recording(context.client, context.sink, context.record_clock_ns, task=task)
        return Worker(
            recordings[task],
            lock,
            context.store,
            key=key,
            ttl_ns=trial.ttl_ns,
            check_before_write=True,
            points=points,
            clock_ns=clock_ns,
            grants_from=grants_from,
        )

    guard_announcing(context.store)
    return lock, worker


def params_of(trial: Trial) -> dict[str, Any]:
    """What the checker may assume about a trial: its history's header. Raises ``LabError``."""
    params: dict[str, Any] = {
        "rho": RHO,
        "delta_ns": max(margin_ns(trial.lock, ttl_ns, trial.options) for ttl_ns in trial.leases_ns),
        "epsilon_ns": EPSILON_NS,
        "store_fences": trial.store_fences,
        "lock_fences": lock_class(trial.lock).hands_out_fences,
        "nodes": trial.nodes,
        "clients": list(trial.clients),
    }
    if trial.asks_for_long:
        params["unavailable_ns"] = trial.unavailable_ns
    return params | capacity_in(trial).params


def capacity_in(trial: Trial) -> Capacity:
    """How many may hold the lock at once."""
    if trial.permits or trial.read_write:
        return Capacity(trial.permits or 1, trial.read_write)
    return capacity_of(trial.lock)


def lock_of(trial: Trial) -> type[Lock]:
    """The class of a trial's lock. Raises ``LabError``."""
    return lock_class(trial.lock)


def needs_no_connection(trial: Trial) -> bool:
    """Whether a trial's lock is known to send nothing that blocks, or that is about its connection."""
    return is_own(trial.lock)


def store_client_class(lock: type[Lock]) -> type[StoreClient]:
    """How clients reach the store: a lock may bring a way of its own."""
    kind: type[StoreClient] = getattr(lock, "store_client", StoreClient)
    return kind
