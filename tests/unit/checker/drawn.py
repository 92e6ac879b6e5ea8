"""Histories of every model, drawn from a number: most locks in them are right, some are not.

Nothing else is drawn from time, from the machine or from the order of a set: one number is one history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.unit.checker.builder import MS, HistoryBuilder

CLIENTS = ["alice", "bob", "carol"]
NODES = ["A", "B", "C"]
BREAKS = {"jump": "bounded clock error", "crash": "durable nodes", "pause": "bounded process pauses"}


def drawn_builder(number: int) -> HistoryBuilder:
    """The history of this number."""
    random = Random(number)
    return FAMILIES[number % len(FAMILIES)](random)


def _params(random: Random, **more: Any) -> dict[str, Any]:
    return {
        "nodes": 3,
        "clients": CLIENTS,
        "rho": random.choice((0.0, 0.001, 0.05)),
        "delta_ns": random.choice((0, 0, 2 * MS)),
        "epsilon_ns": random.choice((0, 0, MS)),
        "grace_ns": random.choice((20, 200)) * MS,
        "stall_ns": 5 * MS,
        **more,
    }


def lease(random: Random) -> HistoryBuilder:
    """Leases with all that a client can do under one, and faults."""
    params = _params(
        random, store_fences=random.random() < 0.4, lock_fences=random.choice((None, True, False))
    )
    if random.random() < 0.4:
        params["unavailable_ns"] = random.choice((30, 100)) * MS
    made = HistoryBuilder(**params, single_attempt=random.random() < 0.3)
    _grants(random, made, ttls=(20, 40, 40, 120), keys=("k", "k", "l"))
    _faults(random, made)
    return made


def session(random: Random) -> HistoryBuilder:
    """Locks without a TTL, whose holders may die."""
    made = HistoryBuilder(**_params(random))
    _grants(random, made, ttls=(None,), keys=("k",))
    _faults(random, made)
    return made


@dataclass
class _Play:
    """A history that is being drawn: until when each client is busy, under which name it goes on."""

    random: Random
    made: HistoryBuilder
    busy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(CLIENTS, 0.0))
    lives: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLIENTS, 1))
    writes: list[tuple[float, float, str, str, str, str, int]] = field(default_factory=list)

    def turn(self, who: str, wait: float, takes: float, kind: str = "ok") -> tuple[str, float, float]:
        """The next operation of a client: its process, when it is called and when it returns."""
        process, call = f"{who}/{self.lives[who]}", self.busy[who] + wait + 0.125
        self.busy[who] = call + takes
        self.lives[who] += kind == "info"  # the process is retired
        return process, call, call + takes


def _grants(
    random: Random, made: HistoryBuilder, ttls: tuple[float | None, ...], keys: tuple[str, ...]
) -> None:
    play = _Play(random, made)
    fences = dict.fromkeys(keys, 0)
    free = dict.fromkeys(keys, 0.0)
    for number in range(random.randint(3, 9)):
        who, key, ttl = random.choice(CLIENTS), random.choice(keys), random.choice(ttls)
        kind = random.choices(("ok", "fail", "info"), (7, 2, 1))[0]
        wait = float(random.randint(0, 15))
        if random.random() < 0.5:  # a lock that waits for its turn
            wait = max(wait, free[key] + random.choice((0, 0, 3, -4)) - play.busy[who])
        process, call, back = play.turn(who, wait, random.choice((1, 2, 6, 30)), kind)
        reported: dict[str, Any] = {"key": key, "token": f"t{number}"}
        if kind == "ok":
            fence = fences[key] + random.choice((1, 1, 1, 1, 0, -1))
            fences[key] = max(fences[key], fence)
            reported["fence"] = fence
            if ttl is not None:
                reported["claimed"] = random.choice((None, ttl * 0.5, ttl - 1, ttl * 1.3))
                reported |= {"attempt_ns": round((call + 1) * MS)} if random.random() < 0.2 else {}
                reported |= {"deadline_ns": round((call + ttl) * MS)} if random.random() < 0.2 else {}
        elif kind == "fail":
            reported["refused_by"] = random.choice((0, 2, 3))
            reported["error"] = random.choice(("taken", "timeout"))
        never = kind == "info" and random.random() < 0.5
        made.acquire(process, f"g{number}", call, None if never else back, kind, ttl=ttl, **reported)
        if kind == "ok":
            _under(play, who, f"g{number}", key, fences[key], ttl)
            free[key] = play.busy[who]
    _writes(play)


def _under(play: _Play, who: str, grant: str, key: str, fence: int, ttl: float | None) -> None:
    """What its client does with a grant."""
    random, made = play.random, play.made
    about: dict[str, Any] = {"key": key, "grant_id": grant}
    for _ in range(random.randint(0, 4)):
        wait = random.choice((1, 4, 12, 25))
        kind = random.choice(("extend", "write", "write", "held"))
        if kind == "extend" and ttl is not None:
            outcome = random.choice(("ok", "ok", "fail", "info"))
            claimed = random.choice((None, ttl / 2, ttl * 1.2)) if outcome == "ok" else None
            believes = {"value": random.choice(("yes", "no"))} if outcome == "fail" else {}
            asked = random.choice((ttl, ttl, ttl * 2, ttl / 2))
            process, at, back = play.turn(who, wait, 1, outcome)
            made.extend(process, grant, at, back, outcome, ttl=asked, claimed=claimed, key=key, **believes)
        elif kind == "held":
            claims: dict[str, Any] = {"claimed_ns": 10 * MS} if random.random() < 0.3 else {}
            answer = random.choice(("yes", "yes", "no"))
            process, at, back = play.turn(who, wait, 1)
            made.op(process, "held", at, back, value=answer, **about, **claims)
        elif kind == "write":
            outcome = random.choices(("ok", "fail", "info"), (8, 1, 1))[0]
            process, at, back = play.turn(who, wait, random.choice((1, 1, 8)), outcome)
            play.writes.append((back, at, outcome, process, key, grant, fence))
    if random.random() < 0.7:
        outcome = random.choices(("ok", "fail", "info"), (6, 1, 1))[0]
        error = {"error": random.choice(("not-held", "timeout"))} if outcome == "fail" else {}
        process, at, back = play.turn(who, random.choice((1, 5, 20)), random.choice((1, 4)), outcome)
        made.release(process, grant, at, back, outcome, key=key, **error)


def _writes(play: _Play) -> None:
    """Writes get their versions in the order of their returns."""
    random, versions = play.random, dict[str, int]()
    for back, at, kind, process, key, grant, fence in sorted(play.writes):
        current = versions.get(key, 0)
        based = max(0, current - random.choice((0, 0, 0, 0, 1, 2)))
        version = current + 1 if kind == "ok" else None
        versions[key] = version or current
        play.made.write(process, grant, at, back, based, version, kind, key=key, fence=fence)
        if random.random() < 0.2:
            play.made.read("dave", grant, back + 0.01, back + 0.02, versions[key])


def _faults(random: Random, made: HistoryBuilder) -> None:
    for number in range(random.choice((0, 0, 1, 2))):
        f = random.choice(("jump", "crash", "pause", "partition", "drift"))
        targets = [random.choice(CLIENTS)] if f == "pause" else random.sample(NODES, random.choice((1, 1, 2)))
        at = random.randint(0, 80) + 0.25
        until = at + random.choice((5, 40)) if random.random() < 0.6 else None
        breaks = BREAKS.get(f) if random.random() < 0.7 else None
        made.fault(
            f, at, targets, until=until, breaks=breaks, receipt=random.random() < 0.9, name=f"f{number}"
        )
    if random.random() < 0.3:
        made.stall(random.choice((*CLIENTS, "lab")), random.randint(0, 60), random.choice((8, 30)))


def watched(random: Random) -> HistoryBuilder:
    """Leases of which the nodes were watched: commands on their keys, and looks at them."""
    made = HistoryBuilder(**_params(random))
    at, look = 0.0, 0
    for number in range(random.randint(2, 5)):
        who, token, ttl = random.choice(CLIENTS), f"t{number}", random.choice((40, 90))
        asked = random.sample(NODES, random.choice((1, 2, 3, 3)))
        made.acquire(f"{who}/{number}", f"g{number}", at, at + 6, ttl=ttl, token=token)
        for place, node in enumerate(asked):
            look += 1
            ran = at + 1 + place
            words = f"SET k {token} NX PX {ttl}"
            _seen(made, "key-set", node, ran, look, words, token=token, ttl_left_ns=round((ttl - 1) * MS))
        end = at + random.choice((10, 30, 60, 95))
        words = random.choice(("DEL k", f"EVAL x 1 k {token}", "PEXPIRE k 1", "SET k other", ""))
        for node in asked:
            look += 1
            f = "key-deleted" if random.random() < 0.7 else "key-observed"
            more: dict[str, Any] = {} if f == "key-deleted" else {"token": token, "ttl_left_ns": 5 * MS}
            _seen(made, f, node, end, look, words, **more)
        if random.random() < 0.4:
            made.release(f"{who}/{number}", f"g{number}", end - 2, end + 2)
        at = end + random.choice((-20, -3, 3, 10)) if end > 25 else end + 3
    for node in NODES:
        made.lab("node-left", at + 200, "info", node=node)
        made._events[-1].process = "node"
    _faults(random, made)
    return made


def _seen(made: HistoryBuilder, f: str, node: str, ran: float, look: int, words: str, **fields: Any) -> None:
    command = {"command": words, "seen_ns": round((ran + 1.5) * MS), "after": look - 3}
    command["ran_ns"] = [round(ran * MS), round((ran + 0.5) * MS)]
    value = {"asked_ns": round((ran + 1) * MS), "answered_ns": round((ran + 2) * MS), "look": look}
    made.lab(f, ran + 2.1, "info", node=node, key="k", **fields)
    made._events[-1].value = value | {"commands": [command] if words else []}
    made._events[-1].process = "node"


def mutex(random: Random) -> HistoryBuilder:
    """Mutexes as other tools record them: tries, releases, nothing that names a grant."""
    models = ("mutex", "owner-mutex", "reentrant-mutex", "fenced-mutex", "reentrant-fenced-mutex")
    model = random.choice(models)
    more = {"depth": random.choice((1, 2, 3))} if model.startswith("reentrant") else {}
    made = HistoryBuilder(model=model, clients=CLIENTS, refusals=["taken"], **more)
    busy, life = dict.fromkeys(CLIENTS, 0.0), dict.fromkeys(CLIENTS, 1)
    depth, fence = dict.fromkeys(CLIENTS, 0), 0
    for _ in range(random.randint(3, 14)):
        who = random.choice(CLIENTS)
        call = max(busy[who], max(busy.values()) - random.choice((0, 0, 2, 9))) + 1
        back = call + random.choice((1, 3, 8))
        kind = random.choices(("ok", "fail", "info"), (8, 2, 1))[0]
        held = any(depth.values())
        f = "release" if depth[who] and random.random() < 0.7 else "acquire"
        if held and not depth[who] and kind == "ok" and random.random() < 0.8:
            kind = "fail"
        error: dict[str, Any] = (
            {"error": random.choice(("taken", "taken", "timeout"))} if kind == "fail" else {}
        )
        if f == "acquire" and kind == "ok" and "fenced" in model:
            fence += random.choice((1, 1, 1, 0, -1))
            error = {"fence": fence}
        made.op(f"{who}/{life[who]}", f, call, None if kind == "info" else back, kind, **error)
        busy[who] = back
        life[who] += kind == "info"
        depth[who] = (
            0 if kind == "info" else max(0, depth[who] + (kind == "ok") * (1 if f == "acquire" else -1))
        )
    return made


def shared(random: Random) -> HistoryBuilder:
    """Semaphores and read-write locks."""
    model = random.choice(("semaphore", "read-write-lock"))
    more: dict[str, Any] = {"permits": random.choice((1, 2, 3))} if model == "semaphore" else {}
    made = HistoryBuilder(**_params(random, model=model, refusals=["taken"], **more))
    wants = (1, 1, 2) if model == "semaphore" else ("read", "read", "write")
    named = random.random() < 0.6
    at = 0.0
    for number in range(random.randint(3, 9)):
        who, at = random.choice(CLIENTS), at + random.choice((0.5, 4, 9))
        kind = random.choices(("ok", "fail", "info"), (8, 2, 1))[0]
        reported: dict[str, Any] = {"error": "taken"} if kind == "fail" else {}
        reported |= {"grant_id": f"g{number}"} if named else {}
        ttl = random.choice((None, 20)) if named else None
        asked: dict[str, Any] = {"value": random.choice(wants)} | ({"ttl_ns": ttl * MS} if ttl else {})
        key = random.choice(("k", "k", "l"))
        made.op(f"{who}/{number}", "acquire", at, at + 3, kind, asked=asked, key=key, **reported)
        if kind == "ok" and random.random() < 0.7:
            over = at + random.choice((4, 10, 25))
            made.op(f"{who}/{number}", "release", over, over + 1, key=key, **reported)
    return made


def election(random: Random) -> HistoryBuilder:
    """Leaders of two groups."""
    made = HistoryBuilder(model="leader-election", clients=CLIENTS, epsilon_ns=random.choice((0, MS)))
    term, at = 1, 0.0
    for number in range(random.randint(2, 8)):
        at += random.choice((0, 1, 5))
        term += random.choice((1, 1, 0, -1))
        kind = random.choices(("ok", "info"), (6, 1))[0]
        key = random.choice(("k", "k", "l"))
        who = random.choice(CLIENTS)
        made.acquire(f"{who}/{number}", f"g{number}", at, at + 3, kind, ttl=None, fence=term, key=key)
    return made


def queue(random: Random) -> HistoryBuilder:
    """Locks that promise an order, or to come back in time, or to break circles of waiting clients."""
    made = HistoryBuilder(
        **_params(random, fifo_ns=random.choice((0, 5)) * MS, wait_slack_ns=10 * MS),
        breaks_deadlocks=random.random() < 0.5,
    )
    keys = ("k", "l")
    free = dict.fromkeys(keys, 0.0)
    for number in range(random.randint(4, 9)):
        who, key = random.choice(CLIENTS), random.choice(keys)
        call = number * 6 + random.choice((0, 1, 4))
        kind = random.choices(("ok", "fail", "info"), (6, 2, 1))[0]
        back = max(call + 1, free[key] + random.choice((1, 2, -8)))
        wait = random.choice((None, 10, 40))
        asked = {} if wait is None else {"wait_ns": wait * MS}
        error = {"refused_by": 3} if kind == "fail" else {}
        name: dict[str, Any] = {"grant_id": f"g{number}", "key": key}
        made.op(f"{who}/{number}", "acquire", call, max(back, call + 1), kind, asked=asked, **name, **error)
        if kind == "ok":
            free[key] = max(back, call + 1) + random.choice((3, 12, 40))
            made.op(f"{who}/{number}", "release", free[key], free[key] + 1, **name)
    if random.random() < 0.5:
        made.stall(random.choice(CLIENTS), random.randint(0, 50), 20)
    return made.op("alice/99", "read", 400, 401)


def demand(random: Random) -> HistoryBuilder:
    """A lock that nobody gets for long: refusals, silence, nodes that are down."""
    made = HistoryBuilder(**_params(random, unavailable_ns=random.choice((40, 90)) * MS))
    made.acquire("alice", "g", 0, 2, ttl=random.choice((30, 60, None)))
    if random.random() < 0.5:
        made.release("alice", "g", 10, 12, random.choice(("ok", "info")))
    at = 15.0
    for number in range(random.randint(2, 10)):
        who = random.choice(CLIENTS[1:])
        at += random.choice((4, 9, 30))
        kind = random.choices(("fail", "info", "ok"), (8, 1, 1))[0]
        reported = {"refused_by": random.choice((0, 2, 3, None))} if kind == "fail" else {}
        made.acquire(
            f"{who}/{number}", f"h{number}", at, at + random.choice((2, 8, 20)), kind, ttl=40, **reported
        )
    _faults(random, made)
    return made.op("carol/99", "read", at + random.choice((5, 120, 300)), at + 301)


def register(random: Random) -> HistoryBuilder:
    """A register that is read, written, and compared and set."""
    made = HistoryBuilder(model="cas-register", clients=CLIENTS, initial=random.choice((0, None)))
    busy, life = dict.fromkeys(CLIENTS, 0.0), dict.fromkeys(CLIENTS, 1)
    value: int | None = made.params.initial  # type: ignore[assignment]  # always given above
    for number in range(random.randint(3, 12)):
        who = random.choice(CLIENTS)
        call = busy[who] + random.choice((1, 3))
        back = call + random.choice((1, 5))
        busy[who] = back
        f = random.choice(("read", "write", "cas"))
        kind = random.choices(("ok", "info"), (8, 1))[0]
        key = random.choice(("k", "k", "k", "l"))
        process = f"{who}/{life[who]}"
        life[who] += kind == "info"
        if f == "read":
            made.op(
                process, "read", call, back, kind, key=key, value=value if random.random() < 0.9 else number
            )
        elif f == "write":
            value = number
            made.op(process, "write", call, back, kind, asked={"value": number}, key=key)
        else:
            fits = random.random() < 0.7
            asked = {"value": [value if fits else 99, number]}
            value = number if fits and kind == "ok" else value
            made.op(process, "cas", call, back, kind if fits else "fail", asked=asked, key=key)
    return made


FAMILIES: tuple[Callable[[Random], HistoryBuilder], ...] = (
    lease,
    lease,
    lease,
    session,
    watched,
    mutex,
    shared,
    queue,
    demand,
    lease,
    watched,
    mutex,
    election,
    register,
)
