"""Situations that strike between two requests of one operation, made to what a lock sends.

Each request of an operation but the first rests on an answer that may be out of date when it is executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.evidence import NEVER, Operation
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.examine.seen import Seen
from lab.faults.hold import Hold
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.faults import lasting, timed_fault
from lab.search.runner import run_trial
from lab.search.trial import CLIENTS, START_NS, Round, Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS

CAROL: Final = CLIENTS[2]
SENDINGS_MAX: Final = 6
"""At so many sendings of one operation at most; a correct lock has one or two."""
BRIEF_NS: Final = (60 * MS_NS, 200 * MS_NS)
"""How long a request is under way: less than the time-outs for a node of most locks, of many of them."""
TURN_NS: Final = 10 * MS_NS
"""How long Bob holds the lock meanwhile."""


def in_between(setting: Setting, *, fenced: bool, extends: bool) -> Iterator[Trial]:
    """All of them, for a lock that is ``fenced`` or not, and ``extends`` leases or does not."""
    yield from after_a_look(setting)
    if fenced:
        yield from slow_requests(setting)
    if extends:
        yield from late_extension(setting)
    yield from answers_too_late(setting, extends=extends)


def slow_requests(setting: Setting) -> Iterator[Trial]:
    """A request of Alice's acquire is slow, and Bob takes the lock and gives it back before it arrives."""
    mine = (Round(0, TURN_NS), Round(S_NS // 2, TURN_NS))
    theirs = Round(S_NS // 10, TURN_NS)
    seen = watched(setting.with_clients({ALICE: mine, BOB: (theirs,)}, demand=False))
    asked = seen.of(ALICE, "acquire")[1:2] if seen is not None else []
    given_back = seen.of(BOB, "release") if seen is not None else []
    if seen is None or not asked or not given_back or given_back[0].ended_ns > asked[0].called_ns:
        return
    think_ns = asked[0].called_ns + TURN_NS - given_back[0].ended_ns
    for nth in sendings_in(seen, asked[0].called_ns, asked[0].ended_ns):
        for lasts_ns in BRIEF_NS:
            slow = timed_fault(Hold, on(ALICE, "sends", nth), ALICE, setting.names, 0, lasts_ns, "requests")
            clients: dict[str, tuple[Round, ...]] = {
                ALICE: mine,
                BOB: (theirs, Round(think_ns, TURN_NS)),
            }
            yield setting.with_clients(clients, (slow,))


def late_extension(setting: Setting) -> Iterator[Trial]:
    """A request of Alice's extension arrives in the lease of Bob, who lets it run out; then Carol asks."""
    ttl_ns = setting.ttl_ns
    mine = (Round(0, ttl_ns // 10, 1), Round(ttl_ns // 10, ttl_ns * 12 // 10, 1, "keep"))
    seen = watched(setting.with_clients({ALICE: mine}, demand=False))
    asked = seen.of(ALICE, "acquire")[1:2] if seen is not None else []
    made = seen.of(ALICE, "extend")[1:2] if seen is not None else []
    if seen is None or not made or asked[0].how != "ok":
        return
    since_ns = MONOTONIC_START_NS + START_NS
    over_ns = asked[0].called_ns + ttl_ns
    for nth in sendings_in(seen, made[0].called_ns, made[0].ended_ns):
        lasts_ns = over_ns - made[0].called_ns + ttl_ns * 8 // 10
        late = timed_fault(Hold, on(ALICE, "sends", nth), ALICE, setting.names, 0, lasts_ns, "requests")
        theirs = Round(over_ns + ttl_ns // 20 - since_ns, ttl_ns // 10, ends="keep")
        asks = Round(over_ns + ttl_ns * 17 // 10 - since_ns, TURN_NS)
        clients = {ALICE: mine, BOB: (theirs,), CAROL: (asks,)}
        yield setting.with_clients(clients, (late,), demand=False)


def after_a_look(setting: Setting) -> Iterator[Trial]:
    """What Alice sends to a node after its first answer is slow, and Bob holds the lock when it arrives.

    In a release it arrives in the lease after hers, and Carol asks then; in an acquire soon.
    """
    ttl_ns = setting.ttl_ns
    mine = (Round(0, ttl_ns // 10), Round(ttl_ns // 10, ttl_ns * 3 // 10))
    seen = watched(setting.with_clients({ALICE: mine}, demand=False))
    if seen is None or len(seen.of(ALICE, "release")) < len(mine):
        return
    since_ns = MONOTONIC_START_NS + START_NS
    asked, given_back = seen.of(ALICE, "acquire")[1], seen.of(ALICE, "release")[1]
    over_ns = asked.called_ns + ttl_ns
    theirs = Round(over_ns + ttl_ns // 20 - since_ns, ttl_ns * 9 // 10)
    asks = Round(over_ns + ttl_ns * 8 // 10 - since_ns, TURN_NS)
    lasts_ns = over_ns + ttl_ns // 2 - given_back.called_ns
    for slow in _slow_after_the_first(seen, given_back, lasts_ns):
        yield setting.with_clients({ALICE: mine, BOB: (theirs,), CAROL: (asks,)}, slow, demand=False)
    for lasts_ns in BRIEF_NS:
        for slow in _slow_after_the_first(seen, asked, lasts_ns):
            meanwhile = Round(asked.ended_ns + TURN_NS - since_ns, ttl_ns // 5)
            yield setting.with_clients({ALICE: mine, BOB: (meanwhile,)}, slow)


def _slow_after_the_first(seen: Seen, operation: Operation, lasts_ns: int) -> Iterator[tuple[Timed, ...]]:
    """For the second request of an operation to each node, the third and so on: all these are held up."""
    asked: dict[str, int] = {}
    slow: dict[int, list[Timed]] = {}
    for nth, (at_ns, targets) in enumerate(_sent(seen), 1):
        if not operation.called_ns <= at_ns <= operation.ended_ns < NEVER:
            continue
        again: dict[int, list[str]] = {}
        for node in targets:
            asked[node] = asked.get(node, 0) + 1
            again.setdefault(asked[node], []).append(node)
        for times, nodes in again.items():
            held = timed_fault(Hold, on(ALICE, "sends", nth), ALICE, tuple(nodes), 0, lasts_ns, "requests")
            slow.setdefault(times, []).append(held)
    for times, faults in slow.items():
        if times > 1:
            yield tuple(faults)


def answers_too_late(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """The answers to a request of Alice's come just after she has stopped waiting for them."""
    ttl_ns = setting.ttl_ns
    mine = (Round(0, TURN_NS, int(extends)), Round(ttl_ns // 10, ttl_ns // 10, int(extends)))
    bare = setting.with_clients({ALICE: mine, BOB: (Round(ttl_ns // 4, TURN_NS),)})
    seen = watched(bare)
    for f in ("acquire", "extend"):
        made = seen.of(ALICE, f)[1:2] if seen is not None else []
        sendings = sendings_in(seen, made[0].called_ns, made[0].ended_ns) if seen is not None and made else []
        for nth in sendings:
            silent = timed_fault(Hold, on(ALICE, "sends", nth), ALICE, setting.names, direction="replies")
            waits_ns = _until_next_sending_ns(watched(replace(bare, faults=(silent,), demand_ns=0)), nth)
            if TURN_NS < waits_ns < ttl_ns // 2:
                yield replace(bare, faults=(lasting(silent, waits_ns + TURN_NS),))


def _until_next_sending_ns(seen: Seen | None, nth: int) -> int:
    """How long after this sending of Alice's the next one was; 0 if there was none."""
    times_ns = sent_ns(seen) if seen is not None else []
    return times_ns[nth] - times_ns[nth - 1] if nth < len(times_ns) else 0


def watched(trial: Trial) -> Seen | None:
    """What is seen of a trial; None: a client ended outside of its operations."""
    try:
        return Seen(run_trial(trial, watch=True))
    except UnknownOutcome:
        return None


def sendings_in(seen: Seen, called_ns: int, ended_ns: int) -> list[int]:
    """The numbers of Alice's sendings in an operation, of the first few; none if it did not end."""
    inside = [at for at, ns in enumerate(sent_ns(seen), 1) if called_ns <= ns <= ended_ns < NEVER]
    return inside[:SENDINGS_MAX]


def sent_ns(seen: Seen) -> list[int]:
    """When Alice sent to nodes since the start, by the history's clock."""
    return [ns for ns, _ in _sent(seen)]


def _sent(seen: Seen) -> list[tuple[int, list[str]]]:
    """When Alice sent to nodes since the start, by the history's clock, and to which."""
    sendings = seen.outcome.sendings[ALICE]
    return [
        (ns + MONOTONIC_START_NS, targets)
        for ns, targets in zip(sendings.times_ns, sendings.targets, strict=True)
        if ns >= START_NS
    ]
