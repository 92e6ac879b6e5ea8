"""Deadlock among clients: a cycle of waits, each for a lock that the next one holds.

Alice waits for a lock while she holds another, if her acquire of the one was called and had not come back
inside the guaranteed window of a grant of hers of the other. She waits for Bob while he holds, in his
guaranteed window, the lock that she waits for. `deadlock`: at one instant these waits form a cycle (R. C.
Holt, "Some Deadlock Properties of Computer Systems", 1972; with one lock of each name, a cycle is
sufficient).

**Sound**: in guaranteed windows each lock is held in every order of the operations, and a call that has not
come back waits, so nobody in the cycle can go on before a wait ends (by a time-out or a lease). **Exact** for
sessions (no TTL) whose outcomes are all known, as far as the record goes: a wait that is in no window, given
back in time or not yet taken, is no wait for certain.

Clients that take locks in different orders do this to each other with any lock: it is a warning. Only where
the header promises that deadlocks are found and broken (`breaks_deadlocks`) is one that lasted longer than
`grace_ns` a violation. The graph is networkx's; it is walked only at instants at which a client that holds
something begins to wait, or something is granted to one that waits. Semaphores and readers, which wait for
several, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checker.history.arrays import by_group, sort_grouped
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions, some
from checker.history.operations import NONE, F, Index
from checker.verdict import Finding, Property, Severity
from checker.words import in_words

DEADLOCK = Property.DEADLOCK_FREEDOM


@dataclass(frozen=True, slots=True)
class Wait:
    """`waiter` (a client's code) waits in acquire `row` for the lock that `holder` holds by `grant`."""

    waiter: int
    holder: int
    row: int
    grant: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Waits that form a circle, each for the next, and the time that all of them share."""

    waits: tuple[Wait, ...]
    start_ns: int
    end_ns: int


def deadlocks(evidence: Evidence) -> list[Finding]:
    """`deadlock`: a circle of clients in which each waits for the next."""
    found = list(cycles(evidence))
    return limited([_deadlock(evidence, cycle) for cycle in found[:LISTED_MAX]], len(found))


def cycles(evidence: Evidence) -> Iterator[Cycle]:
    """All different circles of waits, in the order of time."""
    waits = list(_waits(evidence))
    if len(waits) < 2:
        return
    import networkx as nx

    seen: set[frozenset[tuple[int, int]]] = set()
    for now in sorted({wait.start_ns for wait in waits}):
        active = {(w.waiter, w.holder): w for w in waits if w.start_ns <= now < w.end_ns}
        graph = nx.DiGraph(list(active))
        for circle in sorted(nx.simple_cycles(graph)):
            steps = list(zip(circle, [*circle[1:], circle[0]], strict=True))
            some = tuple(active[step] for step in steps)
            name = frozenset((w.row, w.grant) for w in some)
            if name not in seen:
                seen.add(name)
                yield Cycle(some, max(w.start_ns for w in some), min(w.end_ns for w in some))


def _waits(evidence: Evidence) -> Iterator[Wait]:
    """Every wait for certain of a client that holds another lock meanwhile."""
    ops, grants, segments = evidence.ops, evidence.grants, evidence.guaranteed
    key = grants.key[segments.grant]
    if not some(key != key[:1]):
        return
    end_ns = np.minimum(segments.end_ns, evidence.history.end_ns)
    client = grants.client[segments.grant]
    rows = ops.rows(F.ACQUIRE)
    back = np.minimum(np.minimum(ops.return_ns[rows], ops.info_ns[rows]), evidence.history.end_ns)
    for row, over in _candidates(evidence, rows, back):
        call, mine, wanted = int(ops.call_ns[row]), int(ops.client[row]), int(ops.key[row])
        meets = (segments.start_ns < over) & (end_ns > call)
        own = positions(meets & (client == mine) & (key != wanted))
        theirs = positions(meets & (client != mine) & (key == wanted))
        for one in own.tolist():
            for other in theirs.tolist():
                start = max(call, int(segments.start_ns[one]), int(segments.start_ns[other]))
                end = min(over, int(end_ns[one]), int(end_ns[other]))
                if start < end:
                    yield Wait(mine, int(client[other]), row, int(segments.grant[other]), start, end)


def _candidates(evidence: Evidence, rows: Index, back: np.ndarray) -> Iterator[tuple[int, int]]:
    """Acquires (row, end of the call) of clients that hold any lock while they wait: as a rule few."""
    ops, grants, segments = evidence.ops, evidence.grants, evidence.guaranteed
    client = grants.client[segments.grant]
    order = sort_grouped(client, segments.start_ns)
    client, start, end = client[order], segments.start_ns[order], segments.end_ns[order]
    asked = positions(ops.key[rows] != NONE)
    asker = ops.client[rows[asked]]
    in_turn = by_group(asker)
    if in_turn is not None:
        asked, asker = asked[in_turn], asker[in_turn]
    for code in np.unique(client).tolist():
        low, high = np.searchsorted(client, [code, code + 1])
        reach = np.maximum.accumulate(end[low:high])
        mine = asked[slice(*np.searchsorted(asker, [code, code + 1]))]
        at = np.searchsorted(start[low:high], back[mine])
        holding = (at > 0) & (reach[np.maximum(at - 1, 0)] > ops.call_ns[rows[mine]])
        for i in mine[holding].tolist():
            yield int(rows[i]), int(back[i])


def _deadlock(evidence: Evidence, cycle: Cycle) -> Finding:
    grants = evidence.grants
    lasted = cycle.end_ns - cycle.start_ns
    each = [
        f"{evidence.client(w.row)} waited for {evidence.key(int(grants.key[w.grant]))!r}, which "
        f"{evidence.holder(w.grant)} held"
        for w in cycle.waits
    ]
    promised = evidence.params.breaks_deadlocks and lasted > evidence.params.grace_ns
    ending = (
        f", longer than the {in_words(evidence.params.grace_ns)} in which the lock should break a deadlock"
        if promised
        else "; clients that take locks in one order cannot do this to each other"
    )
    names = [evidence.client(w.row) for w in cycle.waits]
    why = (
        f"{' and '.join(names)} waited for each other from {evidence.at(cycle.start_ns)} for at least "
        f"{in_words(lasted)}: {', '.join(each)}{ending}"
    )
    return evidence.finding(
        "deadlock",
        DEADLOCK,
        Severity.VIOLATION if promised else Severity.WARNING,
        why,
        key=int(grants.key[cycle.waits[0].grant]),
        witnesses=[
            e
            for w in cycle.waits
            for e in (evidence.invocation(w.row), evidence.completion(int(grants.row[w.grant])))
        ],
        clients=names,
        lasted_ns=lasted,
        start_offset_ns=cycle.start_ns - evidence.history.zero_ns,
    )
