"""Directed trials with clocks that are moved, nodes that forget, and clients that are late by a pause.

A clock that runs a little fast is within the assumptions; everything else here is beyond some of them, and
what comes of it counts as a defect only where the reference survives the same schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB, PROGRAMS, S_NS, Program, Setting
from lab.examine.schedules.building import told
from lab.examine.schedules.directed import until_its_end
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.scenario.steps import Acquire, Read, Release
from lab.scenario.triggers import after, at_start, on
from lab.search.as_tracks import action
from lab.search.faults import timed_fault
from lab.search.trial import OTHER_KEY, Round, Trial

LONG_TTL_NS: Final = 30 * S_NS
"""Long enough for a clock that runs 0.8 % too fast to be off by a quarter of a second."""
SHORT_TTL_NS: Final = S_NS
FAST_PPM: Final = 8_000
EVENTS: Final = ("acquire invoke", "granted", "write invoke", "extend invoke", "release invoke")


def beyond(setting: Setting, programs: tuple[Program, ...]) -> Iterator[Trial]:
    """The trials, those with a client's clock for each of these programs."""
    yield from fast_clocks(setting)
    yield from client_clocks(setting, programs)
    yield from late_writes(setting)
    if any(program.extends for program in programs):
        yield from late_votes(setting)
    yield from node_clocks(setting)
    yield from forgetting(setting)


