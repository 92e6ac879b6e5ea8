"""Schedules whose actions wait for events: small ones, all of a size before any larger one.

What Alice does is one of a few courses, what Bob does begins at one of her events: her call, her grant, her
release, an extension, the end of her lease. First all pairs without a fault; then each pair that looked new
to both clients with one fault at one of their sendings, which lasts until the other client was granted the
lock or has released it. A fault's length is so never a guess: what is late is late for the one who waits.

A driver does what it says that it can. Where it lets one lock object serve several leases, it does so in a
second round of courses, in which no two of a client's overlap.

Sendings are sorted by who sends, and in which call. Of each sort with each kind of fault, and of each course
with each fault from the start on, there is one schedule before there is a second one of any.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from lab.drivers.messages import ONE_OBJECT
from lab.drivers.shapes import shape_of
from lab.errors import LabError
from lab.examine.profile.probes import Profile
from lab.examine.programs import ALICE, BOB, MS_NS, Setting
from lab.examine.schedules.boundaries import SHORT_NS, Boundary, boundaries, faults_at, node_faults_at
from lab.examine.schedules.building import MOMENT_NS, hurt, lasting_until, later, told, use, write
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.anchors import NOT_SEEN
from lab.scenario.steps import Acquire, Close, Extend, Open, Read, Release, Write
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS, Trigger, after, at_start, on
from lab.search.as_tracks import FAULTS, action
from lab.search.faults import nodes_of, timed_fault
from lab.search.plainer_tracks import fits
from lab.search.runner import Event, Outcome, run_trial
from lab.search.trial import KEY, OTHER_KEY, Trial
from lab.substrates.base import Direction
from lab.substrates.sim.clock import MONOTONIC_START_NS

ANCHORED: Final = "schedules whose actions wait for events"
"""What they are called as a part of an examination."""
SECOND_TASK: Final = f"{ALICE}/2"
SENDINGS_MAX: Final = 8
"""At how many of a client's sendings faults are placed."""
ALIKE_MAX: Final = 3
"""At how many sendings that come after the same events faults are placed."""
SINGLES_MAX: Final = 2_000
"""How many schedules with one fault there are at most."""
OTHER_NODES: Final = (3, 4, 6, 7)
TRIED_OFTEN: Final = 16
"""How many courses are tried with locks that ask three times."""

Course = dict[str, list[Timed]]
"""Alice's tracks."""
Hurt = tuple[Trial, tuple[Timed, ...]]
"""A schedule and the faults that it is to have. Of a hundred such pairs one is tried, and made a trial."""


def anchored(setting: Setting, profile: Profile, random: Random) -> Iterator[Trial]:
    """All of them, without faults first; only inside ``trials``. Nobody takes a lock that it holds."""
    yield from explored(setting, bases(setting, profile), random, elsewhere=True)


def explored(
    setting: Setting, found: Iterable[Trial], random: Random, *, elsewhere: bool = False
) -> Iterator[Trial]:
    """These trials, and then each that looked new to its clients with one fault; only inside ``trials``.

    With ``elsewhere`` the plainest of them also with other nodes, and with more tries.
    """
    kept: list[tuple[Trial, Outcome]] = []
    seen: set[object] = set()
    for base in found:
        yield base
        try:
            outcome = run_trial(base)
        except LabError:  # reported by the examination, which runs it as well
            continue
        looks = bool(base.options.get(ONE_OBJECT)), _as_seen(outcome.events)
        if looks not in seen:
            seen.add(looks)
            kept.append((base, outcome))
    if elsewhere and not setting.replicated:
        yield from _elsewhere(setting, [base for base, _ in kept if BOB in base.tracks])
    yield from (trial for trial in _with_one_fault(setting, kept, random) if fits(trial))


