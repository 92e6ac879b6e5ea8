"""Drawn histories with a few changes: a stamp that meets another one, a field that is absent or another's.

Many of them are of no lock that could be built. What the checker says of them is recorded all the same: in
most branches that no whole history reaches, one of these does.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, get_args

import msgspec

from checker.history.events import Event, Params
from tests.fuzz import renamed
from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.checker.drawn import FAMILIES, NODES, drawn_builder
from tests.unit.checker.drawn_grid import FAMILIES as GRID_FAMILIES
from tests.unit.checker.drawn_grid import grid_builder

_FIELDS: Final = (
    *("client", "key", "grant_id", "token", "fence", "ttl_ns", "claimed_ns", "attempt_ns", "deadline_ns"),
    *("wait_ns", "version_read", "version_written", "value", "error", "refused_by", "breaks", "heals"),
)
_FAULTS: Final = (
    *("jump", "drift", "strobe", "jump-client", "drift-client", "crash", "shutdown", "power_cut", "restart"),
    *("failover", "promote", "partition", "pause", "stop", "client_crash", "client-crash"),
)
_WORDS: Final = (
    "DEL k",
    "PEXPIRE k 1",
    "SET k t0 NX PX 40",
    "EVALSHA x 1 k t1",
    "FLUSHALL",
    "GET k",
    "UNLINK k",
)
_PARAMS: Final[dict[str, tuple[Any, ...]]] = {
    "rho": (0.0, 0.02, 0.3),
    "delta_ns": (0, 1, 3 * MS),
    "epsilon_ns": (0, 1, MS, 7 * MS),
    "store_fences": (True, False),
    "lock_fences": (None, True, False),
    "nodes": (None, 1, 2, 5),
    "quorum": (None, 1, 2),
    "grace_ns": (0, 5 * MS, 60 * MS),
    "unavailable_ns": (None, 0, 20 * MS, 60 * MS),
    "single_attempt": (True, False),
    "stall_ns": (0, 5 * MS, 40 * MS),
    "depth": (None, 1, 2),
    "refusals": ([], ["taken"], ["timeout"]),
    "permits": (None, 1, 2),
    "fifo_ns": (None, 0, 3 * MS),
    "wait_slack_ns": (0, 5 * MS),
    "breaks_deadlocks": (True, False),
    "initial": (0, "x", None),
}


def changed_builder(number: int) -> HistoryBuilder:
    """The history of this number."""
    random = Random(number)
    base = (drawn_builder if random.random() < 0.6 else grid_builder)(random.randrange(100 * len(_BASES)))
    made = HistoryBuilder()
    made.params = _params(random, base.params)
    made._events = [msgspec.structs.replace(event) for event in base.events()]
    for _ in range(random.choice((0, 1, 1, 2, 3, 5))):
        if made._events:
            random.choice(_CHANGES)(random, made._events)
    if random.random() < 0.5:  # a recorder whose clock did not begin with the history
        _later(made._events, random.choice((3, 40_000)) * MS + 123_457)
    return made


def numbered_builder(number: int) -> HistoryBuilder:
    """A history in which only process numbers are recorded, of a correct lock or with a change."""
    random = Random(number)
    kinds = get_args(renamed.Kind)
    drawn = renamed.draw(random, kinds[number % len(kinds)], random.choice((8, 16, 30)))
    made = HistoryBuilder()
    made.params = drawn.params
    made._events = [msgspec.structs.replace(event) for event in drawn.events()]
    for _ in range(random.choice((0, 0, 1, 2))):
        random.choice((_moved, _copied, _dropped, _ended, _numbered))(random, made._events)
    return made


def _later(events: list[Event], by: int) -> None:
    for event in events:
        event.time_ns += by
        for name in ("start_ns", "attempt_ns", "deadline_ns"):
            at = getattr(event, name)
            setattr(event, name, None if at is None else at + by)
        if isinstance(event.value, dict):
            commands = [
                {
                    **command,
                    **{name: command[name] + by for name in ("seen_ns",) if name in command},
                    "ran_ns": [at + by for at in command["ran_ns"]],
                }
                for command in event.value.get("commands", [])
            ]
            asked = {name: event.value[name] + by for name in ("asked_ns", "answered_ns")}
            event.value = {**event.value, **asked, "commands": commands}


_BASES: Final = (*FAMILIES, *GRID_FAMILIES)


def _params(random: Random, params: Params) -> Params:
    for _ in range(random.choice((0, 0, 1, 2))):
        name = random.choice(list(_PARAMS))
        params = msgspec.structs.replace(params, **{name: random.choice(_PARAMS[name])})
    return params


def _moved(random: Random, events: list[Event]) -> None:
    """One event at the stamp of another, or a nanosecond beside it."""
    event, other = random.choice(events), random.choice(events)
    event.time_ns = max(0, other.time_ns + random.choice((-1, 0, 0, 1)))


def _shifted(random: Random, events: list[Event]) -> None:
    """What a process does, all of it earlier or later."""
    process = random.choice(events).process
    by = random.choice((-20, -5, -1, 1, 5, 20)) * random.choice((1, MS))
    for event in events:
        if event.process == process:
            event.time_ns = max(0, event.time_ns + by)


def _cleared(random: Random, events: list[Event]) -> None:
    """A field is absent, from one event or from all."""
    name, chosen = random.choice(_FIELDS), random.choice(events)
    for event in events if random.random() < 0.3 else (chosen,):
        setattr(event, name, None)


def _copied(random: Random, events: list[Event]) -> None:
    """A field is that of another event."""
    name = random.choice((*_FIELDS, "f", "node"))
    having = [event for event in events if getattr(event, name) is not None]
    if having:
        setattr(random.choice(events), name, getattr(random.choice(having), name))


def _dropped(random: Random, events: list[Event]) -> None:
    """An event is missing."""
    del events[random.randrange(len(events))]


def _ended(random: Random, events: list[Event]) -> None:
    """A completion of another type."""
    done = [event for event in events if event.type != "invoke"]
    if done:
        random.choice(done).type = random.choice(("ok", "fail", "info"))


def _numbered(random: Random, events: list[Event]) -> None:
    """A number that is one more or less."""
    event, name = random.choice(events), random.choice(("fence", "version_read", "version_written", "ttl_ns"))
    value = getattr(event, name)
    if value is not None:
        setattr(event, name, value + random.choice((-1, 1)))


def _struck(random: Random, events: list[Event]) -> None:
    """One more fault, at the instant of an event."""
    f = random.choice(_FAULTS)
    at = random.choice(events).time_ns / MS - random.choice((0, 0.5, 3))
    who = random.choice((random.sample(NODES, random.choice((1, 2))), ["alice"], ["bob", "carol"]))
    until = None if random.random() < 0.5 else at + random.choice((1, 10, 40))
    breaks = random.choice((None, "bounded clock error", "durable nodes", "bounded process pauses"))
    made = HistoryBuilder().fault(
        f, max(0.0, at), who, until=until, breaks=breaks, receipt=random.random() < 0.9
    )
    for event in made.events():
        event.fault_id = f"x{len(events)}-{event.fault_id}"
        event.heals = event.heals and f"x{len(events)}-{event.heals}"
    events += made.events()


def _looked(random: Random, events: list[Event]) -> None:
    """What was seen of a node is a little different."""
    looks = [event for event in events if isinstance(event.value, dict)]
    if not looks:
        return
    event = random.choice(looks)
    value = {**event.value, "commands": [dict(one) for one in event.value.get("commands", [])]}
    event.value = value
    if value["commands"] and random.random() < 0.7:
        command = random.choice(value["commands"])
        name = random.choice(("command", "seen_ns", "after", "ran_ns"))
        if name == "command":
            command[name] = random.choice(_WORDS)
        elif name == "ran_ns":
            command[name] = [max(0, at + random.choice((-MS, 1, 20 * MS))) for at in command[name]]
        elif random.random() < 0.3:
            del command[name]
        else:
            command[name] += random.choice((-1, 1, -10 * MS if name == "seen_ns" else 3))
    else:
        name = random.choice(("asked_ns", "answered_ns", "look"))
        value[name] = max(0, value.get(name, 0) + random.choice((-1, 1)) * (1 if name == "look" else 5 * MS))


_CHANGES: Final[tuple[Callable[[Random, list[Event]], None], ...]] = (
    *(_moved, _moved, _moved, _shifted, _cleared, _cleared),
    *(_copied, _copied, _dropped, _ended, _numbered, _struck, _looked),
)
