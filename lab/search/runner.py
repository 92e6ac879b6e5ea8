"""Running one trial: a world, the clients' rounds, the faults, and the history, all in memory.

There are no observers and files here, and receipts come from looking at the cluster, without probes: what a
search finds is replayed as a scenario, with all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any, Final, Literal, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from lab.analysis.assumptions import EPSILON_NS, RHO
from lab.channel import Channel
from lab.drivers import is_driver
from lab.errors import NotModelled, UnknownOutcome
from lab.faults.client_crash import ClientCrash
from lab.locks.base import Lock
from lab.locks.capacity import Capacity
from lab.locks.driver import ANSWER_WITHIN
from lab.locks.failure import described, place_of
from lab.redis_model.known import Missing
from lab.run.failover_watch import FailoverWatch
from lab.run.steps import Player
from lab.run.tracks import Played, TrackPlayer
from lab.scenario.anchors import NodesExecuted
from lab.scenario.tracks import Timed
from lab.search.actor import Actor, ClientContext, lock_of, store_client_class
from lab.search.as_tracks import tracks_of
from lab.search.branches import TAKEN
from lab.search.cluster import NEVER, TrialCluster, TrialNode, is_of
from lab.search.direct import DIRECT, DirectNode, NeedsConnection
from lab.search.driven import DrivenCluster, DrivenWorld
from lab.search.guard import Failure, Guarded
from lab.search.origin import Origins, Place, Sent
from lab.search.playing import Coverage, MemoryHistory, Shown, TrialNemesis
from lab.search.trial import START_NS, Track, Trial
from lab.search.watch import ClockRead, CommandLog, Executed, note_wall_clock
from lab.search.world import TrialWorld
from lab.store import StoreClient
from lab.substrates.base import STORE, Cluster
from lab.substrates.sim.clock import MONOTONIC_START_NS
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.network import Network
from lab.substrates.sim.node import PORT
from lab.substrates.sim.patches import simulating
from lab.substrates.sim.sending import Sendings
from lab.substrates.sim.simulate import LAB
from lab.substrates.virtual.session import SESSION

Wire = Literal["direct", "resp"]
WIRES: Final[tuple[Wire, ...]] = get_args(Wire)
CHANNELS: Final[dict[Wire, Callable[..., Channel]]] = {
    "direct": partial(Channel, transport=DIRECT),
    "resp": Channel,
}
Event = dict[str, Any]
T = TypeVar("T")
UNATTENDED: Final = ("/renewal of ", "/report on ")
"""How processes are named that do something in the background: a watchdog, a library that reports a loss."""
ZERO_NS: Final = MONOTONIC_START_NS + START_NS
"""Time zero of a trial, as people are told it: the cluster is up, and clients begin."""


@dataclass(frozen=True)
class Outcome:
    """What came out of a trial: the events of its history, and which kinds of fault hit which states."""

    trial: Trial
    events: list[Event]
    covered: frozenset[tuple[str, str]]
    struck: tuple[Timed, ...] = ()
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
    abilities: tuple[str, ...] = ()
    """What a driver says that it can do."""
    capacity: Capacity | None = None
    """How many may hold its lock at once, as a driver says."""
    left_ns: dict[int, int] = field(default_factory=dict)
    """For how long yet as many nodes as make a grant kept its token when its client was told of it, or of an
    extension: by the event's place, where that is known."""
    played: tuple[Played, ...] = ()
    """The events of all tracks, in the order in which they came, if the trial was watched."""
    watched: bool = False
    """Whether what nodes executed is known, and this is a history for the checker all the same."""
    steps: int = 0
    """How many events there were in its world: what a trial costs, the same on every machine."""

    @cached_property
    def times_of_faults(self) -> tuple[dict[str, int], dict[str, int]]:
        """When each fault began, and when it ended, by its number in the history."""
        begins, ends = dict[str, int](), dict[str, int]()
        for event in self.events:
            if event["process"] == "nemesis":
                times = ends if event.get("heals") else begins
                times.setdefault(event.get("heals") or event["fault_id"], event["time_ns"])
        return begins, ends

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
    the wire from its beginning, even if ``wire`` is "direct"; so does one with Sentinels.

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
    return on_either_wire(lambda chosen: TrialRun(trial, chosen, watch=watch).run(), wire)


def given_longer(trial: Trial, more_ns: int) -> Trial:
    """The same trial with so much more time, in which the lab gives up no call of a driver by itself."""
    horizon_ns, options = trial.horizon_ns + more_ns, trial.options
    if is_driver(trial.lock):
        options = {**options, ANSWER_WITHIN: f"{2 * horizon_ns}ns"}
    return replace(trial, horizon_ns=horizon_ns, options=options)


