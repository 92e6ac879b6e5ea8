"""Random histories of clients that lock and write as they like, and what both forms of the checker say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checker import check
from checker.history.events import Event, Params
from checker.history.history import History
from checker.live.confirm import JUDGED
from checker.live.judge import Judge
from checker.verdict import Finding, Severity

MS = 1_000_000
TTL_NS = 300 * MS
NAMES = frozenset(name for names in JUDGED.values() for name in names)
Told = dict[tuple[str, str | None], list[Finding]]


def judged(events: Sequence[Event], params: Params) -> tuple[Told, Judge]:
    """What the live form reports, by name and key."""
    judge = Judge(params)
    for event in events:
        judge.feed(event)
    judge.end()
    return _by_name(judge.found), judge


def offline(history: History) -> Told:
    """The violations among the findings that the live form judges, by name and key."""
    return _by_name(
        [f for f in check(history).findings if f.severity is Severity.VIOLATION and f.name in NAMES]
    )


def _by_name(findings: Sequence[Finding]) -> Told:
    reported: Told = {}
    for finding in findings:
        reported.setdefault((finding.name, finding.key), []).append(finding)
    return reported


@dataclass(slots=True)
class _Client:
    name: str
    process: str
    lives: int = 0
    pending: Event | None = None
    named: str | None = None  # the grant that `pending` is about, where it does not say so
    grants: list[tuple[str, str]] = field(default_factory=list)


def draw(random: Random, length: int, *, certain: bool, keys: int = 2) -> tuple[list[Event], Params]:
    """A history of up to `length` events and the completions that are missing then.

    `certain`: every outcome is known, every TTL the same, and every release and extension names its grant.
    """
    params = Params(
        epsilon_ns=random.choice([0, 0, MS]),
        delta_ns=random.choice([0, 5 * MS]),
        store_fences=random.random() < 0.5,
        single_attempt=random.random() < 0.5,
        nodes=5,
    )
    clients = [_Client(name, name) for name in ("alice", "bob", "carol")]
    drawn = _Drawn(random, certain, "kl"[:keys])
    for number in range(length + 20):
        drawn.now += random.choice([0, 1, 1, 7, 40, 150]) * MS
        waiting = [client for client in clients if client.pending]
        if number >= length and not waiting:
            break
        client = random.choice(waiting if number >= length else clients)
        if client.pending is None:
            drawn.invoke(client)
        else:
            drawn.complete(client, client.pending)
    return drawn.events, params


class _Drawn:
    """The events so far, and what the lock and the store count."""

    def __init__(self, random: Random, certain: bool, keys: str) -> None:
        self.random, self.certain, self.keys = random, certain, keys
        self.events: list[Event] = []
        self.now = self.granted = self.fence = self.written = 0
        self.version = dict.fromkeys(keys, 0)

    def _event(self, client: _Client, **fields: Any) -> Event:
        event = Event(time_ns=self.now, process=client.process, client=client.name, **fields)
        self.events.append(event)
        return event

    def invoke(self, client: _Client) -> None:
        """A client begins something, if it can."""
        random = self.random
        f = random.choice(["acquire", "acquire", "release", "extend", "write", "write", "held"])
        if f == "acquire":
            self.granted += 1
            grant, key = f"g{self.granted}", random.choice(self.keys)
        elif client.grants:
            grant, key = random.choice(client.grants[-2:])
        else:
            return
        asked: dict[str, Any] = {}
        if f in ("acquire", "extend"):
            asked["ttl_ns"] = TTL_NS if self.certain else random.choice([TTL_NS, TTL_NS // 3])
        if f == "write":
            self.written += 1
            asked["value"] = f"v{self.written}"
            if random.random() < 0.7:
                asked["version_read"] = max(0, self.version[key] - random.choice([0, 0, 0, 1]))
            if random.random() < 0.7:
                asked["fence"] = self.fence - random.choice([0, 0, 0, 1])
        named: str | None = grant
        if f in ("release", "extend") and not self.certain and random.random() < 0.1:
            named = random.choice([None, "nobody's"])
            client.named = grant
        client.pending = self._event(client, type="invoke", f=f, key=key, grant_id=named, **asked)

    def complete(self, client: _Client, call: Event) -> None:
        """What a client began ends, one way or another."""
        random, key, grant = self.random, str(call.key), str(call.grant_id)
        client.pending = None
        named, client.named = client.named, None
        if named is not None:
            grant = named
        outcome = random.choice(["ok"] * 6 + ["fail"] + ["info"] * (not self.certain))
        reported: dict[str, Any] = {}
        if call.f == "acquire" and outcome == "ok":
            client.grants.append((grant, key))
            self.fence += random.choice([1, 1, 1, 1, 0, -1])
            reported = {"fence": self.fence, "claimed_ns": TTL_NS + random.choice([-20, -5, -5, 20]) * MS}
        elif call.f == "write" and outcome == "ok":
            self.version[key] += 1
            reported = {"version_written": self.version[key] - random.choice([0] * 9 + [1])}
        elif call.f == "held" and outcome == "ok":
            reported = {"claimed_ns": random.choice([50, 100, 300, 400]) * MS}
        elif call.f == "release" and random.random() < 0.8:
            client.grants.remove((grant, key))
        self._event(client, type=outcome, f=call.f, key=key, grant_id=call.grant_id, **reported)
        if outcome == "info":
            client.lives += 1
            client.process = f"{client.name}/{client.lives}"
