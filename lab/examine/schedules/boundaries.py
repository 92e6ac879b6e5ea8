"""Faults at every command boundary of a lock: before a client sends, on the way there, and on the way back.

A *sending* is what one client sends to nodes in one instant (``lab.substrates.sim.sending``). A run without
faults tells how many sendings each client has in a program, and to which nodes each goes; at each of them
each kind of fault is placed on each set of its nodes that differs by more than the names of equal nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lab.faults.answers import Answers
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.fill_memory import FillMemory
from lab.faults.hold import Hold
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.faults import lasting, nodes_of, timed_fault
from lab.search.runner import run_trial
from lab.search.trial import START_NS, Trial
from lab.substrates.base import Direction

SHORT_NS: Final = 5_000_000
"""As long as an answer takes: a cut of this length loses one exchange, and ends its connection."""
AHEAD_MAX: Final = 12
"""At how many of a client's first sendings faults are placed: what comes later repeats what came before."""


WAYS: Final[tuple[Direction, ...]] = ("requests", "replies")


@dataclass(frozen=True, slots=True)
class Boundary:
    """The ``nth`` time that a client sends to nodes, and to which."""

    client: str
    nth: int
    nodes: tuple[str, ...]
    at_ns: int = field(default=0, compare=False)


def boundaries(trial: Trial, ahead_max: int | None = AHEAD_MAX) -> list[Boundary]:
    """The command boundaries of a trial, as a run of it shows them; clients in their order.

    Of each client only the first ``ahead_max``, or all with None.
    """
    outcome = run_trial(trial, watch=True)
    found = []
    for client, sendings in outcome.sendings.items():
        started = [
            (tuple(sorted(targets)), at_ns)
            for at_ns, targets in zip(sendings.times_ns, sendings.targets, strict=True)
            if at_ns >= START_NS
        ]
        found += [Boundary(client, nth, *each) for nth, each in enumerate(started[:ahead_max], start=1)]
    return found


def targets_of(boundary: Boundary, of: int) -> list[tuple[str, ...]]:
    """The sets of nodes that a fault at a boundary may hit, one for each that equal nodes make no other.

    Of a sending to several nodes: the first of them, as many as may fail, one more than that, and all; of
    those that may fail also the last ones, since an implementation may treat the first node in another way.
    """
    nodes = boundary.nodes
    minority = (of - 1) // 2
    sizes = sorted({1, minority, minority + 1, len(nodes)} & set(range(1, len(nodes) + 1)))
    chosen = [nodes[:size] for size in sizes]
    if 0 < minority < len(nodes):
        chosen.append(nodes[-minority:])
    return list(dict.fromkeys(chosen))


