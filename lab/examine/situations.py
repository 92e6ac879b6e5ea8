"""Situations: one fault in one program, each kind once, in the order in which they tell most.

They are what known defects of libraries need, in general terms: a reply that is lost, a request that arrives
when the lease is over, a node that is away, two clients that share the nodes between them. A slow lock (a
driver is a real process) gets through them where it gets through a few hundred schedules only. So those of a
driver take turns by what each sort has found per second: situations.yaml has what was measured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from lab.drivers import is_driver
from lab.errors import UnknownOutcome
from lab.examine.anchored import two_tasks
from lab.examine.beyond import fast_clocks
from lab.examine.boundaries import SHORT_NS
from lab.examine.crossing_extensions import crossing_extensions
from lab.examine.directed import (
    after_a_first_answer,
    beside_another_lock,
    between_two_commands,
    calls_that_come_late,
    cancelled_under_way,
    cancelled_undo,
    late_answers,
    lost_majority,
    lost_votes,
    overtaken,
    renewed_too_late,
)
from lab.examine.evidence import NEVER, Operation
from lab.examine.few_tokens import few_tokens
from lab.examine.kinds import Kind, longest_wait_ns
from lab.examine.long_after import long_after
from lab.examine.other_ttls import other_ttls
from lab.examine.probes import Profile
from lab.examine.programs import AFTER_ANOTHER, ALICE, BOB, MS_NS, S_NS, Program, Setting
from lab.examine.reentrant import taken_again
from lab.examine.roles import in_roles
from lab.examine.seen import Seen
from lab.examine.sharing import apart_at_open, disjoint, shared
from lab.examine.slow_replies import slow_replies
from lab.faults.answers import Answers
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.triggers import Trigger, at_start, on
from lab.search.faults import FOR_GOOD, lasting, timed_fault, with_fields
from lab.search.runner import run_trial
from lab.search.trial import START_NS, Round, Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS

T = TypeVar("T")
SITUATIONS: Final = "situations, one fault each"
"""What they are called as a part of an examination."""
LONG_TTL_NS: Final = 60 * S_NS
"""A lease that outlives the time-outs of a client library."""
PATIENCE: Final = {"answer_within": "300s"}
"""How long the lab waits for a driver's answer where leases are long."""
SHORT_TTLS_NS: Final = (700 * MS_NS, 1500 * MS_NS)
SHORT_LEASES: Final = ("kept", "contend", "whole lease", "extended")
"""The programs without faults that are tried with short leases, too."""
UNDER_WAY_NS: Final = 100_000
"""So long after it was sent a request is still under way."""
ASKS: Final = "acquire invoke"
EXTENDS: Final = "extend invoke"
OPERATIONS: Final = ("acquire", "extend", "release")


