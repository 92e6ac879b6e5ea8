"""Faults at every command boundary of a lock: before a client sends, on the way there, and on the way back.

A *sending* is what one client sends to nodes in one instant (see ``lab.search.sending``). A run without
faults tells how many sendings each client has in a program, and to which nodes each goes; at each of them
each kind of fault is placed on each set of its nodes that differs by more than the names of equal nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from lab.search.runner import run_trial
from lab.search.trial import START_NS, Fault, Trial, When

SHORT_NS: Final = 5_000_000
"""As long as an answer takes: a cut of this length loses one exchange, and ends its connection."""
AHEAD_MAX: Final = 12
"""At how many of a client's first sendings faults are placed: what comes later repeats what came before."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The ``nth`` time that a client sends to nodes, and to which."""

    client: str
    nth: int
    nodes: tuple[str, ...]


def boundaries(trial: Trial) -> list[Boundary]:
    """The command boundaries of a trial, as a run of it shows them; clients in their order."""
    outcome = run_trial(trial, watch=True)
    found = []
    for client, sendings in outcome.sendings.items():
        started = [
            targets
            for at_ns, targets in zip(sendings.times_ns, sendings.targets, strict=True)
            if at_ns >= START_NS
        ]
        found += [
            Boundary(client, nth, tuple(sorted(targets)))
            for nth, targets in enumerate(started[:AHEAD_MAX], start=1)
        ]
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


def faults_at(boundary: Boundary, trial: Trial) -> Iterator[Fault]:
    """Every fault at this boundary that leaves clocks and nodes alone.

    Requests or replies that are lost (just these, or all from now on) or held past the end of a lease, a
    client that stops before it sends (for longer than a lease), one that dies there, and a broken connection.
    """
    when = When("sends", boundary.client, boundary.nth)
    past_ns = trial.ttl_ns * 11 // 10
    for nodes in targets_of(boundary, trial.nodes):
        for way in ("requests", "replies"):
            lost = Fault("cut", when, boundary.client, nodes, direction=way)
            yield replace(lost, lasts_ns=SHORT_NS)
            yield lost
            held = Fault("hold", when, boundary.client, nodes, direction=way)
            yield replace(held, lasts_ns=past_ns)
            yield replace(held, lasts_ns=trial.ttl_ns // 40)
            yield replace(held, lasts_ns=trial.ttl_ns // 12)
        yield Fault("reset", when, boundary.client, nodes)
    for lasts_ns in (past_ns, trial.ttl_ns * 3 // 10):
        yield Fault("pause", when, client=boundary.client, lasts_ns=lasts_ns)
    yield Fault("client_crash", when, client=boundary.client)


def node_faults_at(boundary: Boundary, trial: Trial) -> Iterator[Fault]:
    """Nodes that crash at this boundary and come back with what they had, or stay away."""
    when = When("sends", boundary.client, boundary.nth)
    for name in {boundary.nodes[0], boundary.nodes[-1]}:
        yield Fault("crash", when, nodes=(name,), lasts_ns=trial.ttl_ns // 100)
        yield Fault("crash", when, nodes=(name,))


def single_faults(trial: Trial) -> list[Fault]:
    """All faults of one at the command boundaries of this trial."""
    return [
        fault
        for boundary in boundaries(trial)
        for each in (faults_at, node_faults_at)
        for fault in each(boundary, trial)
    ]


def pairs(faults: list[Fault]) -> Iterator[tuple[Fault, Fault]]:
    """All pairs of them, but for two of one kind at one place."""
    for one, other in combinations(faults, 2):
        if not (one.when == other.when and one.kind == other.kind and one.nodes == other.nodes):
            yield one, other
