"""A lock in the simulation, driven step by step: each client does what a test says, when it says it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from checker import History, check
from checker.history.events import Event, Params
from checker.verdict import Severity
from lab.client_protocol import Answer, Outcome, Verb
from lab.locks.base import Lease
from lab.search.actor import params_of
from lab.search.cluster import TrialNode
from lab.search.stepped import SteppedRun
from lab.search.trial import KEY, OptionValue, Round, Trial
from lab.substrates.base import Direction

S_NS: Final = 1_000_000_000
PATIENCE_S: Final = 120.0
"""An operation that takes longer than that has no end."""
GLANCE_S: Final = 0.0001
CLIENTS: Final = ("alice", "bob", "carol")


class Ended(Exception):
    """An operation ended as none may: with an exception that is no ``LockError``, or not at all."""

    def __init__(self, finding: str, why: str) -> None:
        super().__init__(f"{finding}: {why}")
        self.finding = finding


class Client:
    """One client: its lock, and what it does with it. ``lease`` is the last that it was granted."""

    def __init__(self, sim: Driven, name: str) -> None:
        self._sim, self.name = sim, name
        self._machine = sim.cluster.clients[name]
        self._actor = sim.clients_by_name[name].actor
        self.lock: Any = self._actor.lock

    @property
    def lease(self) -> Lease:
        """The lease that the worker holds now."""
        lease, _ = self._actor.worker().grant
        assert lease is not None
        return lease

    @property
    def believes(self) -> bool:
        """Whether the lock says that it is held."""
        return bool(self._machine.host.run(self.lock.believes, self.lease))

    def does(self, *verbs: Verb) -> Outcome:
        """Do one thing after the other, recorded; how the last of them ended."""
        outcome = Outcome.SKIPPED
        for verb in verbs:
            outcome = self._sim.ended(self.starts(verb)).outcome
        return outcome

    def starts(self, verb: Verb) -> asyncio.Task[Answer]:
        """Begin to do something."""
        self._sim.start(self.name, verb)
        task = self._sim.clients_by_name[self.name].task
        assert task is not None
        return task

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let something go on on the client's machine."""
        return self._machine.loop.create_task(work)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Let something happen on the client's machine, to its end."""
        return self._sim.ended(self.begin(work))

    def jumps(self, by_s: float) -> None:
        """Step the client's wall clock."""
        self._machine.host.clock.jump(round(by_s * S_NS))

    def link(self, do: str, nodes: str, direction: Direction = "both", *, by_s: float = 0) -> None:
        """Do this to the links to these nodes: cut, refuse, hold, delay, heal."""
        for node in nodes:
            link = self._sim.cluster.link(self.name, node)
            steps: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
                "cut": partial(link.cut, direction, refused=False),
                "refuse": partial(link.cut, direction, refused=True),
                "hold": partial(link.hold, direction),
                "delay": partial(link.delay, round(by_s * S_NS), 0, direction),
                "heal": link.heal,
            }
            self._sim.at_once(steps[do]())


