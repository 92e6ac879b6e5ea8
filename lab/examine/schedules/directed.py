"""Situations whose actions wait for events: what one client does, and the ends of faults, follow the other.

Nothing here is computed from a run of the lock: a lock that is slow, asks again, or gives up early meets the
same situation at its own pace. What a situation waits for and a lock never does leaves a plain schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from lab.errors import LabError
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.examine.schedules.anchored import taking
from lab.examine.schedules.boundaries import boundaries
from lab.examine.schedules.building import (
    CAROL,
    MOMENT_NS,
    hurt,
    lasting_until,
    later,
    told,
    use,
    write,
)
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.fill_memory import FillMemory
from lab.faults.hold import Hold
from lab.locks.capacity import READ
from lab.scenario.steps import Acquire, Check, Extend, Read, Release, Write
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS, Trigger, after, at_start, on
from lab.search.as_tracks import action
from lab.search.faults import timed_fault, with_fields
from lab.search.runner import ZERO_NS, run_trial
from lab.search.trial import OTHER_KEY, START_NS, Trial

UNDO_TTL_NS: Final = 10 * S_NS
"""Who is kept out by a key that stays waits for most of it: for longer than a free lock may be refused."""
SLOWER_NS: Final = 15 * MS_NS
"""By so much each request is slower of who is cancelled, so that this happens while one is under way."""
SENDINGS: Final = range(2, 7)
"""At which of a client's sendings its acquire is cancelled; at the first it has set nothing yet."""
BRIEF_TTL_NS: Final = 700 * MS_NS
"""A lease whose last tenths pass while a client waits for a node."""
COMMANDS_MAX: Final = 4
"""Between so many commands of a call another client is granted the lock at most."""
THINKS_NS: Final = 4 * S_NS
"""How long a client computes before its extension, and after it."""
FIRST_NS: Final = MOMENT_NS // 2
"""So long after a call its first requests are under way, and no answer has come."""
THREE_TRIES: Final = {"retry_count": 3}
"""Options with which an acquire tries again, if it can be told to."""
LATE_UNDOS_NS: Final = (150 * MS_NS, 400 * MS_NS)
"""So late comes what takes back a try: after the pauses before the next one of most locks."""
BRIEF_NS: Final = 60 * MS_NS
"""How long a request of an acquire is under way: less than the time-outs for a node of most locks."""
ANSWERED_NS: Final = 5 * MS_NS
"""How long a client waits yet for what it asked last, when answers to older requests come."""