def faults_at(boundary: Boundary, trial: Trial) -> Iterator[Timed]:
    """Every fault at this boundary that leaves clocks and nodes alone.

    Requests or replies that are lost (just these, or all from now on) or held past the end of a lease, an
    outage for most of a lease, requests that those which are sent after them overtake on other connections, a
    client that stops before it sends (for longer than a lease), one that dies there, a broken connection,
    requests that all its nodes answer with an error and do not execute, and nodes whose memory is full: they
    execute a script up to its first write.
    """
    when = on(boundary.client, "sends", boundary.nth)
    past_ns = _past_ns(trial)
    for nodes in targets_of(boundary, trial.nodes):
        for way in WAYS:
            lost = timed_fault(Cut, when, boundary.client, nodes, direction=way)
            yield lasting(lost, SHORT_NS)
            yield lost
            held = timed_fault(Hold, when, boundary.client, nodes, direction=way)
            yield lasting(held, past_ns)
            yield lasting(held, trial.ttl_ns // 40)
            yield lasting(held, trial.ttl_ns // 12)
        yield timed_fault(Cut, when, boundary.client, nodes, lasts_ns=trial.ttl_ns * 3 // 4)
        for by_ns in (trial.ttl_ns // 12, trial.ttl_ns // 3):
            yield timed_fault(Delay, when, boundary.client, nodes, by_ns, SHORT_NS, "requests")
        yield timed_fault(Reset, when, boundary.client, nodes)
    for lasts_ns in (past_ns, trial.ttl_ns * 3 // 10):
        yield timed_fault(Pause, when, client=boundary.client, lasts_ns=lasts_ns)
    yield timed_fault(ClientCrash, when, client=boundary.client)
    yield timed_fault(Answers, when, boundary.client, boundary.nodes, lasts_ns=SHORT_NS, error="BUSY")
    yield timed_fault(FillMemory, when, nodes=boundary.nodes, lasts_ns=trial.ttl_ns // 12)


def node_faults_at(boundary: Boundary, trial: Trial) -> Iterator[Timed]:
    """Nodes that crash at this boundary and come back with what they had, or stay away."""
    when = on(boundary.client, "sends", boundary.nth)
    for name in dict.fromkeys((boundary.nodes[0], boundary.nodes[-1])):
        yield timed_fault(Crash, when, nodes=(name,), lasts_ns=trial.ttl_ns // 100)
        yield timed_fault(Crash, when, nodes=(name,))


def single_faults(trial: Trial) -> list[Timed]:
    """All faults of one at the command boundaries of this trial."""
    return [
        fault
        for boundary in boundaries(trial)
        for each in (faults_at, node_faults_at)
        for fault in each(boundary, trial)
    ]


def small_faults(boundary: Boundary, trial: Trial, hit: tuple[str, ...] = ()) -> list[list[Timed]]:
    """What a space of faults is exhausted with, by kind, each on every set of nodes of the boundary.

    Replies of this exchange that are lost, requests that are held past the end of a lease, and a client that
    stops before it sends, for as long. Nodes that are not in ``hit`` are equal, and so are those that are: of
    sets that differ only by the names of equal nodes there is one.
    """
    when, past_ns = on(boundary.client, "sends", boundary.nth), _past_ns(trial)
    inside = [name for name in boundary.nodes if name in hit]
    outside = [name for name in boundary.nodes if name not in hit]
    sets = [
        (*inside[:some], *outside[:others])
        for some in range(len(inside) + 1)
        for others in range(len(outside) + 1)
        if some + others
    ]
    return [
        [timed_fault(Cut, when, boundary.client, nodes, 0, SHORT_NS, "replies") for nodes in sets],
        [timed_fault(Hold, when, boundary.client, nodes, 0, past_ns, "requests") for nodes in sets],
        [timed_fault(Pause, when, boundary.client, lasts_ns=past_ns)],
    ]


def first_faults(base: Trial) -> list[Timed]:
    """All small faults at the boundaries of a trial without faults."""
    return [
        fault
        for boundary in boundaries(base, None)
        for kind in small_faults(boundary, base)
        for fault in kind
    ]


def second_faults(trial: Trial) -> list[Timed]:
    """All small faults that may follow that of a trial, at the boundaries of a run in which that one struck.

    Until the second of two faults strikes, a run is that with the first one alone: so the first faults of a
    program, each with its second ones, are all pairs. At the boundary of the first there are the kinds after
    its own only: the others come with the faults in the other order, or are one fault on more nodes.
    """
    (first,) = trial.faults
    there = boundaries(trial, None)
    struck = next(each for each in there if _is_at(first, each))
    found = []
    for boundary in there:
        kinds = small_faults(boundary, trial, nodes_of(first))
        if (boundary.at_ns, boundary.client) == (struck.at_ns, struck.client):
            own = [type(kind[0].step) for kind in kinds].index(type(first.step))
            kinds = kinds[own + 1 :]
        elif (boundary.at_ns, boundary.client) < (struck.at_ns, struck.client):
            continue
        found += [fault for kind in kinds for fault in kind]
    return found


def _is_at(fault: Timed, boundary: Boundary) -> bool:
    return fault.at is not None and (fault.at.track, fault.at.nth) == (boundary.client, boundary.nth)


def _past_ns(trial: Trial) -> int:
    """Longer than a lease."""
    return trial.ttl_ns * 11 // 10
