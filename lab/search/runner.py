"""Running one trial: a world, the clients' rounds, the faults, and the history, all in memory.

There are no probes, receipts, observers and files here: what a simulated fault does needs no proof, and what
a search finds is replayed as a scenario, with all of them.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final, Literal, get_args

import msgspec

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.search.actor import KEY, act, margin_of, params_of
from lab.search.direct import DirectNode, TrialNode, direct_wire
from lab.search.nemesis import TrialNemesis
from lab.search.trial import Fault, OptionValue, Trial
from lab.search.world import TrialWorld
from lab.store import StoreClient
from lab.substrates.base import STORE
from lab.substrates.sim.clock import MONOTONIC_START_NS
from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.network import Network, Way
from lab.substrates.sim.node import PORT
from lab.substrates.sim.patches import simulating

Wire = Literal["direct", "resp"]
WIRES: Final[tuple[Wire, ...]] = get_args(Wire)
RHO: Final = 0.001
EPSILON_NS: Final = 1_000_000
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a trial: the events of its history, and which kinds of fault hit which states."""

    trial: Trial
    events: list[Event]
    covered: frozenset[tuple[str, str]]
    struck: tuple[Fault, ...] = ()
    """The faults that happened, in their order: the first is ``f1`` in the history."""
    eroded: int = 0
    """See ``TrialNemesis``."""

    def digest(self) -> str:
        """A hash of the whole history."""
        return hashlib.sha256(msgspec.json.encode(self.events)).hexdigest()


