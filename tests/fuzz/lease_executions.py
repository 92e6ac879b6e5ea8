"""Executions of a lease lock on real-valued time, made by nothing of the lab.

Nodes keep a key for its TTL on their own clocks, whose rates err by up to ρ. Clients take a majority of the
nodes, measure how long that took on clocks that err as much, and give up what came too late. Messages take
any time, clients stand still anywhere, and a recorder, whose clock errs too, stamps calls and returns within
ε. That is within the assumptions, so no such execution may be accused.

With `mixed` a client extends several times, each time for a long or a short TTL, which nodes set whatever
time was left; it goes on after an extension of unknown outcome, of which commands may still be under way.

Beyond the assumptions a node forgets its keys, or its clock jumps. Then two clients may hold the lock at
once.
`Execution.overlap_ns` tells for how long, by the true times: from the later return to the earlier end, of
which each is the call of a release, or the end of a lease by the fastest clock that is allowed. Between the
end of a lease and the return of an extension that found the key still there the lock was held as well, but
nothing on record says so: `Execution.clear_ns` leaves that time out.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from random import Random
from typing import Any, Literal

from checker.history.events import Event

RHO = 0.01
EPSILON_NS = 1_000_000
TTL_NS = 1_000_000_000


def drift_ns(rho: float = RHO) -> int:
    """What a client takes off its lease: both clocks may err by ρ, and nodes count in whole milliseconds."""
    return int(TTL_NS * 2.5 * rho) + 2_000_000


Fault = Literal["forget", "jump"]


@dataclass(slots=True)
class Node:
    """A node with one key: who has it until when, by its own clock, which runs at `rate`."""

    rate: float
    offset_ns: float = 0.0
    token: str | None = None
    until_ns: float = 0.0

    def now(self, true_ns: float) -> float:
        """What its clock says."""
        return true_ns * self.rate + self.offset_ns

    def set(self, token: str, ttl_ns: int, true_ns: float) -> bool:
        """SET NX PX."""
        if self.token is not None and self.now(true_ns) < self.until_ns:
            return False
        self.token, self.until_ns = token, self.now(true_ns) + ttl_ns
        return True

    def prolong(self, token: str, ttl_ns: int, true_ns: float) -> bool:
        """Extend, if it is still this token's; never shorten."""
        if self.token != token or self.now(true_ns) >= self.until_ns:
            return False
        self.until_ns = max(self.until_ns, self.now(true_ns) + ttl_ns)
        return True

    def expire(self, token: str, ttl_ns: int, true_ns: float) -> bool:
        """Extend or shorten, if it is still this token's: PEXPIRE."""
        if self.token != token or self.now(true_ns) >= self.until_ns:
            return False
        self.until_ns = self.now(true_ns) + ttl_ns
        return True

    def delete(self, token: str) -> None:
        """Compare and delete."""
        if self.token == token:
            self.token = None


@dataclass(slots=True)
class Hold:
    """A grant in true times: held from `start_ns` until `end_ns`; what no record shows of that are `gaps`."""

    client: str
    start_ns: float
    end_ns: float
    gaps: list[tuple[float, float]] = field(default_factory=list)

    def clear_parts(self) -> Iterator[tuple[float, float]]:
        """The parts of it that a record shows."""
        start_ns = self.start_ns
        for gap_ns, again_ns in self.gaps:
            yield start_ns, min(gap_ns, self.end_ns)
            start_ns = again_ns
        yield start_ns, self.end_ns


@dataclass(slots=True)
class Execution:
    """One execution on one key: its events (stamped, in order of stamps) and its grants in true times."""

    events: list[Event] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)

    @property
    def overlap_ns(self) -> float:
        """For how long two grants were held at once, at most; 0 or less: never."""
        pairs = combinations(self.holds, 2)
        return max((min(a.end_ns, b.end_ns) - max(a.start_ns, b.start_ns) for a, b in pairs), default=0.0)

    @property
    def clear_ns(self) -> float:
        """For how long two grants were held at once by what a record can show, at most."""
        pairs = (
            pair for a, b in combinations(self.holds, 2) for pair in product(a.clear_parts(), b.clear_parts())
        )
        return max((min(a[1], b[1]) - max(a[0], b[0]) for a, b in pairs), default=0.0)


