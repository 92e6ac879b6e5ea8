"""What kind of lock this is: which nodes it really asks, and which reference it is to be compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec import structs

from lab.batch.for_lock import REFERENCES, Kind, Reference
from lab.batch.plan import Selection
from lab.drivers import PREFIX, is_driver
from lab.drivers.place import place_for, why_not_in_virtual_time
from lab.drivers.registry import row
from lab.durations import UNITS_NS
from lab.errors import LabError
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.locks import lock_class, refuse_alone, refused_options, service_of
from lab.locks.base import OptionValue
from lab.redis_model.model import modelled
from lab.run.lock_properties import properties_of
from lab.scenario.files import ordinary_names
from lab.scenario.load import load_scenario
from lab.scenario.triggers import at_start, on
from lab.scenario.types import NODE_NAMES
from lab.search.faults import FOR_GOOD, timed_fault
from lab.search.runner import Outcome, run_trial, trials
from lab.search.space import DEFAULT, one_of
from lab.search.trial import START_NS, Round, Trial
from lab.substrates import AUTO

OPENING: Final = frozenset(
    (
        "HELLO",
        "AUTH",
        "SELECT",
        "CLIENT",
        "PING",
        "ECHO",
        "INFO",
        "ROLE",
        "COMMAND",
        "SCRIPT",
        "READONLY",
        "QUIT",
    )
)
"""What clients send when they open a connection, or make ready, whatever they do then."""
HELD_NS: Final = 50 * UNITS_NS["ms"]
SOON_NS: Final = 15 * UNITS_NS["ms"]
WAITS_NS: Final = 60 * UNITS_NS["s"]
"""A lock that refuses no acquire of a held lock within this time waits for it."""


def nodes_asked(lock: str, server: str = "") -> tuple[str, ...]:
    """The nodes on which a lock does anything when one client takes it once, and nothing goes wrong.

    A connection alone does not count. It is asked in virtual time, and not inside ``trials``.

    Raises:
        LabError: no such lock, or options that it does not have.
        SimulationError: the lock's code reached out of the simulation.
        UnknownOutcome: the lock failed in a way of its own.
    """
    trial = Trial(lock, {"alice": (Round(0, HELD_NS),)}, nodes=DEFAULT.nodes, ttl_ns=DEFAULT.ttl_ns)
    trial = structs.replace(trial, server=server)
    with trials("resp"):
        return _asked(run_trial(trial, "resp", watch=True))


def asks_at_once(lock: str, server: str = "") -> bool:
    """Whether a lock asks all its nodes before one has answered: where none answers, it has asked them soon.

    Soon is sooner than any time-out for one node. One that asks nothing before its connections are answered
    is taken for one that does. Raises as ``nodes_asked`` does.
    """
    nodes = DEFAULT.nodes
    silence = timed_fault(Hold, at_start(), "alice", NODE_NAMES[:nodes], 0, FOR_GOOD, "replies")
    alice: dict[str, tuple[Round, ...]] = {"alice": (Round(0, HELD_NS),)}
    trial = Trial(lock, alice, (silence,), nodes=nodes, ttl_ns=DEFAULT.ttl_ns, horizon_ns=START_NS + SOON_NS)
    trial = structs.replace(trial, server=server)
    with trials("resp"):
        asked = _asked(run_trial(trial, "resp", watch=True))
    return len(asked) != 1


def refusals(lock: str) -> dict[str, int | None]:
    """After how long a lock refuses while another client holds it, by the scenarios that presuppose it.

    In nanoseconds; None: it waits. It is asked with the options of the scenario that it has. Raises as
    ``nodes_asked`` does.
    """
    asked: dict[tuple[int, str], int | None] = {}
    found: dict[str, int | None] = {}
    with trials("resp"):
        for name in ordinary_names():
            scenario = load_scenario(name).scenario
            if scenario.presupposes.refuses_within_ns is None:
                continue
            refused = refused_options(lock, scenario.lock.ttl_ns, scenario.lock.options)
            options = {each: value for each, value in scenario.lock.options.items() if each not in refused}
            key = scenario.lock.ttl_ns, repr(options)
            if key not in asked:
                asked[key] = refuses_after_ns(lock, scenario.lock.ttl_ns, options)
            found[name] = asked[key]
    return found


def refuses_after_ns(lock: str, ttl_ns: int, options: Mapping[str, OptionValue]) -> int | None:
    """After how long an acquire of Bob's is refused while Alice's keys stay; None: not within a minute.

    The clocks of all nodes go back when Alice is granted the lock, so that her keys outlast her lease. A lock
    that grants Bob what Alice holds does not wait either: the time of that answer counts. Only inside
    ``trials``.
    """
    nodes = NODE_NAMES[: DEFAULT.nodes]
    stays = timed_fault(Jump, on("alice", "granted"), nodes=nodes, by_ns=-2 * WAITS_NS)
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(0, SOON_NS, ends="keep"),),
        "bob": (Round(HELD_NS, SOON_NS),),
    }
    trial = Trial(
        lock, clients, (stays,), DEFAULT.nodes, ttl_ns=ttl_ns, options=dict(options), horizon_ns=WAITS_NS
    )
    times: dict[tuple[str, str], int] = {}
    for event in run_trial(trial, "resp").events:
        if event["f"] == "acquire" and event.get("client") in clients:
            times[event["client"], event["type"]] = event["time_ns"]
    lost_ns = times.get(("alice", "ok"), 0) + ttl_ns
    granted_ns = times.get(("bob", "ok"), lost_ns)
    answered_ns = times.get(("bob", "fail"), granted_ns if granted_ns < lost_ns else None)
    return None if answered_ns is None else answered_ns - times["bob", "invoke"]


def _asked(outcome: Outcome) -> tuple[str, ...]:
    """The nodes that executed more than what opens a connection."""
    return tuple(sorted({entry.node for entry in outcome.commands if entry.name not in OPENING}))


def kind_of(lock: str, like: str | None = None, server: str = "") -> Kind:
    """The kind of a lock; ``like`` names the reference to compare it with, by default found by asking it.

    Raises:
        LabError: no such lock or reference, a lock on other servers than Redis, or a driver of which it is
            not known.
    """
    given: Reference | None = None if like is None else one_of("--like", like, REFERENCES)
    service = service_of(lock)
    if service != "redis":
        raise LabError(
            f"{lock} is a lock on {service}",
            where="--for",
            expected="a lock on Redis: the scenarios that are chosen from have Redis nodes",
            hint=f"lab suite SCENARIO… of those that lab list --consensus shows, with --only '*{lock}*'",
        )
    refuse_alone(lock, f"--for {lock}")
    if is_driver(lock):
        return replace(_kind_of_driver(lock, given), server=server)
    own = lock_class(lock)
    asked = nodes_asked(lock, server)
    fences, extends = bool(own.hands_out_fences), bool(getattr(own, "extends", True))
    reference = given or _reference(len(asked), fences=fences)
    at_once = reference == "single" or asks_at_once(lock, server)
    return Kind(reference, fences, extends, asked, at_once, server, refusals(lock))


def with_kind(selection: Selection, like: str | None, server: str = "") -> Selection:
    """The selection with the kind of the lock that it is for, which is asked. Raises ``LabError``."""
    if selection.for_lock is None:
        if like is not None:
            raise LabError(f"--like {like} without a lock", expected="--for LOCK --like REFERENCE")
        return selection
    if selection.what or selection.choice or selection.survey:
        raise LabError(
            "--for together with scenarios, a set of them, or --matrix",
            expected="either one or the other",
            hint="--only chooses of the scenarios that apply",
        )
    if server and selection.on == "sim":
        modelled(server, "--server")
        return replace(selection, kind=kind_of(selection.for_lock, like, server))
    # Not every real server has a model: what the lock is, is asked on the default one.
    kind = kind_of(selection.for_lock, like)
    return replace(selection, kind=replace(kind, server=server))


def _kind_of_driver(lock: str, given: Reference | None) -> Kind:
    """A driver is asked in virtual time, if it can run there, and says itself what it can do.

    Without that, its row or ``given`` says how many nodes it asks.
    """
    asked: tuple[str, ...] | None = None
    at_once, refuses = True, dict[str, int | None]()
    why_not = why_not_in_virtual_time(lock)
    if why_not is None:
        try:
            asked = nodes_asked(lock) or None
            at_once = len(asked or ()) < 2 or asks_at_once(lock)
            refuses = refusals(lock)
        except LabError as error:
            why_not = error.seen
    if asked is None and given is None and not lock.startswith(PREFIX):
        raise LabError(
            f"how many nodes does {lock} ask? It cannot be asked in virtual time"
            + (f": {why_not}" if why_not else ""),
            where=f"--for {lock}",
            expected=f"--like {', '.join(REFERENCES)}: the lock of the lab that is of its kind",
            hint="single asks one node, redlock a majority, redlock-fenced also hands out fences",
        )
    learned = properties_of(lock, DEFAULT.ttl_ns, {}, place_for(AUTO, lock))
    of_row = row(lock.removeprefix(PREFIX)).nodes if lock.startswith(PREFIX) else None
    used = len(asked) if asked is not None else of_row or DEFAULT.nodes
    reference = given or _reference(used, fences=learned.hands_out_fences)
    return Kind(reference, learned.hands_out_fences, learned.extends, asked, at_once, refuses=refuses)


def _reference(asked: int, *, fences: bool) -> Reference:
    if asked <= 1:
        return "single"
    return "redlock-fenced" if fences else "redlock"