class Driven(SteppedRun):
    """A cluster of nodes A, B, C…, and clients alice, bob, carol with the same lock."""

    def __init__(
        self,
        lock: str,
        *,
        nodes: int = 5,
        ttl_s: float = 10.0,
        seed: int = 1,
        **options: OptionValue,
    ) -> None:
        rounds: dict[str, tuple[Round, ...]] = dict.fromkeys(CLIENTS, ())
        ttl_ns = round(ttl_s * S_NS)
        self.trial = Trial(lock, rounds, nodes=nodes, ttl_ns=ttl_ns, options=options, seed=seed)
        super().__init__(self.trial)
        self.alice, self.bob, self.carol = (Client(self, name) for name in CLIENTS)

    def ended(self, task: asyncio.Task[Any]) -> Any:
        """Wait until it is done; what came of it. Raises ``Ended``."""
        self._until(task.done, round(PATIENCE_S * S_NS))
        if not task.done():
            raise Ended("hang", f"it has not ended after {PATIENCE_S:.0f} s")
        if self._failures:
            raise Ended("error", self._failures[0].sentence)
        error = task.exception()
        if error is not None:
            raise Ended("error", repr(error)) from error
        return task.result()

    def lets_pass(self, seconds: float) -> None:
        """Let time pass."""
        self.wait(round(seconds * S_NS))

    def until(self, node: str, key: str = KEY, *, there: bool) -> None:
        """Wait until a node has the key, or has it no more."""
        for _ in range(round(PATIENCE_S / GLANCE_S)):
            if (self.keeps(node, key) is not None) == there:
                return
            self.lets_pass(GLANCE_S)
        raise Ended("hang", f"{key} on {node} was waited for")

    def node(self, name: str) -> TrialNode:
        """One of the nodes."""
        return self.cluster.nodes[name]

    def keeps(self, node: str, key: str = KEY) -> object:
        """The value of the key on a node, None if it has none."""
        return self.node(node).keeps(key.encode())

    def pttl(self, node: str, key: str = KEY) -> Any:
        """For how many more milliseconds a node keeps the key; -1 for ever, -2 if it is not there."""
        return self.calls(node, "PTTL", key)

    def calls(self, node: str, *command: str) -> Any:
        """Call a node's server directly."""
        each = self.node(node)
        return each.host.run(each.model.call, *command)

    def restart(self, node: str) -> None:
        """Kill a server and start it again, with what its files keep."""
        self.at_once(self.node(node).kill())
        self.node(node).boot()

    def violations(self, unavailable_after_s: float | None = None) -> set[str]:
        """What the checker finds in the record so far."""
        params = params_of(self.trial)
        if unavailable_after_s is not None:
            params["unavailable_ns"] = round(unavailable_after_s * S_NS)
        events = [msgspec.convert(event, Event) for event in self.outcome().events]
        verdict = check(History.from_events(events, msgspec.convert(params, Params)))
        return {each.name for each in verdict.findings if each.severity is Severity.VIOLATION}

    def recovers(self) -> bool:
        """Whether a client gets the lock, and no node has a key, once all is over and a TTL has passed."""
        clients = (self.alice, self.bob, self.carol)
        for client in clients:
            client.link("heal", "".join(self.cluster.nodes))
        self.lets_pass(1)
        for client in clients:
            client.does("release")
        self.lets_pass(self.trial.ttl_ns / S_NS + 2)
        gone = all(self.keeps(node) is None for node in self.cluster.nodes)
        return gone and all(client.does("acquire", "release") is Outcome.OK for client in clients)


@contextmanager
def driven(lock: str, **more: Any) -> Iterator[Driven]:
    """A simulation that is ended when it is left."""
    sim = Driven(lock, **more)
    try:
        yield sim
    finally:
        sim.close()


@dataclass(frozen=True)
class Situation:
    """What is played, in which cluster, and how long a client may wait for a lock that is free."""

    play: Callable[[Driven], object]
    setting: dict[str, Any] = field(default_factory=dict)
    unavailable_after_s: float | None = None

    def findings(self, lock: str) -> set[str]:
        """What is found when this lock plays it; no more than that an operation did not end as it may."""
        with driven(lock, **self.setting) as sim:
            try:
                self.play(sim)
            except Ended as ended:
                return {ended.finding}
            return sim.violations(self.unavailable_after_s)


def situation(unavailable_after_s: float | None = None, **setting: Any) -> Callable[..., Situation]:
    """Make a situation of a function that plays it."""
    return lambda play: Situation(play, setting, unavailable_after_s)


def keeps_trying(client: Client, sim: Driven, times: int = 12) -> int:
    """Let a client try every 300 ms, and release what it gets; how often it got it."""
    got = 0
    for _ in range(times):
        if client.does("acquire") is Outcome.OK:
            got += 1
            client.does("release")
        sim.lets_pass(0.3)
    return got


def writes_if_held(client: Client) -> bool:
    """Let a client look whether it still holds the lock, and write if so."""
    return client.does("check") is Outcome.OK and client.does("write") is Outcome.OK
