"""Correct locks as Jepsen records them: processes have numbers, and nothing names a client or a grant.

After an operation of unknown outcome, process p goes on as p + concurrency, and what is still under way may
take effect later. Every other operation takes effect at one instant between its call and its return. So no
such history may be accused, whoever the checker takes for the client of whom.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from checker.history.events import Event, Params
from checker.history.history import History

MS = 1_000_000
TTL_NS = 200 * MS
CLIENTS = 3
Kind = Literal["lease", "owner-mutex", "fenced-mutex", "reentrant-mutex", "semaphore", "leader-election"]
TIMED = frozenset(("lease",))


@dataclass(slots=True)
class Hold:
    """What a client holds, until when, and how much of the lock it takes."""

    client: int
    until_ns: float
    weight: int


@dataclass(slots=True)
class Lock:
    """One lock of a kind; `room` is what fits at once."""

    kind: Kind
    room: int
    held: list[Hold] = field(default_factory=list)
    fence: int = 0
    leader: int | None = None

    def mine(self, client: int, now_ns: int) -> list[Hold]:
        """What a client holds at an instant, in order."""
        self.held = [hold for hold in self.held if hold.until_ns > now_ns]
        return [hold for hold in self.held if hold.client == client]

    def acquire(self, client: int, now_ns: int, ttl_ns: float, weight: int) -> bool:
        """Grant it if there is room, or if a reentrant lock is the client's own; a leader is told again."""
        if self.kind == "leader-election":
            self.fence += self.leader != client
            self.leader = client
            return True
        nested = self.kind == "reentrant-mutex" and len(self.mine(client, now_ns)) == 1
        if not nested and sum(hold.weight for hold in self.held) + weight > self.room:
            return False
        if self.kind == "reentrant-mutex" and len(self.mine(client, now_ns)) > 1:
            return False
        self.fence += 1
        self.held.append(Hold(client, now_ns + ttl_ns, weight))
        return True

    def release(self, client: int, now_ns: int) -> bool:
        """Give back what the client has held longest."""
        mine = self.mine(client, now_ns)
        if mine:
            self.held.remove(mine[0])
        return bool(mine)

    def extend(self, client: int, now_ns: int, ttl_ns: float) -> bool:
        """Set the time that is left, to more or less."""
        mine = self.mine(client, now_ns)
        for hold in mine:
            hold.until_ns = now_ns + ttl_ns
        return bool(mine)


class Drawing:
    """Plays clients of one lock and writes down what they call and are told."""

    def __init__(self, random: Random, kind: Kind, prefix: str) -> None:
        self.random, self.kind, self.prefix = random, kind, prefix
        self.lock = Lock(kind, 3 if kind == "semaphore" else 1)
        self.events: list[Event] = []
        self.process = list(range(CLIENTS))
        self.queue: list[tuple[int, int, Callable[[int], None]]] = []
        self.number = 0

    def at(self, time_ns: int, what: Callable[[int], None]) -> None:
        """Do something at an instant."""
        self.number += 1
        heapq.heappush(self.queue, (time_ns, self.number, what))

    def play(self, length: int) -> History:
        """A history of so many events or a few more."""
        for client in range(CLIENTS):
            self.at(self.random.randrange(50 * MS), self._step(client))
        while len(self.events) < length:
            now_ns, _, what = heapq.heappop(self.queue)
            what(now_ns)
        more: dict[str, Any] = {"permits": 3} if self.kind == "semaphore" else {}
        more |= {"depth": 2} if self.kind == "reentrant-mutex" else {}
        params = Params(model=self.kind, rho=0.0, nodes=1, refusals=["held"], **more)
        return History.from_events(self.events, params)

    def _step(self, client: int) -> Callable[[int], None]:
        return lambda now_ns: self._call(client, now_ns)

    def _call(self, client: int, now_ns: int) -> None:
        random, timed = self.random, self.kind in TIMED
        f = random.choice(
            ["acquire", "acquire", "release", "release", "write", "extend" if timed else "write"]
        )
        weight = random.choice([1, 1, 2]) if self.kind == "semaphore" else 1
        ttl_ns = random.choice([TTL_NS, TTL_NS // 4])
        asked: dict[str, Any] = {"ttl_ns": ttl_ns} if timed and f in ("acquire", "extend") else {}
        if f == "acquire" and self.kind == "semaphore":
            asked["value"] = weight
        process = f"{self.prefix}{self.process[client]}"
        self._record(process, "invoke", f, now_ns, **asked)
        lasts = float(ttl_ns) if timed else float("inf")
        answer: list[dict[str, Any]] = []

        def effect(then_ns: int) -> None:
            done = f == "write"
            if f == "acquire":
                done = self.lock.acquire(client, then_ns, lasts, weight)
            elif f == "release":
                done = self.lock.release(client, then_ns)
            elif f == "extend":
                done = self.lock.extend(client, then_ns, lasts)
            why = {"acquire": {"error": "held"}, "release": {"error": "not-held"}}.get(f, {})
            fence = {"fence": self.lock.fence} if f == "acquire" and self.kind != "lease" else {}
            answer.append({"type": "ok", **fence} if done else {"type": "fail", **why})

        def back(then_ns: int) -> None:
            if answer and random.random() < 0.8:
                self._record(process, answer[0].pop("type"), f, then_ns, **answer[0])
            else:
                self._record(process, "info", f, then_ns)
                self.process[client] += CLIENTS
            self.at(then_ns + random.choice([1, 5, 30]) * MS, self._step(client))

        self.at(now_ns + random.choice([1, 3, 30, 90]) * MS, effect)
        self.at(now_ns + random.choice([4, 40, 100]) * MS, back)

    def _record(self, process: str, type: Any, f: str, now_ns: int, **reported: Any) -> None:
        self.events.append(Event(time_ns=now_ns, process=process, type=type, f=f, key="k", **reported))


def draw(random: Random, kind: Kind, length: int = 30, prefix: str = "") -> History:
    """A history of a correct lock of this kind; `prefix` stands before the number of every process."""
    return Drawing(random, kind, prefix).play(length)