def after_a_first_answer(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """What Alice sends in a call after the first answer arrives in the lease of Bob; then Carol asks.

    It rests on an answer that is out of date by then. Bob lets his lease run out; Carol insists from before
    its end on: she is granted the lock too early where his key was deleted, and too late where it was
    prolonged.
    """
    yield from _slow_acquire(setting)
    for f in ("extend", "release") if extends else ("release",):
        yield _in_anothers_lease(setting, f, FIRST_NS)


def calls_that_come_late(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """All that Alice sends in a call arrives in the lease of Bob, who lets it run out; then Carol asks.

    An extension that asks for a shorter lease than Bob's ends his, where it does not look whose key it is.
    """
    if extends:
        yield _in_anothers_lease(setting, "extend", 0)
        if setting.extends_for_any_ttl:
            yield _in_anothers_lease(setting, "extend", 0, extend_ttl_ns=setting.ttl_ns // 5)
    yield _in_anothers_lease(setting, "release", 0)


def _in_anothers_lease(setting: Setting, f: str, from_ns: int, *, extend_ttl_ns: int | None = None) -> Trial:
    """What Alice sends ``from_ns`` after her call, or later, arrives late in the lease that Bob has by then.

    Where her extension asks for a shorter lease, it arrives early in his.

    ``extend_ttl_ns`` is the lease that her extension asks for; None: that of the lock.
    """
    ttl_ns = setting.ttl_ns
    insists: dict[str, Any] = {"insist_ns": 3 * ttl_ns, "pause_ns": ttl_ns // 20}
    hers = [action(Acquire), action(Release), action(Acquire, after(ttl_ns // 10))]
    if f == "extend":
        hers += [action(Extend, after(ttl_ns // 10), ttl_ns=extend_ttl_ns), *write(ttl_ns * 12 // 10)]
    else:
        hers += [*write(ttl_ns // 10), action(Release)]
    called = on(ALICE, f"{f} invoke", 1 if f == "extend" else 2)
    arrives_ns = ttl_ns * 7 // 10 if extend_ttl_ns is None else ttl_ns // 10
    late = timed_fault(Hold, later(called, from_ns), ALICE, setting.names, direction="requests")
    late = lasting_until(late, on(BOB, "granted", after_ns=arrives_ns))
    tracks = {
        ALICE: hers,
        BOB: [action(Acquire, later(called, ttl_ns // 50), **insists), *write(ttl_ns * 9 // 10)],
        CAROL: use(
            action(Acquire, on(BOB, "granted", after_ns=arrives_ns + ttl_ns // 20), **insists), ttl_ns // 10
        ),
    }
    return told(setting, tracks, late)


def between_two_commands(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """Alice calls just before her lease ends; between two commands of the call it ends, and Bob has the lock.

    What she sends after the one is held until then: for less than the time-outs for a node of most locks. One
    schedule for each of her sendings in the call but the first. It is a call such as she has made before, and
    her very first one if she sends more in that: a script may have to be loaded. Carol asks while Bob has the
    lock.
    """
    short = setting.with_ttl(BRIEF_TTL_NS)
    until = on(BOB, "granted", after_ns=MS_NS)
    for f in ("extend", "release") if extends else ("release",):
        before = 0
        for times in (2, 1):
            base = _ends_in_a_call(short, f, times)
            sendings = _sendings_of(base, f, times)
            for nth in sendings[1 : 1 + COMMANDS_MAX] if len(sendings) > before else ():
                held = timed_fault(Hold, on(ALICE, SENDS, nth), ALICE, short.names, direction="requests")
                yield hurt(base, lasting_until(held, until))
            before = len(sendings)


def asked_in_between(setting: Setting) -> Iterator[Trial]:
    """Nobody has the lock; between two commands of Alice's acquire Bob asks for it, and releases it at once.

    He may take what she has begun for what somebody has left. What she sends after the one is held for less
    than the time-outs for a node of most locks. One schedule for each of her sendings but the first, of an
    acquire such as she has made before.
    """
    setting = setting.with_ttl(UNDO_TTL_NS)
    ttl_ns, insists_ns = setting.ttl_ns, setting.ttl_ns * 6 // 10
    insists: dict[str, Any] = {"insist_ns": insists_ns, "pause_ns": ttl_ns // 40}
    hers = [action(Acquire), action(Release), action(Acquire, after(ttl_ns // 50), **insists)]
    alone = told(setting, {ALICE: [*hers, action(Release, if_granted=True)]})
    for nth in _sendings_of(alone, "acquire", 2)[1 : 1 + COMMANDS_MAX]:
        between = on(ALICE, SENDS, nth)
        his = [action(Acquire, later(between, MS_NS)), action(Release, if_granted=True)]
        held = timed_fault(Hold, between, ALICE, setting.names, 0, BRIEF_NS, "requests")
        yield hurt(replace(alone, tracks={**alone.tracks, BOB: tuple(his)}), held)


def _ends_in_a_call(setting: Setting, f: str, times: int) -> Trial:
    """Alice's lease ends just after she calls this for the first or second time; Bob asks then, and Carol."""
    ttl_ns, left_ns = setting.ttl_ns, setting.ttl_ns * 7 // 100
    insists: dict[str, Any] = {"insist_ns": ttl_ns, "pause_ns": ttl_ns // 100}
    turn = [action(Acquire), *([action(Extend)] if f == "extend" else []), action(Release)] * (times - 1)
    late = action(Extend if f == "extend" else Release, after(ttl_ns - left_ns))
    called = on(ALICE, f"{f} invoke", times)
    tracks = {
        ALICE: [*turn, action(Acquire, after(ttl_ns // 10)), late],
        BOB: [action(Acquire, later(called, left_ns + MS_NS), **insists), *write(ttl_ns * 7 // 10)],
        CAROL: use(action(Acquire, on(BOB, "granted", after_ns=ttl_ns // 10), **insists), ttl_ns // 10),
    }
    return told(setting, tracks)


def renewed_too_late(setting: Setting) -> Iterator[Trial]:
    """Alice is cut off until her lease is over, and Bob has had the lock; then her renewals go on.

    She reads before, and writes if her lock says after a lease that it is held.
    """
    ttl_ns, called = setting.ttl_ns, on(ALICE, "granted")
    asks = action(Acquire, later(called, ttl_ns // 2), insist_ns=3 * ttl_ns, pause_ns=ttl_ns // 20)
    tracks = {
        ALICE: [
            *(action(Acquire), action(Read), action(Check, on(BOB, "released", after_ns=ttl_ns))),
            *(action(Write, if_checked=True), action(Release)),
        ],
        BOB: use(asks, ttl_ns // 20),
    }
    cut = with_fields(timed_fault(Cut, called, ALICE, setting.names), mode="refused")
    yield told(setting, tracks, lasting_until(cut, on(BOB, "released")))


def _sendings_of(base: Trial, f: str, times: int, client: str = ALICE) -> list[int]:
    """Which sendings of a client belong to a call, counted as triggers count them; none if it was not run."""
    try:
        outcome = run_trial(base)
    except LabError:  # reported by the examination, which runs it with a fault
        return []
    calls = [
        event["time_ns"] - ZERO_NS + START_NS
        for event in outcome.events
        if (event.get("client"), event["f"], event["type"]) == (client, f, "invoke")
    ]
    ends = [
        event["time_ns"] - ZERO_NS + START_NS
        for event in outcome.events
        if (event.get("client"), event["f"]) == (client, f) and event["type"] != "invoke"
    ]
    if len(ends) < times:
        return []
    return [
        each.nth
        for each in boundaries(base, None)
        if each.client == client and calls[times - 1] <= each.at_ns <= ends[times - 1]
    ]


def beside_another_lock(setting: Setting) -> Iterator[Trial]:
    """Bob takes another lock while Alice's lease lasts, for a shorter lease, or again and again.

    Carol insists on Alice's: what ends, or lasts, for all locks together is wrong for hers.
    """
    ttl_ns, short_ns = setting.ttl_ns, setting.with_ttl(setting.ttl_ns // 5).ttl_ns
    insists: dict[str, Any] = {"insist_ns": 4 * ttl_ns, "pause_ns": ttl_ns // 20}
    yield told(
        setting,
        {
            ALICE: [action(Acquire), *write(ttl_ns * 9 // 10)],
            BOB: [
                action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 20), key=OTHER_KEY, ttl_ns=short_ns)
            ],
            CAROL: use(action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 10), **insists), ttl_ns // 10),
        },
    )
    turn = [action(Acquire, after(ttl_ns * 6 // 10), key=OTHER_KEY), action(Release, key=OTHER_KEY)]
    yield told(
        setting,
        {
            ALICE: [action(Acquire), action(Read)],
            BOB: [
                action(Acquire, on(ALICE, "granted"), key=OTHER_KEY),
                action(Release, key=OTHER_KEY),
                *(4 * turn),
            ],
            CAROL: use(action(Acquire, on(ALICE, "lease over"), **insists), ttl_ns // 10),
        },
    )


def beside_longer_ones(setting: Setting) -> Iterator[Trial]:
    """A short lease beside longer ones of others runs out; then others ask, as many as may not be let in.

    Readers may have it with Alice's, and all who hold a permit. Where one key holds all their leases, the end
    of the last one that was taken is not its end.
    """
    ttl_ns, short_ns = setting.ttl_ns, setting.with_ttl(setting.ttl_ns // 5).ttl_ns
    over: dict[str, Any] = {"insist_ns": ttl_ns, "pause_ns": ttl_ns // 50}
    then = use(action(Acquire, on(BOB, "granted", after_ns=short_ns * 11 // 10), **over), ttl_ns // 10)
    if setting.capacity.read_write:
        reads = [action(Read), action(Check, after(ttl_ns * 7 // 10)), action(Release)]
        brief = action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 50), mode=READ, ttl_ns=short_ns)
        yield told(setting, {ALICE: [action(Acquire, mode=READ), *reads], BOB: [brief], CAROL: then})
    elif not setting.capacity.of_one:
        brief = action(Acquire, after(ttl_ns // 50), ttl_ns=short_ns)
        yield told(setting, {BOB: [brief], ALICE: then, CAROL: then})


def _slow_acquire(setting: Setting) -> Iterator[Trial]:
    """The same in an acquire, which waits for answers so long; Bob holds the lock, or has given it back."""
    ttl_ns, called = setting.ttl_ns, on(ALICE, "acquire invoke", 2)
    hers = [action(Acquire), action(Release), *use(action(Acquire, after(ttl_ns // 10)), ttl_ns // 10)]
    asks = action(Acquire, later(called, 5 * MOMENT_NS))
    slow = timed_fault(Hold, later(called, FIRST_NS), ALICE, setting.names, 0, BRIEF_NS, "requests")
    for his in ([asks, *write(ttl_ns // 2)], [asks, action(Read), action(Write), action(Release)]):
        yield told(setting, {ALICE: hers, BOB: his}, slow)


def late_answers(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """Answers come long after Alice stopped waiting for them, while she waits for others; Bob has the lock.

    A client library that goes on using the connection takes each of them for the answer to a later request.
    """
    ttl_ns = setting.ttl_ns
    turn = [action(Acquire), *([action(Extend)] if extends else []), action(Release)]
    hers = [*turn, action(Acquire, after(ttl_ns // 10)), *turn[1:]]
    hers += use(action(Acquire, on(BOB, "granted", after_ns=ttl_ns // 100)), ttl_ns // 10)
    asks = on(ALICE, "release returns", 2, after_ns=ttl_ns // 50)
    his = use(action(Acquire, asks, insist_ns=3 * ttl_ns, pause_ns=ttl_ns // 20), ttl_ns * 8 // 10)
    come = on(ALICE, "acquire invoke", 3, after_ns=ANSWERED_NS)
    for f in ("acquire", "extend", "release") if extends else ("acquire", "release"):
        silent = timed_fault(Hold, on(ALICE, f"{f} invoke", 2), ALICE, setting.names, direction="replies")
        silent = lasting_until(silent, come)
        yield told(setting, {ALICE: hers, BOB: his}, silent)


def lost_votes(setting: Setting) -> Iterator[Trial]:
    """Nodes execute an acquire of Alice's, too few answers reach her, and what she sends next arrives.

    The answers of a majority are lost, or all: until the last node has executed the acquire, or until she is
    told that it failed. She has had the lock before, so that no answer is lost that only makes a connection.
    Bob asks then.
    """
    setting = setting.with_ttl(UNDO_TTL_NS)
    names, ttl_ns, command = setting.names, setting.ttl_ns, taking(setting)
    asks = on(ALICE, "acquire returns", 2, after_ns=ttl_ns // 50)
    tracks = {
        ALICE: [
            *(action(Acquire), action(Release)),
            *(action(Acquire, after(ttl_ns // 50)), action(Release, if_granted=True)),
        ],
        BOB: [action(Acquire, asks, insist_ns=2 * ttl_ns, pause_ns=ttl_ns // 40), action(Release)],
    }
    ends = [on(ALICE, "acquire returns", 2)]
    if command:
        last = {"nodes": list(names[-1:]), "executed": command, "after": f"{ANSWERED_NS}ns"}
        ends.insert(0, Trigger.model_validate(last))
    for hit in dict.fromkeys((names[(len(names) - 1) // 2 :], names)):
        for end in ends:
            lost = timed_fault(Cut, on(ALICE, "acquire invoke", 2), ALICE, hit, direction="replies")
            yield told(setting, tracks, lasting_until(lost, end))


def refused_before(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """What Bob saw when he was refused is out of date when he asks again, when that lease would be over.

    Alice has extended hers meanwhile, or has given it back and has a new one.
    """
    ttl_ns, on_time, soon = setting.ttl_ns, after(setting.ttl_ns * 6 // 10), after(setting.ttl_ns // 50)
    asks = on(ALICE, "granted", after_ns=ttl_ns // 10), on(ALICE, "granted", after_ns=ttl_ns * 115 // 100)
    his = [*(action(Acquire, at) for at in asks), *write(ttl_ns // 10), action(Release, if_granted=True)]
    changes = [[action(Release, on_time), action(Acquire, soon)], *([[action(Extend, on_time)]] * extends)]
    for change in changes:
        hers = [action(Acquire), *change, *write(ttl_ns * 7 // 10), action(Release)]
        yield told(setting, {ALICE: hers, BOB: his})


def extended_again(setting: Setting) -> Iterator[Trial]:
    """Alice's extension is lost, or its answer is, and she extends again soon, then works on; Bob insists.

    What is remembered of the first extension is wrong of the second one, where nodes did not hear of it.
    """
    ttl_ns = setting.ttl_ns
    hers = [
        action(Acquire),
        action(Extend, after(ttl_ns * 3 // 10)),
        action(Extend, after(ttl_ns // 20)),
        *write(ttl_ns * 7 // 10),
        action(Release),
    ]
    insists = action(Acquire, on(ALICE, "granted"), insist_ns=4 * ttl_ns, pause_ns=ttl_ns // 50)
    base = told(setting, {ALICE: hers, BOB: use(insists, ttl_ns // 4)})
    for direction in ("requests", "replies"):
        lost = timed_fault(Cut, on(ALICE, "extend invoke"), ALICE, setting.names, direction=direction)
        yield hurt(base, lasting_until(lost, on(ALICE, "extend invoke", 2)))


def released_before_it_waits(setting: Setting) -> Iterator[Trial]:
    """Alice gives back between two commands of Bob's acquire, who was refused and is about to wait.

    One schedule for each of his sendings but the first, which is late by little. A wake-up that he does not
    hear is not sent again.
    """
    ttl_ns = setting.ttl_ns
    takes = action(Acquire, on(BOB, "released", after_ns=ttl_ns // 10))
    insists: dict[str, Any] = {"insist_ns": 2 * ttl_ns, "pause_ns": ttl_ns // 10}
    asks = action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 10), **insists)
    his = [action(Acquire), action(Release), asks, action(Release, if_granted=True)]
    base = told(setting, {ALICE: [takes, action(Release, after(ttl_ns * 9 // 10))], BOB: his})
    for nth in _sendings_of(base, "acquire", 2, BOB)[1 : 1 + COMMANDS_MAX]:
        late = timed_fault(Hold, on(BOB, SENDS, nth), BOB, setting.names, 0, BRIEF_NS, "requests")
        hers = [takes, action(Release, on(BOB, SENDS, nth))]
        yield told(setting, {ALICE: hers, BOB: his}, late)


def cut_off_while_it_waits(setting: Setting) -> Iterator[Trial]:
    """Bob waits for the lock first, and is cut off until Alice is about to give it back; Carol waits as well.

    All that keeps him from the lock afterwards is what the others made of his silence.
    """
    ttl_ns = setting.ttl_ns
    insists: dict[str, Any] = {"insist_ns": 2 * ttl_ns, "pause_ns": ttl_ns // 50}
    tracks = {
        ALICE: [action(Acquire), action(Release, after(ttl_ns * 8 // 10))],
        BOB: [action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 50), **insists), action(Release)],
        CAROL: [action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 25), **insists), action(Release)],
    }
    at = on(ALICE, "granted", after_ns=ttl_ns // 10)
    yield told(setting, tracks, timed_fault(Cut, at, BOB, setting.names, lasts_ns=ttl_ns * 65 // 100))


def undone_too_late(setting: Setting) -> Iterator[Trial]:
    """Alice's first try is refused by Bob's keys; what takes it back comes when her next one has the lock.

    It is late on a majority of the nodes, and Bob gives back meanwhile. Carol asks while Alice has the lock.
    """
    if "retry_count" in setting.options:
        setting = dataclasses.replace(setting, options={**setting.options, **THREE_TRIES})
    ttl_ns, names = setting.ttl_ns, setting.names
    insists: dict[str, Any] = {"insist_ns": ttl_ns // 2, "pause_ns": ttl_ns // 50}
    again = action(Acquire, on(BOB, "granted", after_ns=ttl_ns // 10), **insists)
    his = [action(Acquire, on(ALICE, "released", after_ns=ttl_ns // 50)), action(Release, after(ttl_ns // 5))]
    hers = [action(Acquire), action(Release), *use(again, ttl_ns * 7 // 10)]
    base = told(setting, {ALICE: hers, BOB: his})
    for undo in _sendings_of(base, "acquire", 2)[1:2]:
        gives_back = action(Release, on(ALICE, SENDS, undo, after_ns=MOMENT_NS))
        asks = action(Acquire, on(ALICE, "granted", 2, after_ns=ttl_ns // 10), **insists)
        tracks = {ALICE: hers, BOB: [his[0], gives_back], CAROL: use(asks, ttl_ns // 10)}
        for late_ns in LATE_UNDOS_NS:
            at, hit = on(ALICE, SENDS, undo), names[(len(names) - 1) // 2 :]
            slow = timed_fault(Delay, at, ALICE, hit, late_ns, MOMENT_NS, "requests")
            yield told(setting, tracks, slow)


def cancelled_under_way(setting: Setting) -> Iterator[Trial]:
    """Alice's second acquire is cancelled when its command is under way; Bob insists on the lock."""
    ttl_ns, second = setting.ttl_ns, on(ALICE, "acquire invoke", 2)
    stops = later(second, MOMENT_NS // 2)
    hers = [action(Acquire), action(Release), action(Acquire, cancel=stops), action(Release, if_granted=True)]
    asks = action(Acquire, later(second, ttl_ns // 50), insist_ns=2 * ttl_ns, pause_ns=ttl_ns // 10)
    yield told(setting, {ALICE: hers, BOB: [asks, action(Release)]})


def cancelled_undo(setting: Setting) -> Iterator[Trial]:
    """Alice's acquire is cancelled while it undoes what it has set, as a time-out around it does.

    Bob holds a majority, so that Alice is granted a minority and undoes that. No packet of hers is lost, and
    all that she has set was answered before. Carol reaches neither of Bob's first nodes: a key that Alice
    left on the last ones keeps the lock from her. One for each of Alice's sendings.
    """
    setting = setting.with_ttl(UNDO_TTL_NS)
    ttl_ns, names, some = setting.ttl_ns, setting.names, (setting.nodes - 1) // 2
    for nth in SENDINGS if some else ():
        cancel = on(ALICE, SENDS, nth, after_ns=SLOWER_NS // 2)
        tracks = {
            ALICE: [
                action(Acquire, on(BOB, "granted", after_ns=ttl_ns // 10), cancel=cancel),
                action(Release, if_granted=True),
            ],
            BOB: [action(Acquire), action(Release, after(ttl_ns * 15 // 100))],
            CAROL: [
                action(Acquire, on(BOB, "released", after_ns=ttl_ns // 10), insist_ns=2 * ttl_ns),
                action(Release),
            ],
        }
        yield told(
            setting,
            tracks,
            timed_fault(Cut, at_start(), BOB, names[len(names) - some :]),
            timed_fault(Cut, at_start(), CAROL, names[:some]),
            timed_fault(
                Delay, on(ALICE, "acquire invoke"), ALICE, names, SLOWER_NS, ttl_ns // 10, "requests"
            ),
        )


def lost_majority(setting: Setting) -> Iterator[Trial]:
    """An extension finds no majority while the lease is good.

    A minority of the nodes is away when Alice takes the lock, and comes back without her key. One more goes
    before she extends, and comes back after that. Or the memory of a majority is full while she extends:
    these nodes answer, so this reaches a library that waits for all of them, too, and they delete what they
    are told to. Bob insists then: he is granted the lock where her keys were deleted, and, where she was told
    that her lease was extended, when its first term is over.
    """
    ttl_ns, names = setting.ttl_ns, setting.names
    some = (len(names) - 1) // 2
    if not some:
        return
    first, second = names[len(names) - some :], names[len(names) - some - 1 : len(names) - some]
    over = on(ALICE, "extend returns", after_ns=THINKS_NS // 4)
    tracks = {
        ALICE: [
            action(Acquire, after(S_NS // 10)),  # what she sends is not under way when nodes go
            *(action(Read), action(Extend, after(THINKS_NS))),
            *(write(THINKS_NS) + write(ttl_ns * 14 // 10)),
            action(Release),
        ],
        BOB: use(
            action(Acquire, later(over, THINKS_NS // 2), insist_ns=2 * ttl_ns, pause_ns=ttl_ns // 20),
            THINKS_NS,
        ),
    }
    away = (
        (first, at_start(), on(ALICE, "granted", after_ns=THINKS_NS // 4)),
        (second, on(ALICE, "granted", after_ns=THINKS_NS // 2), over),
    )
    full = timed_fault(FillMemory, on(ALICE, "extend invoke"), nodes=names[some:])
    yield told(setting, tracks, lasting_until(full, over))
    for down in (True, False):
        yield told(
            setting,
            tracks,
            *(each for nodes, at, until in away for each in _away(nodes, at, until, down=down)),
        )


def overtaken(setting: Setting) -> Iterator[Trial]:
    """A minority gets slow for Alice as she gives back the lock and takes it again; then another node dies.

    What she sends to it last may arrive first, on a connection that is made already: her last release before
    what took the lock. In a second round she looks at the lock between the two, for which a connection is
    needed, too.
    """
    ttl_ns, names = setting.ttl_ns, setting.names
    slow, part_ns = names[len(names) - (len(names) - 1) // 2 :], ttl_ns // 10
    for looks in (False, True):
        for by_ns in (ttl_ns // 12, ttl_ns // 40):
            last = write(3 * by_ns) if looks else []
            hers = [
                *(action(Acquire), action(Release, after(part_ns))),
                *(action(Acquire, after(part_ns)), action(Release, after(part_ns))),
                *(action(Acquire), *last, action(Release, None if looks else after(3 * by_ns))),
            ]
            asks = on(ALICE, "release returns", 3, after_ns=8 * by_ns)
            his = [action(Acquire, asks, insist_ns=2 * ttl_ns), action(Release)]
            down = timed_fault(Crash, on(BOB, "acquire invoke"), nodes=names[:1])
            for event, nth in (("release invoke", 2), ("acquire invoke", 3), ("granted", 3)):
                gets_slow = timed_fault(Delay, on(ALICE, event, nth), ALICE, slow, by_ns)
                yield told(setting, {ALICE: hers, BOB: his}, gets_slow, down)


def until_its_end(setting: Setting, *faults: Timed) -> Trial:
    """Alice lets her lease run out, and Bob insists from shortly before its end on, without a longer break.

    If her keys go before she stops to believe in it, he is granted the lock then, wherever the end is: also
    that of a lease which is shorter than was asked for, which is no margin if its keys are as short.
    """
    ttl_ns = setting.ttl_ns
    insists = action(
        Acquire,
        on(ALICE, "granted", after_ns=ttl_ns * 9 // 10),
        insist_ns=ttl_ns // 5,
        pause_ns=ttl_ns // 1000,
    )
    tracks = {ALICE: [action(Acquire), action(Read)], BOB: use(insists, ttl_ns // 100)}
    return told(setting, tracks, *faults)


def _away(nodes: tuple[str, ...], at: Trigger, until: Trigger, *, down: bool) -> Iterator[Timed]:
    """These nodes are down, or they and Alice do not hear each other."""
    if down:
        faults = [timed_fault(Crash, at, nodes=(name,)) for name in nodes]
    else:
        faults = [timed_fault(Cut, at, ALICE, nodes)]
    for fault in faults:
        yield lasting_until(fault, until)
