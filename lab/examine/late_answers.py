"""Situations in which answers come long after Alice stopped waiting for them, while she waits for others.

A client library that goes on using the connection takes each of them for the answer to a later request. A run
with Alice alone shows how long she waits; then Bob takes the lock, and she asks for it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.evidence import NEVER
from lab.examine.in_between import sendings_in, sent_ns, watched
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.faults.hold import Hold
from lab.scenario.triggers import Trigger, on
from lab.search.faults import timed_fault
from lab.search.trial import START_NS, Round, Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS

TURN_NS: Final = 10 * MS_NS
"""How long Alice holds the lock."""
GRANTED_WITHIN_NS: Final = 50 * MS_NS
"""So long after Bob Alice asks."""


def late_answers(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """The answers to her acquire, to her release and to her extension, each in her second turn."""
    mine = (Round(0, TURN_NS, int(extends)), Round(setting.ttl_ns // 10, TURN_NS, int(extends)))
    seen = watched(setting.with_clients({ALICE: mine}, demand=False))
    for f in ("acquire", "release", "extend"):
        made = seen.of(ALICE, f)[1:2] if seen is not None else []
        sendings = sendings_in(seen, made[0].called_ns, made[0].ended_ns) if seen is not None and made else []
        if sendings:
            when = on(ALICE, "sends", sendings[0])
            yield from _in_the_next_turn(setting, mine, when)


def _in_the_next_turn(setting: Setting, mine: tuple[Round, ...], when: Trigger) -> Iterator[Trial]:
    """Answers from this sending on come when Bob holds the lock, and Alice has asked for it once more."""
    silent = timed_fault(Hold, when, ALICE, setting.names, direction="replies")
    seen = watched(setting.with_clients({ALICE: mine}, (silent,), demand=False))
    if seen is None:
        return
    ended = [each.ended_ns for f in ("acquire", "extend", "release") for each in seen.of(ALICE, f)]
    times_ns = sent_ns(seen)
    if max(ended) == NEVER or len(times_ns) < when.nth:
        return
    struck_ns, over_ns = times_ns[when.nth - 1], max(*ended, times_ns[-1])
    later = [ns for ns in (*times_ns[when.nth :], *ended) if ns > struck_ns]
    waits_ns = min(later, default=struck_ns) - struck_ns
    asks_ns = over_ns + min(over_ns - struck_ns, S_NS) + TURN_NS  # what she sent last was given up as well
    again_ns = asks_ns + GRANTED_WITHIN_NS
    arrive_ns = again_ns + waits_ns // 2  # she still waits for the answers to what she asked last
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (*mine, Round(again_ns - max(ended), setting.ttl_ns // 10)),
        BOB: (Round(asks_ns - MONOTONIC_START_NS - START_NS, setting.ttl_ns * 8 // 10),),
    }
    late = timed_fault(Hold, when, ALICE, setting.names, 0, arrive_ns - struck_ns, "replies")
    yield setting.with_clients(clients, (late,))