def on_either_wire(run: Callable[[Wire], T], wire: Wire = "direct") -> T:
    """Run something over a wire, or over the other one where a lock needs real connections."""
    try:
        return run(wire)
    except SimulationError as error:
        if not isinstance(error.__cause__, NeedsConnection):
            raise
    return run("resp")


class TrialRun:
    """One run of a trial: its world, its cluster, its faults, and the history as far as it is.

    Args:
        trial: what is run.
        wire: how requests reach the nodes.
        watch: see ``run_trial``.
    """

    def __init__(self, trial: Trial, wire: Wire = "direct", *, watch: bool = False) -> None:
        wire = "resp" if trial.sentinels else wire  # Sentinels speak the protocol alone
        self._trial, self._wire, self._watch = trial, wire, watch
        self._lock = lock_of(trial)
        self._made: list[Channel | StoreClient] = []
        """What clients talk by."""
        driven = is_driver(trial.lock)
        self._world = world = DrivenWorld(trial.seed) if driven else TrialWorld(trial.seed)
        self._network = Network(world)
        self._events: list[Event] = []
        kind = DirectNode if wire == "direct" else TrialNode
        self._origins = self._origins_of(trial.lock) if watch else None
        self._log = self._command_log(self._origins) if self._origins is not None else None
        self._missing: Missing | None = None
        self._over: list[object] = []
        make = DrivenCluster if driven else TrialCluster
        self._cluster = make(self._network, trial, kind, self._log, self._note_missing)
        self._failures: list[Failure] = []
        self._sendings = {name: self._cluster.sendings_of(name) for name in trial.clients} if watch else {}
        self._wall_clock: dict[str, list[ClockRead]] = {}
        self._branches: frozenset[int] = frozenset()
        self._waiting: dict[str, tuple[Place, ...]] = {}
        self._left_ns: dict[int, int] = {}
        self._ttl_step_ns = 1
        self._abilities: tuple[str, ...] = ()
        self._capacity: Capacity | None = None
        if self._origins is not None:
            for name, client in self._cluster.clients.items():
                note_wall_clock(client.host, self._wall_clock, self._origins)
                self._origins.watch(client.loop)
                self._sendings[name].on_request = partial(self._origins.note_message, name)
        self._loops = {name: client.loop for name, client in self._cluster.clients.items()}
        self._coverage = Coverage(world, trial, self._cluster)
        history = MemoryHistory(self._events, self._now_ns)
        self._nemesis = TrialNemesis(self._cluster, history, self._coverage, trial)
        self._tracks = tracks_of(trial)
        self._shown = Shown(self._cluster, self._now_ns, notes=any(map(_watches, trial.tracks.values())))
        self._player = Player(
            cast(Cluster, self._cluster),
            self._shown,
            self._nemesis,
            history,
            None,
            ttl_ns=trial.ttl_ns,
            slack_ns=round(RHO * trial.ttl_ns) + 2 * EPSILON_NS,
        )
        self._lab = host_with_loop(world, LAB, self._network)
        self._lab.takes_no_time = True
        self._playing: TrackPlayer | None = None
        self._played: list[Played] | None = [] if watch else None
        self._failovers = FailoverWatch(cast(Cluster, self._cluster), self._nemesis, history)

    def _origins_of(self, lock: str) -> Origins:
        """Where what clients send comes from, in a trial that is watched."""
        return Origins(lock, self._now_ns)

    def _command_log(self, origins: Origins) -> CommandLog:
        """What nodes execute, in a trial that is watched."""
        return CommandLog(self._now_ns, origins, self._trial.clients)

    def _guarded(self, own: Lock, client: str, now_ns: Callable[[], int], failures: list[Failure]) -> Guarded:
        """A client's lock, as its client calls it."""
        return Guarded(own, client, now_ns, failures)

    def run(self) -> Outcome:
        """Run the whole trial; see ``run_trial`` for what it raises."""
        world, trial = self._world, self._trial
        TAKEN.clear()
        over = self._over
        self._playing = playing = TrackPlayer(
            self._player,
            tuple(trial.clients),
            within_s=None,
            on_clients_over=partial(over.append, "all clients"),
            loops=self._loops,
            played=self._played,
        )
        self._listen_for_sendings(playing)
        self._cluster.begin_replication()
        if trial.sentinels:
            self._lab.call_soon(self._failovers.start)
        play = self._lab.create_task(playing.play(self._tracks, ZERO_NS))
        play.add_done_callback(over.append)
        actors = self._bring_clients_up()
        world.at(trial.horizon_ns, _nothing)
        try:
            world.run_until(over.__len__, trial.horizon_ns)  # asked often, and this costs little
            raised = _errors_of([*(actor.opening for actor in actors.values()), play])
            if self._origins is not None:
                self._waiting = {
                    name: self._origins.waiting(task)
                    for name, task in playing.of_clients()
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
                hint=self._missing.remedy(f"lab run SCENARIO --lock {trial.lock}"),
            )
        if raised:
            raise UnknownOutcome(
                f"a client's own code failed: {described(raised[0])}", where=place_of(raised[0], self._lock)
            ) from raised[0]
        outcome = self._outcome()
        self._take_apart()
        return outcome

    def _bring_clients_up(self) -> dict[str, Actor]:
        """Let all clients open their locks."""
        actors = {name: Actor(self._context(name, loop), loop) for name, loop in self._loops.items()}
        for name, actor in actors.items():
            client = self._cluster.clients[name]
            client.actor, client.order = actor, actor.run
        return actors

    def _listen_for_sendings(self, playing: TrackPlayer) -> None:
        """Tell the player when clients are about to send, if anything waits for that."""
        rounds = self._trial.clients.keys() - self._trial.tracks.keys()  # which wait for nothing of the kind
        others = {name: track for name, track in self._tracks.items() if name not in rounds}
        for client in playing.waits_for_sendings(others):
            playing.hear_sendings(client, self._cluster.sendings_of(client))
        for timed in chain.from_iterable(others.values()):
            if isinstance(timed.step, ClientCrash):
                self._cluster.sendings_of(timed.step.client)  # by which it sends nothing any more

    def _note_missing(self, missing: Missing) -> None:
        """End the trial: a lock that was refused what real servers do has not failed by itself."""
        if self._missing is None:
            self._missing = missing
            self._over.append("missing")

    def _bury(self) -> None:
        """Nothing happens any more: what a lock says or raises when it is ended here, nobody hears."""
        noted, heard = len(self._failures), len(self._events)
        for loop in (*self._loops.values(), self._lab):
            loop.bury()
        del self._failures[noted:]
        del self._events[heard:]
        self._cluster.end()
        self._world.end()

    def _outcome(self) -> Outcome:
        """What came out so far."""
        return Outcome(
            self._trial,
            self._events,
            frozenset(self._coverage.covered),
            self._nemesis.struck,
            self._coverage.eroded,
            tuple(self._failures),
            tuple(self._log.entries) if self._log is not None else (),
            self._sendings,
            self._origins.sent if self._origins is not None else (),
            self._waiting,
            self._wall_clock,
            self._branches,
            self._ttl_step_ns,
            self._abilities,
            self._capacity,
            self._left_ns,
            tuple(self._played or ()),
            steps=self._world.arranged,
        )

    def _take_apart(self) -> None:
        """Cut what refers to each other: then it is gone at once, and no collector has to look for it."""
        for loop in self._loops.values():
            loop.take_apart()
        self._lab.take_apart()
        self._lab.host.on_resume = None
        self._over.clear()
        self._cluster.take_apart()
        self._network.take_apart()
        for part in (self._nemesis, self._player, self._shown, self._coverage, self._failovers):
            vars(part).clear()
        if self._playing is not None:
            self._playing.take_apart()
        if self._origins is not None:
            self._origins.clear()
        for each in self._made:
            vars(each).clear()

    def _context(self, client: str, loop: HostLoop) -> ClientContext:
        return ClientContext(
            trial=self._trial,
            lock=self._lock,
            client=client,
            nodes=[self._cluster.link(client, name).address for name in self._cluster.nodes],
            store=self._store_client(client),
            sink=self._coverage.listening(self._note if self._watch else self._keep),
            clock_ns=loop.host.clock.monotonic_ns,
            record_clock_ns=self._now_ns,
            entropy=loop.host.random,
            channel=self._channel,
            failures=self._failures,
            opened=self._note_opened,
            guard=self._guarded,
            sentinels=[self._cluster.link(client, name).address for name in self._cluster.sentinels],
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
        value = node.keeps(self._coverage.node_key)
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

    def _note_opened(self, lock: Lock, node_key: str) -> None:
        """Note what a lock says of itself; a driver can do so only when it has been started."""
        self._coverage.node_key, self._shown.node_key = node_key.encode(), node_key
        self._ttl_step_ns = getattr(lock, "ttl_step_ns", 1)
        self._abilities, self._capacity = getattr(lock, "abilities", ()), getattr(lock, "capacity", None)

    def _now_ns(self) -> int:
        return MONOTONIC_START_NS + self._world.now_ns


def is_unattended(event: Event) -> bool:
    """Whether an event is no operation that its client called."""
    return any(name in event["process"] for name in UNATTENDED)


def _watches(track: Track) -> bool:
    """Whether something of a track waits for what nodes execute."""
    return any(isinstance(anchor, NodesExecuted) for one in track for anchor in one.anchors)


def _errors_of(tasks: Iterable[asyncio.Task[Any]]) -> list[BaseException]:
    done = (task for task in tasks if task.done() and not task.cancelled())
    return [error for task in done if (error := task.exception()) is not None]


def _nothing() -> None:
    """The end of the trial's time."""
