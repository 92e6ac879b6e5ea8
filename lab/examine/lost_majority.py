"""Situations in which an extension finds no majority while the lease is good, made to a lock's own pace.

A minority of the nodes is away when Alice takes the lock, and comes back without her key. One more goes
before she extends. What the lock does then, and when, a run with her alone shows; Bob asks when her keys were
deleted, or, where she was told that her lease was extended, when its first term is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lab.errors import UnknownOutcome
from lab.examine.evidence import Operation
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.examine.seen import Seen
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, at_start, on
from lab.search.faults import FOR_GOOD, timed_fault
from lab.search.runner import run_trial
from lab.search.trial import START_NS, Round, Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS

BEFORE_NS: Final = S_NS // 10
"""So long before she asks nodes are away: what she sends is not under way when they go."""
TURN_NS: Final = 4 * S_NS
"""How long Alice computes before her extension, and after it."""


def lost_majority(setting: Setting) -> Iterator[Trial]:
    """The situations, with nodes that are down and with nodes that are silent for Alice."""
    for go in (_down, _silent):
        yield from _away_by(setting, go)


def _away_by(setting: Setting, go: Callable[..., tuple[Timed, ...]]) -> Iterator[Trial]:
    names = setting.names
    some = (len(names) - 1) // 2
    first, second = names[len(names) - some :], names[len(names) - some - 1 : len(names) - some]
    later = on(ALICE, "granted", after_ns=TURN_NS // 4)
    lasts_ns = FOR_GOOD
    for _ in range(2):  # first it is seen how long she takes to be granted the lock
        alone = setting.with_clients(
            {ALICE: (Round(BEFORE_NS, 2 * TURN_NS, 1),)},
            (*go(first, at_start(), lasts_ns), *go(second, later)),
            demand=False,
        )
        try:
            seen = Seen(run_trial(alone, watch=True))
        except UnknownOutcome:
            return
        acquires, extensions = seen.of(ALICE, "acquire"), seen.of(ALICE, "extend")
        if not first or not extensions or acquires[0].how != "ok":
            return
        grant, extension = acquires[0], extensions[0]
        start_ns = MONOTONIC_START_NS + START_NS
        lasts_ns = grant.ended_ns - start_ns + TURN_NS // 4
    bob_ns, hold_ns = _when_to_ask(seen, setting, grant, extension)
    if not bob_ns:
        return
    faults = (
        *go(first, at_start(), lasts_ns),
        *go(second, later, bob_ns - grant.ended_ns - TURN_NS // 4 - S_NS // 10),
    )
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(BEFORE_NS, hold_ns, 1),),
        BOB: (Round(bob_ns - start_ns, TURN_NS),),
    }
    yield setting.with_clients(clients, faults, demand=False)


def _when_to_ask(seen: Seen, setting: Setting, grant: Operation, extension: Operation) -> tuple[int, int]:
    """When Bob asks, by the history's clock, and how long Alice computes in all; 0: there is no use in it."""
    ends_ns = grant.called_ns + setting.ttl_ns
    if extension.how == "ok":
        return ends_ns + S_NS, setting.ttl_ns * 16 // 10
    released_ns = min((each.called_ns for each in seen.of(ALICE, "release")), default=ends_ns)
    deleted = [
        each.time_ns
        for each in seen.requests
        if each.sent.client == ALICE
        and each.deleted()
        and extension.called_ns < each.time_ns < min(released_ns, ends_ns)
    ]
    if not deleted or deleted[0] + 2 * TURN_NS > ends_ns:
        return 0, 0
    return deleted[0] + S_NS // 2, 2 * TURN_NS


def _silent(nodes: tuple[str, ...], when: Trigger, lasts_ns: int = FOR_GOOD) -> tuple[Timed, ...]:
    """These nodes and Alice do not hear each other."""
    return (timed_fault(Cut, when, ALICE, nodes, lasts_ns=lasts_ns),)


def _down(nodes: tuple[str, ...], when: Trigger, lasts_ns: int = FOR_GOOD) -> tuple[Timed, ...]:
    """These nodes go down, all of them at once."""
    return tuple(timed_fault(Crash, when, nodes=(name,), lasts_ns=lasts_ns) for name in nodes)
