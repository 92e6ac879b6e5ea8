"""Histories in which two hold a lock at once, with all that may have led to it, on a grid of milliseconds.

Stamps of looks, commands, faults and calls often coincide, so that every bound of what may be a cause counts.
"""

from __future__ import annotations

from random import Random
from typing import Any

from checker.history.events import Event
from tests.unit.checker.builder import MS, HistoryBuilder

NODES = ("A", "B", "C")
FAULTS = (
    *("jump", "jump", "drift", "strobe", "power_cut", "crash", "restart"),
    *("shutdown", "failover", "promote", "partition", "pause"),
)
WORDS = (
    *("DEL k", "SET k b", "SET k b NX", "PEXPIRE k 1", "del k", "SETEX k 5 z", "XADD k c", "GET k"),
    *("EVALSHA f 1 k c", "EVAL f 1 k a", "UNLINK k", "RENAME k c"),
)


def caused_builder(number: int) -> HistoryBuilder:
    """The history of this number."""
    random = Random(number)
    made = HistoryBuilder(
        nodes=random.choice((3, 3, 3, None)),
        clients=["alice", "bob", "carol"],
        rho=random.choice((0.0, 0.05)),
        epsilon_ns=random.choice((0, 0, MS)),
    )
    tokens = random.choice((("a", "b"), ("a", "b"), ("a", "b"), ("a", "a"), ("a", None)))
    made.acquire("alice", "g", random.randrange(3), 4, ttl=60, token=tokens[0])
    made.acquire("bob", "h", random.randrange(10, 15), 16, ttl=60, token=tokens[1])
    for who in ("carol", "dave"):
        if random.random() < 0.5:
            f, kind = random.choice(("acquire", "release", "extend")), random.choice(("ok", "fail", "info"))
            call, token = random.randrange(3, 12), random.choice(("c", None))
            grant = "g" if f == "extend" else who
            made.op(who, f, call, call + random.randrange(1, 6), kind, grant_id=grant, token=token)
    most = random.choice((0, 0, 1, 2))
    for node in NODES:
        _looks(random, made, node, tokens, most)
    for number in range(random.choice((0, 1, 1, 2, 3))):
        _fault(random, made, f"f{number}")
    return made


def _node(made: HistoryBuilder, f: str, node: str, at: float, **more: Any) -> None:
    key = None if f.startswith("node") else "k"
    event = Event(time_ns=round(at * MS), process="node", type="info", f=f, node=node, key=key, **more)
    made._events.append(event)


def _looks(
    random: Random, made: HistoryBuilder, node: str, tokens: tuple[str, str | None], most: int
) -> None:
    at, number = 2, 0
    while (at := at + random.randrange(1, 6)) < 19:
        number += 1
        early = at < 6
        token = random.choice((tokens[0], tokens[0], None) if early else (None, tokens[1], tokens[0]))
        value: dict[str, Any] = {"asked_ns": at * MS, "answered_ns": (at + 1) * MS, "look": number}
        value["commands"] = [_command(random, at, number) for _ in range(random.randint(0, most))]
        left = random.choice((1, 2, 5, 50, None))
        reported = {"token": token, "ttl_left_ns": left and left * MS} if token else {}
        _node(made, "key-set" if token else "key-deleted", node, at + 1, value=value, **reported)
    if random.random() < 0.2:
        _node(made, "node-down", node, random.randrange(3, 15))
    if random.random() < 0.8:
        _node(made, "node-left", node, 20)


def _command(random: Random, at: int, number: int) -> dict[str, Any]:
    ran = at - random.randrange(4)
    ends = [ran * MS, min(at, ran + random.randrange(3)) * MS]
    command = {"command": random.choice(WORDS), "seen_ns": at * MS, "after": number - 1}
    return command | ({"ran_ns": ends} if random.random() < 0.9 else {})


def _fault(random: Random, made: HistoryBuilder, name: str) -> None:
    f, at = random.choice(FAULTS), random.randrange(1, 17)
    targets = random.sample(NODES, random.choice((1, 1, 2))) if random.random() < 0.9 else ["alice"]
    until = at + random.choice((1, 3, 6, 12)) if random.random() < 0.5 else None
    made.fault(
        *(f, at, targets),
        until=until,
        breaks=random.choice(("durable nodes", "bounded clock error", "bounded process pauses", None)),
        receipt=random.random() < 0.9,
        name=name,
    )
    by = random.choice((7, -3, 0.5, 0, "much", None))
    receipt = random.choice(({"moved_ms": by}, {targets[0]: {"moved_ms": by}}, {targets[0]: by}))
    for event in made._events:
        if event.fault_id == name and event.receipt and f == "jump":
            event.receipt = receipt
