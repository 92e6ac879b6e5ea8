"""Histories whose stamps lie on a grid, so that bounds are met exactly; and circles of waiting clients.

The rates of clocks are exact in them, and every operation has a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Any

from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.checker.drawn import CLIENTS, NODES

STEP = 5


def grid_builder(number: int) -> HistoryBuilder:
    """The history of this number."""
    return FAMILIES[number % len(FAMILIES)](Random(number))


def _params(random: Random, **more: Any) -> dict[str, Any]:
    return {
        "nodes": 3,
        "clients": CLIENTS,
        "rho": 0.0,
        "delta_ns": random.choice((0, STEP)) * MS,
        "epsilon_ns": random.choice((0, 0, STEP)) * MS,
        "grace_ns": random.choice((STEP, 2 * STEP)) * MS,
        "stall_ns": STEP * MS,
        **more,
    }


def _processes(who: str, numbers: Iterator[int]) -> str:
    return f"{who}/{next(numbers)}"


def leases(random: Random) -> HistoryBuilder:
    """Grants, extensions, answers, writes and releases."""
    made = HistoryBuilder(
        **_params(random, store_fences=random.random() < 0.5, single_attempt=random.random() < 0.5)
    )
    numbers, fence = count(), 0
    writes: list[tuple[float, float, str, str, int]] = []
    for number in range(random.randint(2, 5)):
        who, grant, ttl = random.choice(CLIENTS), f"g{number}", random.choice((20, 40))
        call = STEP * random.randint(0, 14)
        back = call + STEP * random.randint(0, 2)
        fence += random.choice((1, 1, 1, 0, -1))
        reported: dict[str, Any] = {"fence": fence, "token": f"t{number}"}
        reported["claimed"] = random.choice((None, ttl - STEP, ttl, ttl + STEP))
        if random.random() < 0.3:
            reported["deadline_ns"] = (call + random.choice((ttl, ttl + STEP))) * MS
        made.acquire(_processes(who, numbers), grant, call, back, ttl=ttl, **reported)
        for _ in range(random.randint(0, 3)):
            at = back + STEP * random.randint(0, 9)
            process, kind = _processes(who, numbers), random.choice(("extend", "write", "held", "write"))
            if kind == "extend":
                outcome = random.choice(("ok", "ok", "fail", "info"))
                made.extend(process, grant, at, at + STEP, outcome, ttl=random.choice((ttl, ttl, 30)))
            elif kind == "held":
                answer = random.choice(("yes", "no"))
                made.op(process, "held", at, at, grant_id=grant, value=answer, claimed_ns=STEP * MS)
            else:
                writes.append((at + STEP * random.randint(0, 1), at, process, grant, fence))
        if random.random() < 0.6:
            at = back + STEP * random.randint(0, 8)
            made.release(_processes(who, numbers), grant, at, at + STEP * random.randint(0, 1))
    for version, (end, called, process, grant, with_fence) in enumerate(sorted(writes)):
        based = max(0, version - random.choice((0, 0, 1)))
        made.write(process, grant, called, end, based, version + 1, fence=with_fence)
    if random.random() < 0.3:
        made.stall(random.choice(CLIENTS), STEP * random.randint(0, 9), 2 * STEP)
    return made


def permits(random: Random) -> HistoryBuilder:
    """Semaphores and read-write locks, whose windows touch."""
    model = random.choice(("semaphore", "read-write-lock"))
    more = {"permits": random.choice((1, 2))} if model == "semaphore" else {}
    made = HistoryBuilder(**_params(random, model=model, refusals=["taken"], **more))
    wants: tuple[int | str, ...] = (1, 1, 2) if model == "semaphore" else ("read", "read", "write")
    wants = wants[: 2 if more.get("permits") == 1 else 3]
    numbers = count()
    for number in range(random.randint(2, 6)):
        who, call = random.choice(CLIENTS), STEP * random.randint(0, 10)
        kind = random.choice(("ok", "ok", "ok", "fail"))
        name: dict[str, Any] = {"grant_id": f"g{number}"} if random.random() < 0.8 else {}
        asked: dict[str, Any] = {"value": random.choice(wants)}
        if name and random.random() < 0.5:
            asked["ttl_ns"] = 4 * STEP * MS
        error = {"error": "taken"} if kind == "fail" else {}
        back = call + STEP * random.randint(0, 2)
        made.op(_processes(who, numbers), "acquire", call, back, kind, asked=asked, **name, **error)
        if kind == "ok" and name and random.random() < 0.5:
            over = back + STEP * random.randint(0, 4)
            made.op(_processes(who, numbers), "release", over, over + STEP, **name)
    return made


def refusals(random: Random) -> HistoryBuilder:
    """Tries that are refused for just as long as is allowed, and nodes that come and go."""
    made = HistoryBuilder(**_params(random, unavailable_ns=4 * STEP * MS))
    numbers = count()
    made.acquire("alice", "g", 0, STEP, ttl=random.choice((20, None)))
    if random.random() < 0.6:
        made.release("alice", "g", 2 * STEP, 3 * STEP)
    for number in range(random.randint(2, 7)):
        call = STEP * random.randint(2, 20)
        kind = random.choice(("fail", "fail", "fail", "ok"))
        reported = {"refused_by": random.choice((0, 2, 3))} if kind == "fail" else {}
        who = random.choice(CLIENTS[1:])
        back = call + STEP * random.randint(0, 5)
        made.acquire(_processes(who, numbers), f"h{number}", call, back, kind, ttl=20, **reported)
    for number in range(random.choice((0, 1, 2))):
        f = random.choice(("crash", "partition", "pause"))
        targets = [random.choice(CLIENTS)] if f == "pause" else random.sample(NODES, random.choice((1, 2)))
        at = STEP * random.randint(0, 18)
        until = at + STEP * random.randint(1, 4) if random.random() < 0.8 else None
        made.fault(f, at, targets, until=until, name=f"f{number}")
    return made.op("carol/end", "read", 150, 155)


def waits(random: Random) -> HistoryBuilder:
    """Requests in an order, each with a time-out that it may miss by nothing."""
    made = HistoryBuilder(**_params(random, fifo_ns=STEP * MS, wait_slack_ns=2 * STEP * MS))
    numbers, free = count(), 0.0
    for number in range(random.randint(2, 6)):
        who, call = random.choice(CLIENTS), STEP * random.randint(0, 8)
        back = max(call, free) + STEP * random.randint(0, 4)
        kind = random.choice(("ok", "ok", "fail"))
        asked: dict[str, Any] = {"wait_ns": STEP * random.randint(0, 3) * MS}
        name: dict[str, Any] = {"grant_id": f"g{number}"}
        made.op(_processes(who, numbers), "acquire", call, back, kind, asked=asked, **name)
        if kind == "ok":
            free = back + STEP * random.randint(0, 2)
            made.op(_processes(who, numbers), "release", free, free + STEP, **name)
    if random.random() < 0.5:
        made.stall(random.choice((*CLIENTS, "lab")), STEP * random.randint(0, 6), STEP * random.randint(1, 4))
    return made


def circles(random: Random) -> HistoryBuilder:
    """Clients that hold one lock each and wait for that of another."""
    size = random.choice((2, 2, 3))
    made = HistoryBuilder(**_params(random, breaks_deadlocks=random.random() < 0.5))
    ttl = random.choice((None, None, 60))
    for at, who in enumerate(CLIENTS[:size]):
        made.acquire(who, f"g{at}", STEP * at, STEP * (at + 1), ttl=ttl, key=f"k{at}")
    for at, who in enumerate(CLIENTS[:size]):
        call = STEP * random.randint(3, 8)
        back = None if random.random() < 0.3 else call + STEP * random.randint(0, 6)
        kind = "fail" if back is not None and random.random() < 0.8 else "info"
        wanted = f"k{(at + 1) % size if random.random() < 0.9 else at}"
        made.acquire(who, f"h{at}", call, back, kind, ttl=ttl, key=wanted)
        if random.random() < 0.4:
            over = STEP * random.randint(4, 12)
            made.release(f"{who}/2", f"g{at}", over, over + STEP, key=f"k{at}")
    return made.op("dave", "read", 100, 105)


FAMILIES: tuple[Callable[[Random], HistoryBuilder], ...] = (leases, permits, refusals, waits, circles, leases)
