"""What a client does in a trial: its rounds, with the same worker and the same lock as everywhere."""

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
from lab.client.worker import Worker
from lab.client_protocol import Command, Outcome, Verb
from lab.locks import is_own, key_pattern, lock_class, margin_ns
from lab.locks.base import Lock, LockError, Surroundings
from lab.search.guard import Failure, Guarded, guard_announcing
from lab.search.trial import START_NS, Round, Trial
from lab.store import StoreClient

OTHER_GRANTS: Final = 1000
"""From which number on grants of the other key are counted."""
DEMAND_PAUSE_NS: Final = 800_000_000
"""How long a client waits between two attempts when it asks for the lock again and again: less than the
checker's grace."""
OTHER_TRIES: Final = 5
"""How often a client asks for the other lock: for longer than a free lock may be refused."""
DEMAND_HOLD_NS: Final = 20_000_000
"""How long it keeps the lock then: longer than stamps are uncertain."""
S_NS: Final = 1_000_000_000


class WatchedPoints(Points):
    """Points at which somebody else may look in; a client that is paused there goes no further."""

    def __init__(self, passes: Callable[[str], bool]) -> None:
        super().__init__()
        self._passes = passes

    async def at(self, point: str) -> None:
        """Tell that the client is here, and stay if it was paused."""
        if self._passes(point):
            await asyncio.sleep(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientContext:
    """What one client of a trial is made of.

    Attributes:
        trial: the options of the lock, and its TTL.
        lock: its class.
        client: whose rounds these are.
        nodes: how this client reaches the nodes.
        store: how it reaches the store.
        sink: where its operations are recorded.
        passes: called with the point where the client is; answers whether it must stop there.
        clock_ns: the client's monotonic clock.
        record_clock_ns: the history's clock.
        entropy: the client's entropy.
        channel: makes the lock's connections.
        failures: where exceptions are noted that the lock must not raise.
        knows_key: told the name of the lock's key on the nodes, and of what its leases are multiples.
    """

    trial: Trial
    lock: type[Lock]
    client: str
    nodes: Sequence[Address]
    store: StoreClient
    sink: Sink
    passes: Callable[[str], bool]
    clock_ns: Callable[[], int]
    record_clock_ns: Callable[[], int]
    entropy: Random
    channel: Callable[..., Channel]
    failures: list[Failure]
    knows_key: Callable[[str, int], None]


async def act(context: ClientContext) -> None:
    """Carry out the client's rounds, and record them."""
    trial, clock_ns = context.trial, context.clock_ns
    lock, worker_for, points = equip(context)
    start_ns = clock_ns() + START_NS
    await connect(lock, context.store)
    key = key_of(trial, lock)
    context.knows_key(node_key(lock, key), getattr(lock, "ttl_step_ns", 1))
    uses_other = any(each.other for each in trial.clients[context.client])
    other = worker_for(key_of(trial, lock, trial.other_key), OTHER_GRANTS) if uses_other else None
    section = _Section(worker_for(key), other, points, trial.ttl_ns)
    await asyncio.sleep((start_ns - clock_ns()) / S_NS)
    for each in trial.clients[context.client]:
        if each.think_ns:
            await asyncio.sleep(each.think_ns / S_NS)
        await section.run(each)
    if trial.demand_ns:
        await section.ask_until_granted(clock_ns, trial.demand_ns)


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


def equip(context: ClientContext) -> tuple[Lock, Callable[..., Worker], WatchedPoints]:
    """Return its lock, what makes a worker for a key, and the points where it may be held."""
    trial, clock_ns, entropy = context.trial, context.clock_ns, context.entropy
    points = WatchedPoints(context.passes)
    around = Surroundings(
        clock_ns, lambda: f"{entropy.getrandbits(160):040x}", entropy, points.at, channel=context.channel
    )
    own = context.lock.build(context.nodes, trial.options, around, context.client)
    lock: Any = Guarded(own, context.client, context.record_clock_ns, context.failures)
    recording = Recording(context.client, context.sink, context.record_clock_ns)

    def worker(key: str, grants_from: int = 0) -> Worker:
        return Worker(
            recording,
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
    return lock, worker, points


class _Section:
    """One client's critical sections."""

    def __init__(self, worker: Worker, other: Worker | None, points: WatchedPoints, ttl_ns: int) -> None:
        self._worker, self._other, self._points, self._ttl_ns = worker, other, points, ttl_ns

    async def run(self, each: Round) -> bool:
        """Acquire, read, compute, check, write, release; whether the lock was granted."""
        self._worker.ask_for(each.ttl_ns or self._ttl_ns)
        granted = await self._acquires(each.cancel_ns)
        if granted:
            await self._works(each)
        return granted

    async def ask_until_granted(self, clock_ns: Callable[[], int], for_ns: int) -> None:
        """Ask for the lock until it was granted once; work for a moment, and give it back."""
        self._worker.ask_for(self._ttl_ns)
        end_ns = clock_ns() + for_ns
        while clock_ns() < end_ns:
            if await self._does("acquire"):
                await self._works(Round(0, DEMAND_HOLD_NS))
                return
            await asyncio.sleep(DEMAND_PAUSE_NS / S_NS)

    async def _works(self, each: Round) -> None:
        if await self._does("read"):
            await self._computes(each)
            if not each.checks or await self._does("check"):
                await self._points.at("before-write")
                await self._does("write")
        if each.ends != "keep":
            await self._releases(each.ends == "twice")

    async def _acquires(self, cancel_ns: int) -> bool:
        if not cancel_ns:
            return await self._does("acquire")
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._does("acquire"), cancel_ns / S_NS)
        return False

    async def _computes(self, each: Round) -> None:
        parts = each.extends + 1 + each.other
        pause_s = each.hold_ns / S_NS / parts
        await asyncio.sleep(pause_s)
        if each.other and self._other is not None:
            await self._takes(self._other, pause_s)
        self._worker.ask_for(each.extend_ttl_ns or each.ttl_ns or self._ttl_ns)
        for _ in range(each.extends):
            await self._does("extend")
            await asyncio.sleep(pause_s)

    async def _takes(self, other: Worker, pause_s: float) -> None:
        """Take the other lock for so long; ask for it again and again until it is granted, for a time."""
        for _ in range(OTHER_TRIES):
            if (await other.run(Command(0, "acquire"))).outcome is Outcome.OK:
                break
            await asyncio.sleep(DEMAND_PAUSE_NS / S_NS)
        else:
            return
        await asyncio.sleep(pause_s)
        await other.run(Command(0, "release"))

    async def _releases(self, twice: bool) -> None:
        lease, grant_id = self._worker.grant
        await self._does("release")
        if twice and lease is not None:
            self._worker.take_up(lease, grant_id)
            await self._does("release")

    async def _does(self, verb: Verb) -> bool:
        """Whether an operation succeeded; one without a lease is left out."""
        return (await self._worker.run(Command(0, verb))).outcome is Outcome.OK


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
    if trial.demand_ns:
        params["unavailable_ns"] = unavailable_ns(trial.longest_ttl_ns)
    return params


def unavailable_ns(ttl_ns: int) -> int:
    """How long a free lock may be refused while a majority is up: two seconds, or half a longer TTL."""
    return max(2 * S_NS, ttl_ns // 2)


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
