"""Running one trial: a world, the clients' rounds, the faults, and the history, all in memory.

There are no observers and files here, and receipts come from looking at the cluster, without probes: what a
search finds is replayed as a scenario, with all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast, get_args

import msgspec

from lab.channel import Channel
from lab.drivers import is_driver
from lab.errors import NotModelled, UnknownOutcome
from lab.faults.base import Receipt
from lab.locks.failure import described, place_of
from lab.redis_model.known import Missing
from lab.search.actor import ClientContext, act, lock_of, store_client_class
from lab.search.branches import TAKEN
from lab.search.cluster import NEVER, TrialCluster, TrialNode, is_of
from lab.search.direct import DIRECT, DirectNode, NeedsConnection
from lab.search.driven import DrivenCluster, DrivenWorld
from lab.search.guard import Failure
from lab.search.origin import Origins, Place, Sent
from lab.search.schedule import ScheduledFaults, step_of
from lab.search.sending import Sendings
from lab.search.trial import START_NS, Fault, Trial
from lab.search.watch import ClockRead, CommandLog, Executed, note_wall_clock
from lab.search.world import TrialWorld
from lab.store import StoreClient
from lab.substrates.base import STORE, Cluster
from lab.substrates.sim.clock import MONOTONIC_START_NS
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.network import Network
from lab.substrates.sim.node import PORT
from lab.substrates.sim.patches import simulating
from lab.substrates.virtual.session import SESSION

Wire = Literal["direct", "resp"]
WIRES: Final[tuple[Wire, ...]] = get_args(Wire)
CHANNELS: Final[dict[Wire, Callable[..., Channel]]] = {
    "direct": partial(Channel, transport=DIRECT),
    "resp": Channel,
}
Event = dict[str, Any]
T = TypeVar("T")
ZERO_NS: Final = MONOTONIC_START_NS + START_NS
"""Time zero of a trial, as people are told it: the cluster is up, and clients begin."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a trial: the events of its history, and which kinds of fault hit which states."""

    trial: Trial
    events: list[Event]
    covered: frozenset[tuple[str, str]]
    struck: tuple[Fault, ...] = ()
    """The faults that happened, in their order: the first is ``f1`` in the history."""
    eroded: int = 0
    """See ``ScheduledFaults``."""
    failures: tuple[Failure, ...] = ()
    """Exceptions that a lock must not raise."""
    commands: tuple[Executed, ...] = ()
    """What the nodes executed, if the trial was watched."""
    sendings: dict[str, Sendings] = field(default_factory=dict)
    """When each client sent something to nodes, if the trial was watched."""
    sent: tuple[Sent, ...] = ()
    """What clients sent to nodes, and from where in the lock's code, if the trial was watched."""
    waiting: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    """Where in the lock's code clients waited at the end, if the trial was watched."""
    wall_clock: dict[str, list[ClockRead]] = field(default_factory=dict)
    """When a client's code looked at its wall clock, by clients that did, if the trial was watched."""
    branches: frozenset[int] = frozenset()
    """Which steps of the lock's code were taken, inside of ``branches.noted``."""

    ttl_step_ns: int = 1
    """Leases are multiples of this, as a driver says."""
    left_ns: dict[int, int] = field(default_factory=dict)
    """For how long yet as many nodes as make a grant kept its token when its client was told of it, or of an
    extension: by the event's place, where that is known."""

    def digest(self) -> str:
        """A hash of the whole history."""
        return hashlib.sha256(msgspec.json.encode(self.events)).hexdigest()