@dataclass(frozen=True)
class _Usual:
    """A usual course, in which everybody has worked once before Alice's second turn, and when she sends what.

    ``sends``: by operation of her second turn, which of her sendings went to which nodes.
    """

    trial: Trial
    sends: dict[str, list[tuple[int, tuple[str, ...]]]]

    def when(self, f: str, nodes: tuple[str, ...], after_ns: int = 0) -> Trigger | None:
        """The moment in which an operation sends to some of these nodes for the first time."""
        found = (nth for nth, targets in self.sends.get(f, ()) if set(targets) & set(nodes))
        nth = next(found, None)
        return None if nth is None else on(ALICE, "sends", nth, after_ns)

    def last(self, f: str) -> Trigger | None:
        """Just after the last sending of an operation."""
        sent = self.sends.get(f)
        return on(ALICE, "sends", sent[-1][0], UNDER_WAY_NS) if sent else None


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many known defects of libraries the situations of one sort show, and the processor time of all."""

    defects: int
    seconds: float


MEASURED: Final = Path(__file__).with_suffix(".yaml")
RATES: Final = msgspec.yaml.decode(MEASURED.read_bytes(), type=dict[str, Found])
"""What each sort has found, as ``python -m tests.local.known_defects --situations`` measured it."""


def situations(setting: Setting, profile: Profile, programs: tuple[Program, ...]) -> Iterator[Trial]:
    """All of them, the sorts in turns; only inside ``trials``."""
    rates = RATES if is_driver(setting.lock) else {}
    known: set[bytes] = set()
    for trial in in_roles(setting.capacity, in_turns(sorts(setting, profile, programs), rates)):
        if trial.key() not in known:
            known.add(trial.key())
            yield trial


def in_turns(of: Mapping[str, Iterator[T]], rates: Mapping[str, Found]) -> Iterator[T]:
    """One of each sort after the other; one that finds four times as much per second has two turns for one.

    By the square root, since what is sought is shown by one sort and not by another, and nobody knows by
    which: turns in proportion to the rates keep what the poorer sorts show waiting for too long. One find at
    the average rate is added to what was measured of a sort; one that was not measured has the average.
    """
    total_s = sum(each.seconds for each in rates.values()) or 1.0
    find_s = total_s / (sum(each.defects for each in rates.values()) or 1)
    nothing = Found(0, 0.0)

    def weight(sort: str) -> float:
        found = rates.get(sort, nothing)
        return math.sqrt((found.defects + 1) / (found.seconds + find_s))

    left, given = dict(of), dict.fromkeys(of, 0)
    while left:
        sort = min(left, key=lambda each: (given[each] + 1) / weight(each))
        trial = next(left[sort], None)
        given[sort] += 1
        if trial is None:
            del left[sort]
        else:
            yield trial


def sorts(setting: Setting, profile: Profile, programs: tuple[Program, ...]) -> dict[str, Iterator[Trial]]:
    """All situations, by their sort; only inside ``trials``."""
    kind, driver = profile.kind, is_driver(setting.lock)
    found: dict[str, Iterator[Trial]] = {"no fault": bare(setting, programs)}
    if kind.quorum:
        found["disjoint nodes"] = chain(shared(setting), disjoint(setting))
        found["apart at open"] = apart_at_open(setting)
        found["lost votes"] = lost_votes(setting)
    found["nodes away"] = away(setting, kind)
    found["clocks"] = chain(clocks(setting, profile), fast_clocks(setting))
    if kind.quorum and profile.extends:
        found["lost majority"] = lost_majority(patient(setting))
        found["crossing extensions"] = crossing_extensions(patient(setting))
    if profile.nested is not None:
        found["taken again"] = taken_again(profile.nested, profile)
    if (limit_ns := longest_wait_ns(setting.lock, setting.options)) is not None:
        found["time-out"] = waited_for(patient(setting), limit_ns)
    if profile.watchdog:
        found["renewal"] = chain(outlived(setting), renewed_too_late(setting))
    if kind.quorum:
        found["overtaken"] = overtaken(setting)
    is_reentrant = not any(program.takes_it_again for program in programs)
    if "tasks" in setting.can and not (profile.watchdog or is_reentrant):
        found["two tasks"] = two_tasks(setting)
    found["late release"] = released_late(setting)
    found["late request"] = after_a_first_answer(setting, extends=profile.extends)
    found["late call"] = calls_that_come_late(setting, extends=profile.extends)
    found["between commands"] = between_two_commands(setting, extends=profile.extends)
    found["another lock"] = beside_another_lock(setting)
    found["late answers"] = late_answers(setting, extends=profile.extends)
    found["late replies"] = chain(late_replies(setting, profile), slow_replies(setting, profile))
    found["lost replies"] = lost_replies(patient(setting), profile)
    if not driver:  # whose timers may tick all the hour
        found["long after"] = long_after(setting)
        found["other leases"] = other_ttls(setting, extends=profile.extends and not profile.watchdog)
    if "cancel" in setting.can:
        found["cancelled"] = cancelled_under_way(setting)
    if kind.quorum and "cancel" in setting.can:
        found["cancelled undo"] = cancelled_undo(setting)
    if not driver:
        found["few tokens"] = few_tokens(setting)
    soon = _usual(setting, profile, takes_over=False)
    late = _usual(setting, profile, takes_over=True)
    for f in OPERATIONS:
        found[f"{f} held up"] = held_up(setting, late, f)
        found[f"{f} lost"] = lost(setting, soon, f)
    return found


def bare(setting: Setting, programs: tuple[Program, ...]) -> Iterator[Trial]:
    """Programs without faults, and in turns with them those that tell something of short leases."""
    extends = any(program.extends for program in programs)
    usual = [setting.trial(program) for program in ((AFTER_ANOTHER, *programs) if extends else programs)]
    short = [
        setting.with_ttl(ttl_ns).trial(program)
        for ttl_ns in SHORT_TTLS_NS
        for name in SHORT_LEASES
        for program in programs
        if program.name == name
    ]
    yield from (trial for pair in zip_longest(usual, short) for trial in pair if trial is not None)


def away(setting: Setting, kind: Kind) -> Iterator[Trial]:
    """Some nodes are down, or silent for one client or both, all the time; on one node for a moment."""
    names = setting.names
    minority = (len(names) - 1) // 2
    for long in (True, False):
        of = patient(setting) if long else setting
        ttl_ns = of.ttl_ns
        clients: dict[str, tuple[Round, ...]] = {
            ALICE: (Round(ttl_ns // 50, ttl_ns // 20), Round(ttl_ns // 5, ttl_ns // 20)),
            BOB: (Round(ttl_ns // 8, ttl_ns // 20),),
        }
        for hit in dict.fromkeys((names[-1:], names[:1], names[len(names) - minority :])):
            if not hit:
                continue
            lasts_ns = 0 if kind.quorum else ttl_ns // 8
            cut = timed_fault(Cut, at_start(), ALICE, hit, lasts_ns=lasts_ns)
            down = tuple(timed_fault(Crash, at_start(), nodes=(name,), lasts_ns=lasts_ns) for name in hit)
            for faults in (down, (cut,), (cut, with_fields(cut, client=BOB))):
                yield of.with_clients(clients, faults)


def clocks(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """Alice's wall clock is stepped while replies are under way, or while she holds the lock."""
    past_ns = setting.ttl_ns + S_NS
    ttl_ns = setting.ttl_ns
    extends = int(profile.extends)
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns * 13 // 10, extends),),
        BOB: (Round(ttl_ns * 105 // 100, ttl_ns // 2), Round(ttl_ns // 5, ttl_ns // 2)),
    }
    calls = (ASKS, EXTENDS) if profile.extends else (ASKS,)
    for nodes in dict.fromkeys((setting.names[-1:], setting.names)):
        for call in calls:
            late = timed_fault(Hold, on(ALICE, call), ALICE, nodes, 0, S_NS // 20, "replies")
            for by_ns in (-past_ns, past_ns):
                jump = timed_fault(Jump, on(ALICE, call, after_ns=S_NS // 40), ALICE, by_ns=by_ns)
                yield setting.with_clients(clients, (late, jump))
                if by_ns < 0:
                    yield _over_meanwhile(setting.with_ttl(SHORT_TTLS_NS[-1]), call, nodes)
    for by_ns in (-past_ns, past_ns):
        yield setting.with_clients(clients, (timed_fault(Jump, on(ALICE, "granted"), ALICE, by_ns=by_ns),))


def _over_meanwhile(setting: Setting, call: str, nodes: tuple[str, ...]) -> Trial:
    """Replies come when Bob has the lock, and Alice's clock was stepped back by more than that.

    Locks that round leases up to whole seconds keep keys of 1.5 s for 2 s: he asks when these are over, too.
    """
    ttl_ns = setting.ttl_ns
    late = timed_fault(Hold, on(ALICE, call), ALICE, nodes, 0, ttl_ns * 18 // 10, "replies")
    jump = timed_fault(Jump, on(ALICE, call, after_ns=S_NS // 40), ALICE, by_ns=-3 * ttl_ns)
    turn = Round(0, ttl_ns // 2, int(call == EXTENDS))
    return setting.with_clients({ALICE: (turn,), BOB: (Round(ttl_ns * 3 // 2, ttl_ns // 2),)}, (late, jump))


def waited_for(setting: Setting, limit_ns: int) -> Iterator[Trial]:
    """Alice holds the lock for longer than Bob's acquire may take."""
    held_ns = setting.ttl_ns * 95 // 100
    if limit_ns < setting.ttl_ns * 9 // 10:
        asks = Round(setting.ttl_ns // 50, setting.ttl_ns // 100)
        clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, held_ns),), BOB: (asks,)}
        yield setting.with_clients(clients, demand=False)


def outlived(setting: Setting) -> Iterator[Trial]:
    """Alice holds a lock that renews itself for some leases; nodes get silent, or her release is lost.

    Or for less than half of a lease they answer with an error: she misses a renewal, and not the next one.
    """
    ttl_ns, names = setting.ttl_ns, setting.names
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, 3 * ttl_ns),),
        BOB: (Round(ttl_ns // 2, ttl_ns // 5), Round(ttl_ns, ttl_ns // 5)),
    }
    brief: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns // 10),),
        BOB: (Round(ttl_ns // 2, ttl_ns // 10),),
    }
    yield setting.with_clients({**clients, ALICE: (Round(0, ttl_ns // 2), Round(ttl_ns // 10, 3 * ttl_ns))})
    busy = timed_fault(Answers, on(ALICE, "granted"), ALICE, names, lasts_ns=ttl_ns * 45 // 100, error="BUSY")
    yield setting.with_clients(clients, (busy,))
    for hit in dict.fromkeys((names[-1:], names)):
        cut = timed_fault(Cut, on(ALICE, "granted"), ALICE, hit)
        yield setting.with_clients(clients, (cut,))
        yield setting.with_clients(clients, (lasting(cut, ttl_ns * 8 // 10),))
        yield setting.with_clients(clients, (timed_fault(Reset, on(ALICE, "granted"), ALICE, hit),))
        gone = timed_fault(Cut, on(ALICE, "release invoke"), ALICE, hit, lasts_ns=ttl_ns // 5)
        yield setting.with_clients(brief, (gone,))
        yield setting.with_clients(brief, (gone, timed_fault(Reset, on(ALICE, "release invoke"), ALICE, hit)))


def released_late(setting: Setting) -> Iterator[Trial]:
    """Alice's second release is under way for a third of a lease; she takes the lock again at once.

    Over another connection she may get it before that release arrives. Bob asks when it has.
    """
    ttl_ns = setting.ttl_ns
    late_ns = ttl_ns * 3 // 10
    turn = Round(0, ttl_ns // 50)
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (turn, turn, Round(0, ttl_ns * 8 // 10)),
        BOB: (Round(late_ns + ttl_ns // 10, ttl_ns // 10),),
    }
    late = timed_fault(
        Delay, on(ALICE, "release invoke", 2), ALICE, setting.names, late_ns, SHORT_NS, "requests"
    )
    yield setting.with_clients(clients, (late,))


def lost(setting: Setting, usual: _Usual | None, f: str) -> Iterator[Trial]:
    """What is lost around an operation, or breaks; the other client asks soon afterwards."""
    for nodes in _sets(setting):
        if usual is None or (when := usual.when(f, nodes)) is None:
            continue
        cut = timed_fault(Cut, when, ALICE, nodes, lasts_ns=SHORT_NS)
        found = [
            with_fields(cut, direction="replies"),
            with_fields(cut, direction="requests"),
            lasting(cut, setting.ttl_ns * 3 // 10),
            timed_fault(Reset, when, ALICE, nodes),
        ]
        if len(nodes) < setting.nodes:
            found.append(lasting(cut, FOR_GOOD))
        if len(nodes) == 1:
            found.append(timed_fault(Crash, when, nodes=nodes, lasts_ns=setting.ttl_ns // 100))
        for fault in found:
            yield replace(usual.trial, faults=(fault,))
    if usual is not None and f in usual.sends:
        dies = timed_fault(ClientCrash, on(ALICE, "granted", 2), ALICE)
        yield replace(usual.trial, faults=(dies,))


def lost_replies(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """With a lease that outlives what a client library does when it is not answered."""
    usual = _usual(setting, profile, takes_over=False)
    for nodes in _sets(setting)[:2]:
        for f in OPERATIONS:
            if usual is not None and (when := usual.when(f, nodes)) is not None:
                cut = timed_fault(Cut, when, ALICE, nodes, lasts_ns=SHORT_NS, direction="replies")
                yield replace(usual.trial, faults=(cut,))


def held_up(setting: Setting, usual: _Usual | None, f: str) -> Iterator[Trial]:
    """What arrives when the lease is over and the other client has the lock."""
    past_ns = setting.ttl_ns * 13 // 10
    if usual is None or (last := usual.last(f)) is None:
        return
    for nodes in _sets(setting):
        when = usual.when(f, nodes)
        if when is None:
            continue
        for way in ("requests", "replies"):
            held = timed_fault(Hold, when, ALICE, nodes, 0, past_ns, way)
            yield replace(usual.trial, faults=(held,))
        if nodes == setting.names:
            yield replace(usual.trial, faults=(timed_fault(Pause, last, ALICE, lasts_ns=past_ns),))
            before = last.model_copy(update={"after_ns": 0})
            yield replace(usual.trial, faults=(timed_fault(Pause, before, ALICE, lasts_ns=past_ns),))


def late_replies(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """With a short lease, which time-outs outlive: replies come when the lease is over."""
    short = setting.with_ttl(SHORT_TTLS_NS[-1])
    usual = _usual(short, profile, takes_over=True)
    for f in ("acquire", "extend"):
        if usual is not None and (when := usual.when(f, setting.names)) is not None:
            past_ns = short.ttl_ns * 13 // 10
            held = timed_fault(Hold, when, ALICE, setting.names, 0, past_ns, "replies")
            yield replace(usual.trial, faults=(held,))


def _sets(setting: Setting) -> list[tuple[str, ...]]:
    """All nodes, the last one, the largest minority of the last ones."""
    names = setting.names
    minority = (len(names) - 1) // 2
    found = (names, names[-1:], names[len(names) - minority :])
    return [nodes for nodes in dict.fromkeys(found) if nodes]


def _usual(setting: Setting, profile: Profile, *, takes_over: bool) -> _Usual | None:
    """The usual course: Bob asks soon after Alice's second turn, or when her lease would be over.

    None if it could not be run.
    """
    ttl_ns, extends = setting.ttl_ns, int(profile.extends)
    short = ttl_ns // 50
    mine = Round(ttl_ns // 10, ttl_ns * 3 // 10 if takes_over else ttl_ns // 16, extends)
    theirs = (
        (Round(ttl_ns * 11 // 10, ttl_ns * 6 // 10), Round(ttl_ns // 10, ttl_ns * 6 // 10))
        if takes_over
        else (Round(ttl_ns * 2 // 10, short),)
    )
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, short, extends), mine),
        BOB: (Round(ttl_ns // 20, short), *theirs),
    }
    trial = setting.with_clients(clients)
    try:
        seen = Seen(run_trial(trial, watch=True))
    except UnknownOutcome:
        return None
    sends = {}
    for f in OPERATIONS:
        done = [each for each in seen.of(ALICE, f) if each.ended_ns != NEVER]
        if len(done) > 1 and (found := _sent(seen, done[1])):
            sends[f] = found
    return _Usual(trial, sends)


def _sent(seen: Seen, operation: Operation) -> list[tuple[int, tuple[str, ...]]]:
    """Which of Alice's sendings made nodes do something for an operation, and to which nodes they went."""
    sendings = seen.outcome.sendings[ALICE]
    start = next((at for at, ns in enumerate(sendings.times_ns) if ns >= START_NS), 0)
    found: dict[int, list[str]] = {}
    for request in seen.during(operation):
        at = max(
            (
                at
                for at, (ns, targets) in enumerate(zip(sendings.times_ns, sendings.targets, strict=True))
                if request.node in targets and ns + MONOTONIC_START_NS <= request.time_ns
            ),
            default=None,
        )
        if at is not None and at >= start:
            found.setdefault(at - start + 1, []).append(request.node)
    return [(nth, tuple(nodes)) for nth, nodes in sorted(found.items())]


def patient(setting: Setting) -> Setting:
    """The same setting with a long lease, and a lab that waits for a driver's answers for longer."""
    options = {**PATIENCE, **setting.options} if is_driver(setting.lock) else setting.options
    return dataclasses.replace(setting, options=options).with_ttl(LONG_TTL_NS)
