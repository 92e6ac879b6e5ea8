"""Situations: one fault in one program, each kind once, in the order in which they tell most.

They are what known defects of libraries need, in general terms: a reply that is lost, a request that arrives
when the lease is over, a node that is away, two clients that share the nodes between them. A slow lock (a
driver is a real process) gets through them where it gets through a few hundred schedules only. So those of a
driver take turns by what each sort has found per second: situations.yaml has what was measured.
"""

from __future__ import annotations

import contextlib
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
from lab.examine.kinds import Kind, longest_wait_ns
from lab.examine.profile.probes import Profile
from lab.examine.programs import AFTER_ANOTHER, ALICE, BOB, MS_NS, PROGRAMS, S_NS, Program, Setting, split
from lab.examine.schedules.anchored import two_tasks
from lab.examine.schedules.beyond import fast_clocks
from lab.examine.schedules.boundaries import SHORT_NS
from lab.examine.schedules.building import later
from lab.examine.schedules.directed import (
    after_a_first_answer,
    asked_in_between,
    beside_another_lock,
    beside_longer_ones,
    between_two_commands,
    calls_that_come_late,
    cancelled_under_way,
    cancelled_undo,
    cut_off_while_it_waits,
    extended_again,
    late_answers,
    lost_majority,
    lost_votes,
    overtaken,
    refused_before,
    released_before_it_waits,
    renewed_too_late,
    undone_too_late,
)
from lab.examine.schedules.reentrant import taken_again
from lab.examine.schedules.roles import in_roles
from lab.examine.schedules.slow_replies import slow_replies
from lab.examine.violations.evidence import NEVER, Evidence, Operation
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
from lab.scenario.types import NODE_NAMES
from lab.search.faults import FOR_GOOD, lasting, timed_fault, with_fields
from lab.search.runner import ZERO_NS, Event, run_trial
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

    def when(self, f: str, nodes: tuple[str, ...]) -> Trigger | None:
        """The moment in which an operation sends to some of these nodes for the first time."""
        found = (nth for nth, targets in self.sends.get(f, ()) if set(targets) & set(nodes))
        nth = next(found, None)
        return None if nth is None else on(ALICE, "sends", nth)

    def last_round(self, f: str, nodes: tuple[str, ...]) -> Trigger | None:
        """The moment in which an operation first sends to one of these nodes what it asks it last.

        An operation that looks first and sets then has a round of answers before the one that counts.
        """
        last = {name: nth for nth, targets in self.sends.get(f, ()) for name in targets if name in nodes}
        return on(ALICE, "sends", min(last.values())) if last else None

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
        found["late undo"] = undone_too_late(setting)
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
    if "tasks" in setting.can and not (profile.watchdog or setting.reentrant):
        found["two tasks"] = two_tasks(setting)
    found["cut off"] = cut_off_while_it_waits(setting)
    found["about to wait"] = released_before_it_waits(setting)
    found["asked before"] = refused_before(setting, extends=profile.extends)
    if profile.extends and not profile.watchdog:
        found["extended again"] = extended_again(setting)
    found["late release"] = released_late(setting)
    found["late request"] = after_a_first_answer(setting, extends=profile.extends)
    found["late call"] = calls_that_come_late(setting, extends=profile.extends)
    found["between commands"] = between_two_commands(setting, extends=profile.extends)
    found["asked in between"] = asked_in_between(setting)
    found["another lock"] = beside_another_lock(setting)
    found["late answers"] = late_answers(setting, extends=profile.extends)
    found["late replies"] = chain(late_replies(setting, profile), slow_replies(setting, profile))
    found["lost replies"] = lost_replies(patient(setting), profile)
    if not driver:  # whose timers may tick all the hour
        found["long after"] = long_after(setting)
        found["other leases"] = chain(
            beside_longer_ones(setting),
            other_ttls(setting, extends=profile.extends and not profile.watchdog),
        )
    if "cancel" in setting.can:
        found["cancelled"] = cancelled_under_way(setting)
    if kind.quorum and "cancel" in setting.can:
        found["cancelled undo"] = cancelled_undo(setting)
    if not driver:
        found["few tokens"] = few_tokens(setting)
    soon = _usual(setting, profile, takes_over=False)
    late = _usual(setting, profile, takes_over=True)
    found["last round lost"] = last_round_lost(setting, late)
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
        clients = {
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
    clients = {
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
        clients = {ALICE: (Round(0, held_ns),), BOB: (asks,)}
        yield setting.with_clients(clients, demand=False)


def outlived(setting: Setting) -> Iterator[Trial]:
    """Alice holds a lock that renews itself for some leases; nodes get silent, or her release is lost.

    Or for less than half of a lease they answer with an error: she misses a renewal, and not the next one.
    """
    ttl_ns, names = setting.ttl_ns, setting.names
    clients = {
        ALICE: (Round(0, 3 * ttl_ns),),
        BOB: (Round(ttl_ns // 2, ttl_ns // 5), Round(ttl_ns, ttl_ns // 5)),
    }
    brief = {
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
    clients = {
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


def last_round_lost(setting: Setting, usual: _Usual | None) -> Iterator[Trial]:
    """What an acquire of several rounds asks last does not come to most nodes; she uses what she is granted.

    What was set in a round before may be there for a part of the lease only: Bob asks after half of it.
    """
    most = setting.names[(setting.nodes - 1) // 2 :]
    if usual is None or (when := usual.last_round("acquire", most)) in (None, usual.when("acquire", most)):
        return
    ttl_ns = setting.ttl_ns
    first, *_ = usual.trial.clients[ALICE]
    his, *_ = usual.trial.clients[BOB]
    clients = {
        ALICE: (first, Round(ttl_ns // 10, ttl_ns * 8 // 10)),
        BOB: (his, Round(ttl_ns // 2, ttl_ns * 6 // 10)),
    }
    lost = timed_fault(Cut, when, ALICE, most, lasts_ns=SHORT_NS, direction="requests")
    yield replace(usual.trial, clients=clients, faults=(lost,))


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
            before = later(last, 0)
            yield replace(usual.trial, faults=(timed_fault(Pause, before, ALICE, lasts_ns=past_ns),))


def late_replies(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """With a short lease, which time-outs outlive: replies come when the lease is over.

    All of an operation are late, or those of its last round: an operation that asks in several rounds gives
    up after the first one, if it looks at what that says.
    """
    short = setting.with_ttl(SHORT_TTLS_NS[-1])
    usual = _usual(short, profile, takes_over=True)
    for f in ("acquire", "extend"):
        if usual is None:
            return
        for when in dict.fromkeys((usual.when(f, setting.names), usual.last_round(f, setting.names))):
            if when is not None:
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
    clients = {
        ALICE: (Round(0, short, extends), mine),
        BOB: (Round(ttl_ns // 20, short), *theirs),
    }
    trial = setting.with_clients(clients)
    try:
        seen = Evidence(run_trial(trial, watch=True))
    except UnknownOutcome:
        return None
    sends = {}
    for f in OPERATIONS:
        done = [each for each in seen.of(ALICE, f) if each.ended_ns != NEVER]
        if len(done) > 1 and (found := _sent(seen, done[1])):
            sends[f] = found
    return _Usual(trial, sends)


def _sent(seen: Evidence, operation: Operation) -> list[tuple[int, tuple[str, ...]]]:
    """Which of Alice's sendings made nodes do something for an operation, and to which nodes they went."""
    sendings = seen.outcome.sendings[ALICE]
    start = next((at for at, ns in enumerate(sendings.times_ns) if ns >= START_NS), 0)
    found: dict[int, list[str]] = {}
    for request in seen.during(operation):
        at = max(
            (
                at
                for at, (ns, targets) in enumerate(zip(sendings.times_ns, sendings.targets, strict=True))
                if request.node in targets and ns - START_NS + ZERO_NS <= request.time_ns
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


# Situations in which two clients share the nodes between them, so that neither has a majority at first.

SPLITS: Final = ((1, 1), (2, 2), (2, 3), (3, 2))
MANY_TRIES: Final = {"retry_count": 20}
"""Options with which an acquire goes on for longer than a free lock may be refused, if no try succeeds."""


def shared(setting: Setting) -> Iterator[Trial]:
    """Both ask at once and share the nodes between them; one node is silent, or their number is even."""
    late_ns = setting.ttl_ns // 20
    for nodes, silent in ((setting.nodes, 1), (setting.nodes - 1, 0)):
        names, gone = NODE_NAMES[: nodes - silent], NODE_NAMES[nodes - silent : nodes]
        half = len(names) // 2
        faults = [
            *(timed_fault(Cut, at_start(), client, gone) for client in (ALICE, BOB) if gone),
            timed_fault(Delay, at_start(), ALICE, names[half:], late_ns, 2 * late_ns, "requests"),
            timed_fault(Delay, at_start(), BOB, names[:half], late_ns, 2 * late_ns, "requests"),
        ]
        turn = Round(0, setting.ttl_ns // 10)
        trial = setting.with_nodes(nodes).with_clients({ALICE: (turn,), BOB: (turn,)}, tuple(faults))
        yield trial
        if "retry_count" in setting.options:
            yield replace(trial, options={**trial.options, **MANY_TRIES})


def disjoint(setting: Setting) -> Iterator[Trial]:
    """Each client reaches some nodes only, and no node is reached by both."""
    for of_alice, of_bob in SPLITS:
        if of_alice + of_bob <= setting.nodes:
            yield split(setting, of_alice, of_bob)


def apart_at_open(setting: Setting) -> Iterator[Trial]:
    """The same while they open their locks: the other nodes refuse connections, or are silent."""
    of_alice, of_bob = SPLITS[1]
    if of_alice + of_bob <= setting.nodes:
        for refused in (True, False):
            yield split(setting, of_alice, of_bob, at_open=True, refused=refused)


# A situation in which two extensions of one lease each miss another minority of the nodes.
#
# Both find a majority, and only the nodes in the middle get both. An extension that sets what a key has
# left is right on all that got the second one; one that adds to it counts on what some of these had missed.


def crossing_extensions(setting: Setting) -> Iterator[Trial]:
    """Alice extends twice, and Bob asks when a key is over that missed one; she may count on hers still.

    She extends after 0.3 leases and after 0.6, so that her lease lasts for 1.6 in all; a key to which one of
    these was not added is over after 1.3. The nodes refuse her connections, or are down, and are back before
    they are asked again: packets that are lost would keep a connection silent for longer.
    """
    ttl_ns, names = setting.ttl_ns, setting.names
    some = (len(names) - 1) // 2
    if not some:
        return
    clients = {
        ALICE: (Round(0, ttl_ns * 9 // 10, 2, "keep"),),
        BOB: (Round(ttl_ns * 14 // 10, ttl_ns // 10),),
    }
    away_ns = ttl_ns // 10
    missed = (names[len(names) - some :], names[:some])
    moments = [(on(ALICE, "extend invoke", nth), nodes) for nth, nodes in enumerate(missed, 1)]
    refused = (
        timed_fault(Cut, when, ALICE, nodes, lasts_ns=away_ns, refused=True) for when, nodes in moments
    )
    yield setting.with_clients(clients, tuple(refused), demand=False)
    down = (timed_fault(Crash, when, nodes=(n,), lasts_ns=away_ns) for when, nodes in moments for n in nodes)
    yield setting.with_clients(clients, tuple(down), demand=False)


# Situations in which one client asks for leases of different lengths: no fault strikes.
#
# What was remembered of an earlier lease, or of the lease before its extension, is wrong of the next one.

SHORTER: Final = 5
"""The other lease is so many times shorter, or longer."""


def other_ttls(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """Alice's second lease is shorter, or longer; her extension is. Bob asks when the shorter one is over.

    Or it is he who asks for a shorter one, in the middle of hers: what he asks for says nothing of hers.
    """
    short_ns = setting.ttl_ns // SHORTER
    at_first = Round(short_ns // 10, short_ns // 10)
    held_ns = setting.ttl_ns * 6 // 10
    bob = (Round(setting.ttl_ns * 4 // 10, short_ns // 10), Round(setting.ttl_ns * 2 // 10, short_ns // 10))
    rounds: list[tuple[Round, ...]] = [
        (at_first, Round(short_ns // 10, held_ns, ttl_ns=short_ns)),
        (Round(0, short_ns // 10, ttl_ns=short_ns), Round(short_ns // 10, held_ns)),
    ]
    if extends and setting.extends_for_any_ttl:
        rounds += [
            (Round(0, short_ns * 3 // 2, 2, extend_ttl_ns=short_ns),),
            (Round(0, short_ns * 3 // 2, 2, ttl_ns=short_ns, extend_ttl_ns=setting.ttl_ns),),
        ]
    for hers in rounds:
        yield setting.with_clients({ALICE: hers, BOB: bob}, demand=False)
    shortly = Round(setting.ttl_ns * 4 // 10, short_ns // 10, ttl_ns=short_ns)
    yield setting.with_clients({ALICE: (Round(0, held_ns),), BOB: (shortly, at_first)}, demand=False)


# Situations with long pauses, in which a node forgets what it was to keep for longer than a lease.

PAUSES_NS: Final = (61 * S_NS, 61 * 60 * S_NS)
"""Longer than the round numbers, a minute and an hour, for which people let things lie; cheap ones first."""


def long_after(setting: Setting) -> Iterator[Trial]:
    """Alice, Bob and Alice again hold the lock for a moment, each of them long after the other."""
    turn_ns = setting.ttl_ns // 10
    for pause_ns in PAUSES_NS:
        clients = {
            ALICE: (Round(0, turn_ns), Round(2 * pause_ns, turn_ns)),
            BOB: (Round(pause_ns, turn_ns),),
        }
        trial = setting.with_clients(clients, demand=False)
        yield replace(trial, horizon_ns=2 * pause_ns + trial.horizon_ns)


# A situation for tokens that are drawn from few values, so that two clients have the same one now and then.
#
# Whether they are few is seen from runs with other seeds: a token of Alice's that is also one of Bob's.
# Then a run is looked for in which both have the same at once, and Alice releases when the lock is Bob's.

LOOKED: Final = 120
"""After so many runs tokens count as different: 64 random bits are the same twice in one of 10^15 cases."""
SEEDS_MAX: Final = 2_000
LATE: Final = next(program for program in PROGRAMS if program.name == "late")


def few_tokens(setting: Setting) -> Iterator[Trial]:
    """The run in which two clients have the same token, if there is one.

    Tokens that are counted are soon all known, and never the same in one run.
    """
    trial, new_at = setting.trial(LATE), 0
    alices: set[str] = set()
    bobs: set[str] = set()
    until_ns = trial.horizon_ns
    for seed in range(SEEDS_MAX):
        if seed - new_at == LOOKED or (seed == LOOKED and alices.isdisjoint(bobs)):
            return
        tried = replace(trial, seed=seed)
        found = _first_tokens(replace(tried, horizon_ns=until_ns))
        if found is None and until_ns < trial.horizon_ns:  # a grant may be later than in the run before
            found = _first_tokens(tried)
        if found is None:
            continue
        hers, his, granted_ns = found
        until_ns = granted_ns + setting.ttl_ns // 10  # what comes then need not be run
        if hers == his:
            yield tried
            return
        if hers not in alices or his not in bobs:
            new_at = seed
        alices.add(hers)
        bobs.add(his)


def _first_tokens(trial: Trial) -> tuple[str, str, int] | None:
    """The tokens of Alice's first grant and of Bob's, and the later one's time; None: there are not both."""
    found: dict[str, Event] = {}
    with contextlib.suppress(UnknownOutcome):
        for event in run_trial(trial).events:
            if event["f"] == "acquire" and event["type"] == "ok":
                found.setdefault(event["client"], event)
    first = [found.get(client, {}) for client in (ALICE, BOB)]
    hers, his = (event.get("token") for event in first)
    if hers is None or his is None:
        return None
    return hers, his, max(event["time_ns"] for event in first) - MONOTONIC_START_NS