@contextlib.contextmanager
def trials(wire: Wire = "direct") -> Iterator[None]:
    """Let trials be run inside, with ``run_trial`` and this wire."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(simulating())
        gc.collect()
        stack.enter_context(SESSION.in_use())
        if not gc.get_freeze_count():
            stack.callback(gc.unfreeze)
        gc.freeze()  # what is there already need not be walked again each time that trials are swept up
        yield


def run_trial(trial: Trial, wire: Wire = "direct", *, watch: bool = False) -> Outcome:
    """Run a trial to its end, or to its horizon; only inside ``trials`` with the same wire.

    One whose lock uses what only real connections have (transactions, blocking commands, channels) goes over
    the wire from its beginning, even if ``wire`` is "direct".

    With ``watch``, each grant's event also says under ``_nodes`` which nodes hold its token (if none does,
    under ``_others`` which have the key at all), and what nodes execute is noted; such a history is for
    telling, not for the checker.

    Raises:
        LabError: no such lock, or options that it does not have.
        SimulationError: simulated code reached out of the simulation.
        NotModelled: the lock uses a command, or an option, that real servers have and these nodes have not.
        UnknownOutcome: a client ended with an exception: its lock could not be made, or failed outside of its
            operations.
    """
    try:
        return TrialRun(trial, wire, watch=watch).run()
    except SimulationError as error:
        if not isinstance(error.__cause__, NeedsConnection):
            raise
    return TrialRun(trial, "resp", watch=watch).run()


class TrialRun:
    """One run of a trial: its world, its cluster, its faults, and the history as far as it is.

    Args:
        trial: what is run.
        wire: how requests reach the nodes.
        watch: see ``run_trial``.
    """

    def __init__(self, trial: Trial, wire: Wire = "direct", *, watch: bool = False) -> None:
        self._trial, self._wire, self._watch = trial, wire, watch
        self._lock = lock_of(trial)
        self._made: list[Channel | StoreClient] = []
        """What clients talk by."""
        self._struck: list[Fault] = []
        driven = is_driver(trial.lock)
        self._world = world = DrivenWorld(trial.seed) if driven else TrialWorld(trial.seed)
        self._network = Network(world)
        self._events: list[Event] = []
        self._fault_ids: dict[int, str] = {}
        kind = DirectNode if wire == "direct" else TrialNode
        self._origins = Origins(trial.lock, self._now_ns) if watch else None
        self._log = CommandLog(self._now_ns, self._origins) if self._origins is not None else None
        self._missing: Missing | None = None
        self._over: list[str] = []
        make = DrivenCluster if driven else TrialCluster
        self._cluster = make(self._network, trial, kind, self._log, self._note_missing)
        self._failures: list[Failure] = []
        self._sendings = {name: self._cluster.sendings_of(name) for name in trial.clients} if watch else {}
        self._wall_clock: dict[str, list[ClockRead]] = {}
        self._branches: frozenset[int] = frozenset()
        self._waiting: dict[str, tuple[Place, ...]] = {}
        self._left_ns: dict[int, int] = {}
        self._ttl_step_ns = 1
        if self._origins is not None:
            for name, client in self._cluster.clients.items():
                note_wall_clock(client.host, self._wall_clock, self._origins)
                self._origins.watch(client.loop)
                self._sendings[name].origins = self._origins
        self._loops = {name: client.loop for name, client in self._cluster.clients.items()}
        self._faults = ScheduledFaults(world, trial, self._cluster, self._record)

    def run(self) -> Outcome:
        """Run the whole trial; see ``run_trial`` for what it raises."""
        world, trial = self._world, self._trial
        TAKEN.clear()
        busy, over = set(self._loops), self._over
        tasks: list[asyncio.Task[Any]] = []
        for name, loop in self._loops.items():
            task = loop.create_task(loop.host.run(self._work, name, loop))
            task.add_done_callback(partial(_ended, busy, over, name))
            tasks.append(task)
        world.at(trial.horizon_ns, _nothing)
        try:
            world.run_until(over.__len__, trial.horizon_ns)  # asked often, and this costs little
            raised = [error for task in tasks if task.done() and (error := task.exception()) is not None]
            if self._origins is not None:
                self._waiting = {
                    name: self._origins.waiting(task)
                    for name, task in zip(self._loops, tasks, strict=True)
                    if not task.done()
                }
        finally:
            self._branches = frozenset(TAKEN)
            self._bury()
        if world.violations:
            raise world.violations[0]
        if self._missing is not None:
            raise NotModelled(
                f"{trial.lock} {self._missing.sentence}",
                hint=self._missing.remedy(f"lab run SCENARIO --lock {trial.lock} --on virtual"),
            )
        if raised:
            raise UnknownOutcome(
                f"a client's own code failed: {described(raised[0])}", where=place_of(raised[0], self._lock)
            ) from raised[0]
        outcome = self._outcome()
        self._take_apart()
        return outcome

    def _note_missing(self, missing: Missing) -> None:
        """End the trial: a lock that was refused what real servers do has not failed by itself."""
        if self._missing is None:
            self._missing = missing
            self._over.append("missing")

    def _bury(self) -> None:
        """Nothing happens any more; what a lock raises when it is ended here is no failure of its own."""
        noted = len(self._failures)
        for loop in self._loops.values():
            loop.bury()
        del self._failures[noted:]
        self._cluster.end()
        self._world.end()

    def _outcome(self) -> Outcome:
        """What came out so far."""
        faults = self._faults
        return Outcome(
            self._trial,
            self._events,
            frozenset(faults.covered),
            tuple(self._struck),
            faults.eroded,
            tuple(self._failures),
            tuple(self._log.entries) if self._log is not None else (),
            self._sendings,
            self._origins.sent if self._origins is not None else (),
            self._waiting,
            self._wall_clock,
            self._branches,
            self._ttl_step_ns,
            self._left_ns,
        )

    def _take_apart(self) -> None:
        """Cut what refers to each other: then it is gone at once, and no collector has to look for it."""
        for loop in self._loops.values():
            loop.take_apart()
        self._cluster.take_apart()
        self._network.take_apart()
        vars(self._faults).clear()
        if self._origins is not None:
            self._origins.clear()
        for each in self._made:
            vars(each).clear()

    def _work(self, client: str, loop: HostLoop) -> Any:
        return act(self._context(client, loop))

    def _context(self, client: str, loop: HostLoop) -> ClientContext:
        return ClientContext(
            trial=self._trial,
            lock=self._lock,
            client=client,
            nodes=[self._cluster.link(client, name).address for name in self._cluster.nodes],
            store=self._store_client(client),
            sink=self._faults.listening(self._note if self._watch else self._keep),
            passes=partial(self._faults.passes, client),
            clock_ns=loop.host.clock.monotonic_ns,
            record_clock_ns=self._now_ns,
            entropy=loop.host.random,
            channel=self._channel,
            failures=self._failures,
            knows_key=self._know_key,
        )

    def _channel(self, *arguments: Any, **options: Any) -> Channel:
        """Make a connection of a lock."""
        channel = CHANNELS[self._wire](*arguments, **options)
        self._made.append(channel)
        return channel

    def _store_client(self, client: str) -> StoreClient:
        fences = self._trial.store_fences
        store = store_client_class(self._lock)(
            f"{client}-{STORE}", PORT, checks_fences=fences, timeout_s=None, channel=self._channel
        )
        self._made.append(store)
        return store

    def _note(self, event: Event) -> None:
        """Keep an event, and look which nodes hold the token of a new grant."""
        if event["type"] == "ok" and event["f"] == "acquire":
            token = event.get("token")
            nodes = self._cluster.nodes.items()
            event["_nodes"] = [name for name, node in nodes if self._holds(node, token)]
            if not event["_nodes"]:
                event["_others"] = [name for name, node in nodes if self._holds(node, None)]
        self._keep(event)

    def _holds(self, node: TrialNode, token: str | None) -> bool:
        """Whether a node has the lock's key with this token, or another key with it: locks change names."""
        value = node.keeps(self._faults.node_key)
        if token is None:
            return value is not None
        return is_of(token, value) or 0 < node.keeps_for_ns(token) < NEVER

    def _keep(self, event: Event) -> None:
        """Keep an event, and look how long nodes keep the token that a client was told to count on."""
        if event["type"] == "ok" and event.get("claimed_ns") is not None and event.get("token"):
            sought = event["token"]
            kept = sorted((node.keeps_for_ns(sought) for node in self._cluster.nodes.values()), reverse=True)
            # Where fewer than a majority have it, one has to do.
            left_ns = kept[self._trial.majority - 1] or kept[0]
            if 0 < left_ns < NEVER:
                self._left_ns[len(self._events)] = left_ns
        self._events.append(event)

    def _know_key(self, node_key: str, ttl_step_ns: int) -> None:
        self._faults.node_key = node_key.encode()
        self._ttl_step_ns = ttl_step_ns

    def _now_ns(self) -> int:
        return MONOTONIC_START_NS + self._world.now_ns

    def _record(self, fault: Fault, begins: bool, receipt: Receipt) -> None:
        """Write an injection or a healing down as the nemesis does."""
        if begins:
            self._struck.append(fault)
            self._fault_ids[id(fault)] = f"f{len(self._struck)}"
        begun = self._fault_ids[id(fault)]
        about: Event = {"time_ns": self._now_ns(), "process": "nemesis", "f": fault.kind, "fault_id": begun}
        if self._watch:
            about["target"] = step_of(fault).target(cast(Cluster, self._cluster)).words
        near = [fault.client] if fault.client else []
        about["targets"] = [*near, *fault.nodes]  # of a link fault both ends: others reach these nodes
        if not begins:
            about |= {"f": "heal", "fault_id": f"{begun}-end", "heals": begun}
        self._events.append({**about, "type": "invoke"})
        kind = "ok" if receipt.confirmed else "fail"
        self._events.append({**about, "type": kind, "receipt": receipt.evidence})
        if begins and receipt.confirmed and step_of(fault).PASSES:
            self._record(fault, False, receipt)  # it is over as soon as it has happened


def _ended(busy: set[str], over: list[str], client: str, _: object) -> None:
    busy.discard(client)
    if not busy:
        over.append(client)


def _nothing() -> None:
    """The end of the trial's time."""