class World:
    """Plays one execution: a heap of what happens next, in true nanoseconds."""

    def __init__(self, random: Random, key: str, fault: Fault | None, *, mixed: bool, rho: float) -> None:
        self.random, self.key, self.fault, self.mixed, self.rho = random, key, fault, mixed, rho
        self.nodes = [Node(self.rate()) for _ in range(random.choice([1, 3, 3, 5]))]
        self.recorder_rate = self.rate()
        self.execution = Execution()
        self.heap: list[tuple[float, int, Iterator[float]]] = []
        self.number = 0
        self.now = 0.0

    def rate(self) -> float:
        """How fast a clock runs."""
        return self.random.uniform(1 - self.rho, 1 + self.rho)

    def run(self) -> Execution:
        """Play until nobody has anything left to do."""
        for at in range(self.random.randint(2, 3)):
            self.start(self.client(f"{self.key}-c{at}"), self.random.uniform(0, 1.5 * TTL_NS))
        if self.fault is not None:
            for node in self.random.sample(self.nodes, self.random.randint(1, len(self.nodes))):
                self.start(self.trouble(node), self.random.uniform(0, 1.5 * TTL_NS))
        while self.heap:
            self.now, _, process = heapq.heappop(self.heap)
            wait = next(process, None)
            if wait is not None:
                self.start(process, wait)
        self.execution.events.sort(key=lambda event: event.time_ns)
        return self.execution

    def start(self, process: Iterator[float], wait_ns: float) -> None:
        """Go on with a process after so long."""
        self.number += 1
        heapq.heappush(self.heap, (self.now + wait_ns, self.number, process))

    def delay(self) -> float:
        """How long a message takes, or a client stands still: mostly short, at times longer than a lease."""
        return self.random.choice([1e5, 1e6, 1e7, 3e8]) * self.random.random() * self.random.choice([1, 1, 5])

    def record(self, client: str, type: Any, f: str, grant: str, **reported: Any) -> None:
        """Stamp an event within ε on the recorder's clock."""
        stamp = self.now * self.recorder_rate + self.random.uniform(-EPSILON_NS, EPSILON_NS)
        mine = [e for e in self.execution.events if e.client == client]
        ordered = max(int(stamp) + 10 * EPSILON_NS, *(e.time_ns for e in mine), 0)
        lives = sum(e.type == "info" for e in mine)
        event = Event(
            time_ns=ordered,
            process=f"{client}/{lives}" if lives else client,
            client=client,
            type=type,
            f=f,
            key=self.key,
            grant_id=grant,
            **reported,
        )
        self.execution.events.append(event)

    def trouble(self, node: Node) -> Iterator[float]:
        """A node forgets, or its clock jumps ahead."""
        if self.fault == "forget":
            node.token = None
        else:
            node.offset_ns += self.random.uniform(0.2, 2) * TTL_NS
        yield from ()

    def ask(self, act: Any) -> Iterator[float]:
        """Ask all nodes at once; each executes when the message arrives. Waits for a majority of answers."""
        answers: list[bool] = []

        def one(node: Node) -> Iterator[float]:
            answers.append(bool(act(node, self.now)))
            yield from ()

        arrivals = sorted(self.delay() for _ in self.nodes)
        for node, arrival in zip(self.random.sample(self.nodes, len(self.nodes)), arrivals, strict=True):
            self.start(one(node), arrival)
        waited = arrivals[-1] + self.delay() if self.random.random() < 0.7 else self.delay()
        yield waited
        self.yes = sum(answers)

    def client(self, name: str) -> Iterator[float]:
        """Acquire, perhaps extend, perhaps release; a few times over."""
        rate = self.rate()
        for turn in range(self.random.randint(1, 3)):
            token = f"{name}-{turn}"
            called = self.now
            self.record(name, "invoke", "acquire", token, ttl_ns=TTL_NS)
            yield from self.ask(lambda node, at, token=token: node.set(token, TTL_NS, at))
            yes = self.yes
            elapsed = (self.now - called) * rate
            if yes * 2 <= len(self.nodes) or elapsed + drift_ns(self.rho) >= TTL_NS:
                yield from self.ask(lambda node, _, token=token: node.delete(token))
                self.record(name, "fail", "acquire", token)
                yield self.delay()
                continue
            yield self.delay()  # it stands still between its look at the clock and its return
            self.record(name, "ok", "acquire", token)
            yield from self.hold(name, token, called, rate)

    def hold(self, name: str, token: str, called: float, rate: float) -> Iterator[float]:
        """What a client does with a lock that it got."""
        shortest = TTL_NS / (1 + self.rho)
        held = Hold(name, self.now, called + shortest)
        self.execution.holds.append(held)
        yield self.delay()
        if self.mixed:
            yield from self.change(name, token, held, rate)
        elif self.random.random() < 0.4:
            asked = self.now
            self.record(name, "invoke", "extend", token, ttl_ns=TTL_NS)
            yield from self.ask(lambda node, at: node.prolong(token, TTL_NS, at))
            granted = self.yes * 2 > len(self.nodes) and self.in_time(asked, rate, TTL_NS)
            self.record(name, "ok" if granted else "info", "extend", token)
            if granted:  # a majority had kept it until then, also where its lease might have been over
                if asked > held.end_ns:
                    held.gaps.append((held.end_ns, self.now))  # the nodes executed it at any time until now
                held.end_ns = asked + shortest
            if not granted:
                return  # of unknown outcome: the client ends here
            yield self.delay()
        if self.random.random() < 0.7:
            held.end_ns = min(held.end_ns, self.now)
            self.record(name, "invoke", "release", token)
            yield from self.ask(lambda node, _: node.delete(token))
            self.record(name, "ok", "release", token)
            yield self.delay()

    def in_time(self, asked: float, rate: float, ttl_ns: int) -> bool:
        """Whether a client's clock says that what it asked for has not ended."""
        return (self.now - asked) * rate + drift_ns(self.rho) < ttl_ns

    def change(self, name: str, token: str, held: Hold, rate: float) -> Iterator[float]:
        """Extend a few times, for longer and for shorter, whatever comes of it."""
        for _ in range(self.random.randint(1, 4)):
            asked, ttl_ns = self.now, self.random.choice([TTL_NS, TTL_NS // 4])
            self.record(name, "invoke", "extend", token, ttl_ns=ttl_ns)
            yield from self.ask(lambda node, at, ttl_ns=ttl_ns: node.expire(token, ttl_ns, at))
            granted = self.yes * 2 > len(self.nodes) and self.in_time(asked, rate, ttl_ns)
            self.record(name, "ok" if granted else "info", "extend", token)
            held.end_ns = min(held.end_ns, asked)  # what is certain from here on, the checker has to say
            yield self.delay()


def executions(
    seed: int, number: int, fault: Fault | None = None, *, mixed: bool = False, rho: float = RHO
) -> Iterator[Execution]:
    """So many executions, each on a key of its own; all clocks run at a rate of 1 ± `rho`."""
    random = Random(seed)
    for at in range(number):
        yield World(random, f"k{at}", fault, mixed=mixed, rho=rho).run()