def bases(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """Every course of Alice's with everything that Bob may begin with, without faults; inside ``trials``.

    Where a call is cancelled once nodes have executed its command, the network holds what they reply.
    """
    both = [courses(setting, profile)]
    if "cancel" in setting.can:
        both.append(cancelled(setting, taking(setting)))
    yield from _with_bobs(setting, chain.from_iterable(both))
    if "one-object" in setting.can:
        one = dataclasses.replace(
            setting, options={**setting.options, ONE_OBJECT: True}, can=setting.can - {"tasks"}
        )
        yield from _with_bobs(one, courses(one, profile))


def _with_bobs(setting: Setting, of_alice: Iterable[Course]) -> Iterator[Trial]:
    """Each of these courses with everything that Bob may begin with: with one of it each, then with a second.

    No course waits for all that can happen to the ones before it.
    """
    for round_ in zip_longest(*(_with_each_bob(setting, course) for course in of_alice)):
        yield from (trial for trial in round_ if trial is not None)


def _with_each_bob(setting: Setting, course: Course) -> Iterator[Trial]:
    if setting.reentrant and not isinstance(course[ALICE][-1].step, Release):
        return
    extends = any(isinstance(timed.step, Extend) for timed in course[ALICE])
    waits = course[ALICE][0].at is not None  # for Bob, who so begins by himself
    if not waits:
        yield told(setting, course, demand=not setting.reentrant)
    for track in bobs(setting.ttl_ns, extends=extends, first=waits):
        trial = told(setting, {**course, BOB: track}, demand=not setting.reentrant)
        if fits(trial):  # else he waits for what she does not do
            yield trial


def courses(setting: Setting, profile: Profile) -> Iterator[Course]:
    """What Alice does, the shortest first."""
    ttl_ns = setting.ttl_ns

    def wait(share: float) -> Trigger | None:
        return after(int(share * ttl_ns))

    def work(share: float) -> list[Timed]:
        return write(int(share * ttl_ns))

    def take(at: Trigger | None = None, **more: Any) -> Timed:
        return action(Acquire, at, **more)

    give = action(Release)
    over, believed = (
        on(ALICE, "lease over", after_ns=ttl_ns // 3),
        on(ALICE, "lease believed over", after_ns=ttl_ns // 50),
    )
    yield {ALICE: [take(), action(Read)]}
    yield {ALICE: [take(), *work(0.1), give]}
    yield {ALICE: [take(), give, take(), *work(0.1), give]}
    for share in (0.985, 0.997):  # within what clocks that drift a little leave of a lease, and beyond it
        yield {ALICE: [take(), *work(share), give]}
    yield {ALICE: [take(), *write(over), give, take(), give]}
    yield {ALICE: [take(), action(Read), action(Release, believed), take(), *work(0.1), give]}
    if setting.fences or profile.kind.announces:
        yield {ALICE: [take(), action(Read), action(Write, on(BOB, "write ok", after_ns=MOMENT_NS)), give]}
    if profile.extends:
        yield {ALICE: [take(), action(Extend, wait(0.6)), *work(0.6), give]}
        yield {ALICE: [take(), action(Extend), *work(0.9), give]}
        yield {
            ALICE: [
                take(),
                action(Extend, wait(0.5)),
                action(Extend, wait(0.5)),
                *work(0.7),
                give,
            ]
        }
        yield {ALICE: [take(), action(Extend, wait(0.3)), action(Extend, wait(0.2))]}
        yield {ALICE: [take(), action(Read), action(Extend, over), *work(0.01), give, take(), give]}
        if setting.extends_for_any_ttl:
            yield {ALICE: [take(), action(Extend, wait(0.1), ttl_ns=2 * ttl_ns), *work(1.2), give]}
    if not setting.reentrant:
        yield {ALICE: [take(), give, action(Release, wait(0.15), again=True), take(), give]}
        # She lets her lease run out, and asks for it as often as Bob does.
        yield {ALICE: [take(), _insists(ttl_ns, over), *work(0.1), give]}
    other = [take(wait(0.05), key=OTHER_KEY), action(Release, wait(0.05), key=OTHER_KEY)]
    yield {ALICE: [take(), *other, *work(0.1), give]}
    late_other = [take(wait(0.8), key=OTHER_KEY), action(Release, wait(0.5), key=OTHER_KEY)]
    yield {ALICE: [take(), *late_other, *work(0.1), give]}
    if "tasks" in setting.can and not (profile.watchdog or setting.reentrant):
        second = [take(on(ALICE, "granted")), action(Release, wait(0.05))]
        yield {ALICE: [take(), *work(0.2), give, take(), give], SECOND_TASK: second}
        yield from late_tasks(setting)
    half_ns = setting.with_ttl(ttl_ns // 2).ttl_ns
    yield {ALICE: [take(ttl_ns=half_ns), *work(0.8 * half_ns / ttl_ns), give]}
    yield {ALICE: [take(ttl_ns=2 * ttl_ns), *work(1.5), give]}
    if "close" in setting.can:
        yield {ALICE: [take(), action(Close), action(Open, wait(0.1)), *work(0.1), give]}


def late_tasks(setting: Setting) -> Iterator[Course]:
    """Alice's first task comes too late, and gives back when her second has a lease of its own.

    Not of an object that has one key and one lease at a time by its shape.
    """
    ttl_ns, shape = setting.ttl_ns, shape_of(setting.lock)
    if shape is None or shape.style != "object" or "key" in (shape.made.roles() if shape.made else ()):
        over, held_ns = on(ALICE, "lease over", after_ns=ttl_ns // 3), ttl_ns * 3 // 10
        older = action(Release, on(SECOND_TASK, "granted", after_ns=ttl_ns // 50))
        yield {
            ALICE: [action(Acquire), action(Read), older],
            SECOND_TASK: use(action(Acquire, over), held_ns),
        }


def two_tasks(setting: Setting) -> Iterator[Trial]:
    """The same, and Bob asks for what the second task has."""
    ttl_ns = setting.ttl_ns
    his = use(action(Acquire, on(ALICE, "released", after_ns=ttl_ns // 50)), ttl_ns * 7 // 10)
    for course in late_tasks(setting):
        yield told(setting, {**course, BOB: his}, demand=True)


def _insists(ttl_ns: int, at: Trigger) -> Timed:
    return action(Acquire, at, insist_ns=3 * ttl_ns, pause_ns=ttl_ns // 6)


def cancelled(setting: Setting, taking: str) -> Iterator[Course]:
    """Alice's acquire is cancelled: when some nodes have executed its command, and while she sends it.

    Mostly her second: before the first many clients connect, and nothing is taken yet.
    """
    names, ttl_ns = setting.names, setting.ttl_ns
    once, second = [action(Acquire), action(Release)], on(ALICE, "acquire invoke", 2)
    held = timed_fault(Hold, second, ALICE, names, direction="replies")
    hold, part_ns = lasting_until(held, on(ALICE, "acquire info")), ttl_ns // 10
    back = action(Release, if_granted=True)  # what she has, where it was over before it was cancelled
    again = [back, *use(action(Acquire, after(part_ns)), part_ns)]
    for some in dict.fromkeys((len(names), len(names) // 2 + 1, 1)) if taking else ():
        executed = {"nodes": list(names[:some]), "executed": taking}
        stop = Trigger.model_validate({ALICE: "acquire invoke", "nth": 2, **executed})
        yield {ALICE: [*once, action(Acquire, cancel=stop), *again], FAULTS: [hold]}
    late = on(ALICE, "acquire invoke", after_ns=ttl_ns // 10)
    yield {
        ALICE: [
            action(Acquire, on(BOB, "granted", after_ns=ttl_ns // 20), cancel=late),
            *again,
        ]
    }
    for after_ns in (MOMENT_NS // 20, MOMENT_NS // 2, MOMENT_NS, 100 * MS_NS):
        soon = later(second, after_ns)
        yield {ALICE: [*once, action(Acquire, cancel=soon), *again]}
    for nth in (1, 2):
        yield {ALICE: [action(Acquire, cancel=on(ALICE, SENDS, nth)), *again]}


def taking(setting: Setting) -> str:
    """The command by which the lock takes a key; nothing if it was not seen."""
    try:
        outcome = run_trial(told(setting, {ALICE: [action(Acquire)]}), watch=True)
    except LabError:  # reported by the examination, which runs it as well
        return ""
    sent = ""
    for each in outcome.commands:
        sent = sent if each.in_script else each.name.upper()
        if each.changes() and any(KEY in word for word in each.words[1:]):
            return "" if sent in NOT_SEEN else sent
    return ""


def bobs(ttl_ns: int, *, extends: bool, first: bool) -> Iterator[list[Timed]]:
    """What Bob does, and when he begins; ``first``: by himself."""
    if first:
        yield use(action(Acquire), ttl_ns // 2)
        return
    yield use(_insists(ttl_ns, on(ALICE, "granted", after_ns=ttl_ns // 10)), ttl_ns * 7 // 10)
    yield use(_insists(ttl_ns, on(ALICE, "acquire invoke", 2)), ttl_ns * 7 // 10)
    moments = [
        on(ALICE, "acquire invoke"),
        on(ALICE, "acquire invoke", after_ns=MOMENT_NS // 3),
        on(ALICE, "granted", after_ns=ttl_ns // 10),
        on(ALICE, "released", after_ns=MOMENT_NS),
        on(ALICE, "lease believed over", after_ns=MOMENT_NS),
        on(ALICE, "lease over", after_ns=ttl_ns // 30),
        on(ALICE, "granted", after_ns=ttl_ns * 994 // 1000),
        on(ALICE, "granted", after_ns=ttl_ns * 105 // 100),
        *([on(ALICE, "extend ok", after_ns=MOMENT_NS)] if extends else []),
    ]
    again = action(Acquire, after(ttl_ns // 50))
    for moment in moments:
        for hold_ns in (ttl_ns // 10, ttl_ns * 7 // 10):
            yield [*use(action(Acquire, moment), hold_ns), *use(again, hold_ns)]


def _as_seen(events: list[Event], until_ns: int = 1 << 62) -> tuple[object, ...]:
    """What both clients saw, without times."""
    theirs = (event for event in events if "client" in event and event["time_ns"] < until_ns)
    return tuple((each["client"], each["f"], each["type"], each.get("value")) for each in theirs)


def _elsewhere(setting: Setting, plainest: list[Trial]) -> Iterator[Trial]:
    """The plainest courses with other numbers of nodes, of which each client reaches some, and more tries."""
    for nodes in OTHER_NODES if setting.nodes > 1 else ():
        names = setting.with_nodes(nodes).names
        half = nodes // 2
        for mine, his in dict.fromkeys(((half, half), (nodes - half, half), (2, 2))):
            cuts = [timed_fault(Cut, at_start(), ALICE, names[mine:])]
            cuts.append(timed_fault(Cut, at_start(), BOB, names[: nodes - his]))
            for base in plainest[:3]:
                yield hurt(replace(base, nodes=nodes), *cuts)
    if "retry_count" in setting.options:
        most = setting.names[: setting.nodes // 2 + 1]
        lost = timed_fault(Cut, on(ALICE, "sends"), ALICE, most, lasts_ns=SHORT_NS)
        for base in plainest[:TRIED_OFTEN]:
            often = replace(base, options={**base.options, "retry_count": 3})
            yield often
            yield hurt(often, lost)


def _with_one_fault(setting: Setting, kept: list[tuple[Trial, Outcome]], random: Random) -> Iterator[Trial]:
    """One fault at one sending, or from the start: of each sort one, then of each sort a second one."""
    groups: dict[object, list[Hurt]] = {}
    alike: Counter[object] = Counter()
    placed: dict[object, list[Timed]] = {}  # thousands of sendings have the same faults
    surroundings = list(_surroundings(setting))
    for base, outcome in kept:
        if BOB not in base.tracks:
            continue
        for boundary in boundaries(base, SENDINGS_MAX):
            at_ns = boundary.at_ns + MONOTONIC_START_NS
            key = boundary.client, _as_seen(outcome.events, at_ns)
            alike[key] += 1
            if alike[key] > ALIKE_MAX:
                continue
            sort = _role(outcome, boundary, at_ns)
            same = boundary, base.nodes, base.ttl_ns
            if same not in placed:
                placed[same] = list(_faults_at(boundary, base, setting))
            for number, fault in enumerate(placed[same]):
                groups.setdefault((sort, number), []).append((base, (fault,)))
        for number, faults in enumerate(surroundings):
            groups.setdefault((base.tracks[ALICE], number), []).append((base, faults))
    yield from _in_turn(groups, random)


def _role(outcome: Outcome, boundary: Boundary, at_ns: int) -> object:
    """What a sending is for: which call of its client."""
    calls = [
        event["f"]
        for event in outcome.events
        if event.get("client") == boundary.client and event["type"] == "invoke" and event["time_ns"] <= at_ns
    ]
    return boundary.client, calls[-1] if calls else "", calls.count(calls[-1]) if calls else 0


def _faults_at(boundary: Boundary, base: Trial, setting: Setting) -> Iterator[Timed]:
    """Every fault at a sending; those that last also until the other client is granted, or has released."""
    when = on(boundary.client, "sends", boundary.nth)
    faults = [*faults_at(boundary, base), *node_faults_at(boundary, base)]
    faults += [timed_fault(Jump, when, boundary.client, by_ns=by * setting.ttl_ns) for by in (2, -2)]
    few = (setting.nodes - 1) // 2
    other = BOB if boundary.client == ALICE else ALICE
    ends = [on(other, event, after_ns=setting.ttl_ns // 1000) for event in ("granted", "released")]
    for fault in faults:
        cut, nodes = fault.step, nodes_of(fault)
        if not isinstance(cut, Cut) or fault.lasts_ns or len(nodes) <= few:
            yield fault
            continue
        if cut.direction != "replies":  # who hears nothing for good, and insists, keeps the lock from others
            yield fault
        for kind in (Cut, Hold):
            lost = timed_fault(kind, when, boundary.client, nodes, direction=cut.direction)
            yield from (lasting_until(lost, end) for end in ends)
    stops = timed_fault(Pause, when, boundary.client)
    yield from (lasting_until(stops, end) for end in ends)


def _surroundings(setting: Setting) -> Iterator[tuple[Timed, ...]]:
    """What is so from the start, or from Alice's grant on."""
    names, ttl_ns, few = setting.names, setting.ttl_ns, (setting.nodes - 1) // 2
    now, granted, released = at_start(), on(ALICE, "granted"), on(ALICE, "released")
    found: list[tuple[Timed, ...]] = []
    if few:
        for when, mine, his in ((now, few, few), (now, few + 1, few), (granted, few + 1, few + 1)):
            cuts = (ALICE, names[-mine:]), (BOB, names[:his])
            found.append(tuple(timed_fault(Cut, when, client, lost) for client, lost in cuts))
        found.append((timed_fault(Cut, now, ALICE, names[:few]),))
        # Three majorities of which no node is in all: Alice's before her release, hers after it, and Bob's.
        first = lasting_until(timed_fault(Cut, now, ALICE, names[few + 1 :]), released)
        then = timed_fault(Cut, released, ALICE, (*names[few : few + 1], *names[few + 2 :]))
        found.append((first, then, timed_fault(Cut, now, BOB, names[:few])))
        found.append(tuple(timed_fault(Crash, granted, nodes=(name,)) for name in names[:few]))
        found.append(
            tuple(timed_fault(Jump, granted, nodes=(name,), by_ns=2 * ttl_ns) for name in names[:few])
        )
    ways: tuple[Direction, ...] = ("requests", "replies")
    for by_ns in (ttl_ns // 80, ttl_ns // 12):
        for way in ways:
            found.append((timed_fault(Delay, now, ALICE, names, by_ns, direction=way),))
    found += [
        tuple(timed_fault(Drift, now, nodes=(name,), ppm=ppm) for name in names) for ppm in (8000, -8000)
    ]
    for client, when, by in ((ALICE, granted, 2), (ALICE, granted, -2), (BOB, now, 2)):
        found.append((timed_fault(Jump, when, client, by_ns=by * ttl_ns),))
    restarts = names[: max(few, 1)]
    found.append(
        tuple(timed_fault(Crash, granted, nodes=(name,), lasts_ns=ttl_ns // 50) for name in restarts)
    )
    found.append((timed_fault(Reset, granted, ALICE, names),))
    found.append((timed_fault(ClientCrash, on(ALICE, "granted", 1, ttl_ns // 5), ALICE),))
    yield from found


def _in_turn(groups: dict[object, list[Hurt]], random: Random) -> Iterator[Trial]:
    """One of each group, in an order that is drawn; then a second one of each; so many at most."""
    for group in groups.values():
        random.shuffle(group)
    given = 0
    while groups and given < SINGLES_MAX:
        order = list(groups)
        random.shuffle(order)
        for key in order:
            base, faults = groups[key].pop()
            yield hurt(base, *faults)
            given += 1
            if not groups[key]:
                del groups[key]
            if given == SINGLES_MAX:
                return
