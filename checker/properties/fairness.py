"""Fairness: is the lock granted in the order in which it was asked for, where that is promised?

`overtaken`: Bob called acquire more than `fifo_ns` after Alice (so her request had surely been queued), and
was granted the lock before her. `fifo_ns` in the header promises the order, and says how long a request may
take until it stands in the queue.

**Sound.** Let both grants be certain and held when their acquires returned (their guaranteed windows begin
there). Then each is held without a break from some instant of its acquire to the return of that acquire at
least. Were Alice's grant the earlier one, it would have ended before Bob's began, thus before his acquire
returned; but hers had not returned by then. So the order of returns is the order of the grants, as long as
no two are held at once (which `checker.properties.mutual_exclusion` decides).

**Exact** for an exclusive lock with that promise: whatever no pair contradicts, can be explained by requests
queued in the order of the grants, each within `fifo_ns` of its call.

Starvation has no bound that would hold for every lock, so it is measured: the longest wait, and how many
others were granted the lock during it.

O(n log n): the largest call stamp among the grants that had returned before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.history.arrays import largest_before, running_max
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions, some
from checker.history.operations import F, Index, Status
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge
from checker.words import in_words

FAIRNESS = Property.FAIRNESS


@dataclass(frozen=True, slots=True)
class Wait:
    """The longest time that a client waited for a key, granted in the end or not.

    `row` is the acquire, `waited_ns` how long it took (until the history ends if it never came back), and
    `passed` how many grants of the key to other clients began and were confirmed in the meantime.
    """

    row: int
    client: str
    key: str | None
    waited_ns: int
    passed: int


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on fairness, for locks that promise an order; unknown if never two asked at once."""
    held = _held_on_return(evidence)
    findings = overtaken(evidence, held)
    wait = starvation(evidence)
    measured = "" if wait is None else f"; the longest wait was {in_words(wait.waited_ns)} ({wait.client})"
    if not _contended(evidence, held):
        why = "no client asked for the lock while another waited for it"
        return judge(FAIRNESS, findings, otherwise=Outcome.UNKNOWN, why=why)
    return judge(FAIRNESS, findings, why=f"the lock was granted in the order of the requests{measured}")


def _held_on_return(evidence: Evidence) -> Index:
    """Grants (rows of `Grants`) that were certainly held when their acquires returned."""
    grants, segments = evidence.grants, evidence.guaranteed
    first = segments.start_ns == grants.acquired_ns[segments.grant] + evidence.params.epsilon_ns
    kept = np.unique(segments.grant[first])
    held: Index = kept[grants.returned[kept]]
    return held


def overtaken(evidence: Evidence, held: Index) -> list[Finding]:
    """`overtaken`: a later request was granted before an earlier one."""
    grants, slack = evidence.grants, evidence.params.fifo_ns or 0
    blur = 2 * evidence.params.epsilon_ns
    margin = slack + blur
    order = held[np.lexsort((grants.acquired_ns[held], grants.key[held]))]
    key, called, returned = grants.key[order], grants.called_ns[order], grants.acquired_ns[order]
    late = positions(largest_before(key, returned, called, key, returned - blur) > called + margin)
    findings = []
    for at in late[:LISTED_MAX].tolist():
        start = int(np.searchsorted(key, key[at]))
        later = (called[start:at] > called[at] + margin) & (returned[start:at] + blur < returned[at])
        findings.append(_overtaken(evidence, int(order[at]), order[start + positions(later)]))
    return limited(findings, late.size)


def _overtaken(evidence: Evidence, g: int, by: Index) -> Finding:
    grants = evidence.grants
    first = int(by[0])
    a, b = evidence.holder(g), evidence.holder(first)
    times = "" if by.size == 1 else f" ({by.size} later requests were granted before it)"
    why = (
        f"{a} asked for {evidence.key(int(grants.key[g]))!r} at {evidence.at(grants.called_ns[g])}, and "
        f"{b}, who asked {in_words(int(grants.called_ns[first] - grants.called_ns[g]))} later, was "
        f"granted it before{times}: "
        f"{b} at {evidence.at(grants.acquired_ns[first])}, {a} at {evidence.at(grants.acquired_ns[g])}"
    )
    return evidence.finding(
        "overtaken",
        FAIRNESS,
        Severity.VIOLATION,
        why,
        key=int(grants.key[g]),
        witnesses=[e for x in (g, first) for e in _events(evidence, int(grants.row[x]))],
        clients=(a, b),
        overtaken_by=int(by.size),
        waited_ns=int(grants.acquired_ns[g] - grants.called_ns[g]),
    )


def _events(evidence: Evidence, row: int) -> tuple[int, int]:
    return evidence.invocation(row), evidence.completion(row)


def _contended(evidence: Evidence, held: Index) -> bool:
    grants = evidence.grants
    order = held[np.lexsort((grants.called_ns[held], grants.key[held]))]
    key, called, returned = grants.key[order], grants.called_ns[order], grants.acquired_ns[order]
    if order.size < 2:
        return False
    reach = running_max(returned, key)
    return some((key[1:] == key[:-1]) & (reach[:-1] > called[1:]))


def starvation(evidence: Evidence) -> Wait | None:
    """The longest wait for any key; None if nobody asked. Standing still is not taken out."""
    ops = evidence.ops
    rows = ops.rows(F.ACQUIRE)
    if not rows.size:
        return None
    end = np.minimum(np.minimum(ops.return_ns[rows], ops.info_ns[rows]), evidence.history.end_ns)
    waited = end - ops.call_ns[rows]
    at = int(np.argmax(waited))
    row = int(rows[at])
    others = (
        (ops.key[rows] == ops.key[row])
        & (ops.client[rows] != ops.client[row])
        & (ops.status[rows] == Status.OK)
        & (ops.call_ns[rows] >= ops.call_ns[row])
        & (ops.return_ns[rows] < end[at])
    )
    return Wait(
        row, evidence.client(row), evidence.key(int(ops.key[row])), int(waited[at]), int(others.sum())
    )