def fast_clocks(setting: Setting) -> Iterator[Trial]:
    """Nodes' clocks run 0.8 % off; each client reaches a majority, with one node in common, or all nodes.

    Bob asks shortly before the end of Alice's lease.
    """
    long = setting.with_ttl(LONG_TTL_NS)
    names = setting.names
    majority = setting.nodes // 2 + 1
    first, last = names[:majority], names[-majority:]
    shared = tuple(name for name in first if name in last)
    clients = {
        ALICE: (Round(0, LONG_TTL_NS * 9985 // 10_000),),
        BOB: (Round(LONG_TTL_NS * 9925 // 10_000, LONG_TTL_NS // 100),),
    }
    cuts = tuple(
        timed_fault(Cut, at_start(), client, tuple(name for name in names if name not in reached))
        for client, reached in ((ALICE, first), (BOB, last))
        if len(reached) < len(names)
    )
    for drifting in (shared, names):
        faults = tuple(timed_fault(Drift, at_start(), nodes=(name,), ppm=FAST_PPM) for name in drifting)
        yield long.with_clients(clients, (*cuts, *faults), demand=False)
    if cuts:  # one that waits for silent nodes answers too late
        yield long.with_clients(clients, faults, demand=False)
    yield until_its_end(long, *faults)


def client_clocks(setting: Setting, programs: tuple[Program, ...]) -> Iterator[Trial]:
    """A client's wall clock jumps, forward or back, or runs at half or double rate, at each moment."""
    past_ns = setting.ttl_ns + S_NS
    for program in programs:
        trial = setting.trial(program)
        for event in EVENTS:
            if event == "extend invoke" and not program.extends:
                continue
            for client in (ALICE, BOB):
                when = on(client, event)
                for by_ns in (-past_ns, past_ns):
                    yield replace(trial, faults=(timed_fault(Jump, when, client, by_ns=by_ns),))
                yield replace(trial, faults=(timed_fault(Drift, when, client, ppm=-500_000),))
        slow = timed_fault(Hold, on(ALICE, "sends", 1), ALICE, trial.node_names, 0, S_NS // 10, "replies")
        back = timed_fault(Jump, on(ALICE, "acquire invoke", after_ns=S_NS // 20), ALICE, by_ns=-past_ns)
        yield replace(trial, faults=(slow, back))


def late_writes(setting: Setting) -> Iterator[Trial]:
    """A client is paused between its last check and its write, until another one has written."""
    setting = setting.with_ttl(SHORT_TTL_NS)
    ttl_ns = setting.ttl_ns
    for before in (0, 7, 8, 9):  # fences of one and of two digits; a lease that is over is not written under
        quick = tuple(Round(0, ttl_ns * 105 // 100) for _ in range(before))
        clients = {
            ALICE: (*quick, Round(0, ttl_ns // 5)),
            BOB: (Round(ttl_ns * (13 + 11 * before) // 10, ttl_ns // 5),),
        }
        pause = timed_fault(Pause, on(ALICE, "write invoke"), ALICE, lasts_ns=2 * ttl_ns)
        yield setting.with_clients(clients, (pause,), demand=False)


def late_votes(setting: Setting) -> Iterator[Trial]:
    """A minority answers late; when the lease was extended, the clock of one of the other nodes jumps.

    All nodes keep the key by then, and those that answered late count as much as the others.
    """
    names = setting.names
    minority = (setting.nodes - 1) // 2
    trial = setting.trial(_named("extended"))
    for late, jumping in ((names[-minority:], names[0]), (names[:minority], names[-1])) if minority else ():
        slow = timed_fault(Hold, on(ALICE, "acquire invoke"), ALICE, late, 0, setting.ttl_ns // 40, "replies")
        when = on(ALICE, "extend invoke", after_ns=setting.ttl_ns // 10)
        jump = timed_fault(Jump, when, nodes=(jumping,), by_ns=setting.ttl_ns + S_NS)
        yield replace(trial, faults=(slow, jump))


def node_clocks(setting: Setting) -> Iterator[Trial]:
    """The clock of one node, or of a minority, jumps while Alice holds the lock."""
    past_ns = setting.ttl_ns + S_NS
    names = setting.names
    minority = max(1, (setting.nodes - 1) // 2)
    for program in ("contend", "whole lease", "extended"):
        trial = setting.trial(_named(program))
        for hit in dict.fromkeys((names[:1], names[-1:], names[:minority], names[-minority:])):
            for by_ns in (past_ns, -past_ns):
                faults = tuple(timed_fault(Jump, on(ALICE, "granted"), nodes=(n,), by_ns=by_ns) for n in hit)
                yield replace(trial, faults=faults)


def forgetting(setting: Setting) -> Iterator[Trial]:
    """One node, or a minority, restarts without its data while Alice holds the lock.

    Or all restart with their data, and without the scripts that they were sent, which no file keeps.
    """
    names = setting.names
    minority = max(1, (setting.nodes - 1) // 2)
    for program in ("contend", "whole lease", "in turns"):
        trial = setting.trial(_named(program))
        for hit in dict.fromkeys((names[:1], names[-1:], names[:minority])):
            faults = tuple(
                timed_fault(Crash, on(ALICE, "granted"), nodes=(n,), lasts_ns=S_NS // 10) for n in hit
            )
            yield replace(trial, faults=faults, persistence="none")
        yield replace(
            trial,
            faults=tuple(
                timed_fault(Crash, on(ALICE, "granted"), nodes=(n,), lasts_ns=S_NS // 10) for n in names
            ),
        )
    yield from _forgotten_scripts(setting)


def _forgotten_scripts(setting: Setting) -> Iterator[Trial]:
    """All nodes restart with their data while Alice holds the lock, and she asks for another one meanwhile.

    So she has noticed that her connections are broken when she gives the lock back; Bob asks from then on.
    """
    ttl_ns = setting.ttl_ns
    asks = {"insist_ns": 3 * ttl_ns, "pause_ns": ttl_ns // 20}
    tracks = {
        ALICE: (
            *(action(Acquire), action(Acquire, after(ttl_ns // 20), key=OTHER_KEY)),
            *(action(Release, key=OTHER_KEY), action(Read), action(Release)),
        ),
        BOB: (action(Acquire, on(ALICE, "released", after_ns=ttl_ns // 50), **asks), action(Release)),
    }
    crashes = [
        timed_fault(Crash, on(ALICE, "granted"), nodes=(n,), lasts_ns=ttl_ns // 100) for n in setting.names
    ]
    yield told(setting, tracks, *crashes)


def _named(name: str) -> Program:
    return next(each for each in PROGRAMS if each.name == name)