@contextlib.contextmanager
def trials(wire: Wire = "direct") -> Iterator[None]:
    """Let trials be run inside, with ``run_trial`` and this wire."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(simulating())
        if wire == "direct":
            stack.enter_context(direct_wire())
        gc.collect()
        gc.freeze()  # what is there already need not be walked again each time that trials are swept up
        stack.callback(gc.unfreeze)
        yield


def run_trial(trial: Trial, wire: Wire = "direct", *, watch: bool = False) -> Outcome:
    """Run a trial to its end, or to its horizon; only inside ``trials`` with the same wire.

    With ``watch``, each grant's event also says under ``_nodes`` which nodes hold its token; such a history
    is for telling, not for the checker.

    Raises:
        LabError: no such lock, or options that it does not have.
        SimulationError: simulated code reached out of the simulation.
        UnknownOutcome: a client ended with an exception: its lock failed in a way of its own.
    """
    return _Run(trial, wire, watch=watch).run()


class _Run:
    def __init__(self, trial: Trial, wire: Wire, *, watch: bool) -> None:
        self._trial, self._wire, self._watch = trial, wire, watch
        self._struck: list[Fault] = []
        self._world = world = TrialWorld(trial.seed)
        self._network = Network(world)
        self._events: list[Event] = []
        self._ids = count(100)
        self._fault_ids: dict[int, str] = {}
        kind = DirectNode if wire == "direct" else TrialNode
        names = trial.node_names
        self._nodes = {
            name: kind(name, self._network, partial(next, self._ids), trial.persistence) for name in names
        }
        self._store = kind(STORE, self._network, partial(next, self._ids), "none")
        for node in (*self._nodes.values(), self._store):
            node.boot()
        self._loops: dict[str, HostLoop] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        for client in trial.clients:
            self._loops[client] = host_with_loop(world, client, self._network)
            for node in self._nodes.values():
                self._ways[client, node.name] = node.reached_over(f"{client}-{node.name}")
            self._store.reached_over(f"{client}-{STORE}")
        self._nemesis = TrialNemesis(
            world, trial.faults, self._nodes, self._loops, self._ways, self._record, trial.ttl_ns
        )

    def run(self) -> Outcome:
        world, trial = self._world, self._trial
        busy = set(self._loops)
        over: list[str] = []
        tasks = []
        for name, loop in self._loops.items():
            task = loop.create_task(loop.host.run(self._work, name, loop))
            task.add_done_callback(partial(_ended, busy, over, name))
            tasks.append(task)
        world.at(trial.horizon_ns, _nothing)
        try:
            world.run_until(over.__len__, trial.horizon_ns)  # asked often, and this costs little
            failed = [
                repr(task.exception()) for task in tasks if task.done() and task.exception() is not None
            ]
        finally:
            for loop in self._loops.values():
                loop.bury()
            world.end()
        if world.violations:
            raise world.violations[0]
        if failed:
            raise UnknownOutcome(f"a client's own code failed: {failed[0]}", where=trial.key().decode())
        nemesis = self._nemesis
        outcome = Outcome(
            trial, self._events, frozenset(nemesis.covered), tuple(self._struck), nemesis.eroded
        )
        self._take_apart()
        return outcome

    def _take_apart(self) -> None:
        """Cut what refers to each other: then it is gone at once, and no collector has to look for it."""
        for loop in self._loops.values():
            loop.host.on_resume = None
        for node in (*self._nodes.values(), self._store):
            node.take_apart()
        self._network.take_apart()
        vars(self._nemesis).clear()

    def _work(self, client: str, loop: HostLoop) -> Any:
        clock = loop.host.clock
        return act(
            self._trial,
            client,
            [Address(name, f"{client}-{name}", PORT) for name in self._nodes],
            self._store_client(client),
            self._nemesis.listening(self._note if self._watch else self._events.append),
            passes=partial(self._nemesis.passes, client),
            clock_ns=clock.monotonic_ns,
            record_clock_ns=self._now_ns,
            entropy=loop.host.random,
        )

    def _store_client(self, client: str) -> StoreClient:
        fences = self._trial.store_fences
        return StoreClient(f"{client}-{STORE}", PORT, checks_fences=fences, timeout_s=None)

    def _note(self, event: Event) -> None:
        """Keep an event, and look which nodes hold the token of a new grant."""
        if event["type"] == "ok" and event["f"] == "acquire":
            token = event["token"].encode()
            event["_nodes"] = [
                name
                for name, node in self._nodes.items()
                if node.alive and node.host.run(node.model.call, "GET", KEY) == token
            ]
        self._events.append(event)

    def _now_ns(self) -> int:
        return MONOTONIC_START_NS + self._world.now_ns

    def _record(self, fault: Fault, begins: bool) -> None:
        """Write an injection or a healing down as the nemesis does; its receipt is the simulation's word."""
        if begins:
            self._struck.append(fault)
            self._fault_ids[id(fault)] = f"f{len(self._struck)}"
        begun = self._fault_ids[id(fault)]
        about: Event = {"time_ns": self._now_ns(), "process": "nemesis", "f": fault.kind, "fault_id": begun}
        about["targets"] = [fault.client] if fault.kind == "pause" else list(fault.nodes)
        if not begins:
            about |= {"f": "heal", "fault_id": f"{begun}-end", "heals": begun}
        self._events.append({**about, "type": "invoke"})
        self._events.append({**about, "type": "ok", "receipt": {"simulated": True}})


def _ended(busy: set[str], over: list[str], client: str, _: object) -> None:
    busy.discard(client)
    if not busy:
        over.append(client)


def _nothing() -> None:
    """The end of the trial's time."""


def history_params(trial: Trial) -> dict[str, Any]:
    """The parameters of a trial's history. Raises ``LabError``."""
    return params_of(trial, rho=RHO, epsilon_ns=EPSILON_NS)


@functools.lru_cache(maxsize=16)
def _delta_ns(lock: str, ttl_ns: int, options: tuple[tuple[str, OptionValue], ...]) -> int:
    return margin_of(lock, ttl_ns, dict(options))


def delta_ns(trial: Trial) -> int:
    """The lock's own safety margin. Raises ``LabError``."""
    return _delta_ns(trial.lock, trial.ttl_ns, tuple(trial.options.items()))


__all__ = [
    "EPSILON_NS",
    "KEY",
    "RHO",
    "WIRES",
    "Outcome",
    "Wire",
    "delta_ns",
    "history_params",
    "run_trial",
    "trials",
]
