"""Leader election: is a term ever led by two, and does every later election have a later term?

An election is an acquire of the group (`key`) that gives a term (`fence`). Leaders of different terms may
believe in themselves at the same time, in Raft as everywhere; what a group relies on is that a term has one
leader (D. Ongaro, J. Ousterhout, "In Search of an Understandable Consensus Algorithm", 2014, "Election
Safety"), and that terms grow.

* `shared-term`: two clients were both elected for one term.
* `term-order`: an election was called after another had returned, and its term is not a later one. (A
  client that is told again of a term which it leads already shows that term again.)

**Sound and exact** for what was recorded: both conditions are about certain elections, and about the order
of stamps beyond ε; elections of unknown outcome, and those without a term, claim nothing. If neither is
found, putting the elections in the order of their terms respects real time and shares no term. O(n log n).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from checker.history.arrays import largest_before, which_before
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions
from checker.history.operations import MISSING, F, Index, Status
from checker.history.renaming import in_doubt
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge

MODEL: Final = "leader-election"
EXCLUSION: Final = Property.MUTUAL_EXCLUSION


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on mutual exclusion of leaders, per term; unknown if nobody was elected with a term."""
    ops = evidence.ops
    rows = positions((ops.f == F.ACQUIRE) & (ops.status == Status.OK) & (ops.fence != MISSING))
    if not rows.size:
        why = "no election with a term succeeded"
        return judge(EXCLUSION, [], otherwise=Outcome.UNKNOWN, why=why)
    findings = shared_terms(evidence, rows) + term_orders(evidence, rows)
    why = f"{rows.size} elections, no term with two leaders, and every later election has a later term"
    doubt = None if findings else _doubt(evidence)
    if doubt is not None:
        return judge(EXCLUSION, [], otherwise=Outcome.UNKNOWN, why=doubt)
    return judge(EXCLUSION, findings, why=why)


def _doubt(evidence: Evidence) -> str | None:
    """Why the outcome is open: who led twice may be one client or two, and the record does not say it."""
    if evidence.by_process or evidence.renamed is None:
        return None
    by_process = check(Evidence(evidence.history, evidence.model, by_process=True)).violations
    if not by_process:
        return None
    later = int(positions(evidence.ops.return_index == by_process[0].witnesses[-1])[0])
    return in_doubt(evidence.ops, evidence.renamed, later, evidence.at)


def _may_be_one(evidence: Evidence, first: int, second: int) -> bool:
    """Whether the process of the second operation may go on for the client of the first."""
    renamed, process = evidence.renamed, evidence.ops.process
    if renamed is None or evidence.by_process:
        return False
    return bool(renamed.retired[process[first]] < renamed.begins[process[second]])


def shared_terms(evidence: Evidence, rows: Index) -> list[Finding]:
    """`shared-term`: one term has two leaders; the first two of each such term."""
    ops = evidence.ops
    order = rows[np.lexsort((ops.return_index[rows], ops.fence[rows], ops.key[rows]))]
    same = (ops.key[order[1:]] == ops.key[order[:-1]]) & (ops.fence[order[1:]] == ops.fence[order[:-1]])
    other = positions(same & (ops.client[order[1:]] != ops.client[order[:-1]])).tolist()
    other = [at for at in other if not _may_be_one(evidence, int(order[at]), int(order[at + 1]))]
    findings = [_shared(evidence, int(order[at]), int(order[at + 1])) for at in other[:LISTED_MAX]]
    return limited(findings, len(other))


def _shared(evidence: Evidence, first: int, second: int) -> Finding:
    ops = evidence.ops
    a, b, term = evidence.client(first), evidence.client(second), int(ops.fence[first])
    why = (
        f"{a} and {b} both lead {evidence.key(int(ops.key[first]))!r} in term {term}: {a} was elected at "
        f"{evidence.at(ops.return_ns[first])}, {b} at {evidence.at(ops.return_ns[second])}"
    )
    return _finding(evidence, "shared-term", why, first, second)


def term_orders(evidence: Evidence, rows: Index) -> list[Finding]:
    """`term-order`: a later election has no later term."""
    ops, margin = evidence.ops, 2 * evidence.params.epsilon_ns
    key, done, term = ops.key[rows], ops.return_ns[rows], ops.fence[rows]
    before = largest_before(key, done, term, key, ops.call_ns[rows] - margin)
    late = positions(before >= term)
    findings = []
    for at in late.tolist():
        row = int(rows[at])
        earlier = int(rows[which_before(key, done, term, int(key[at]), int(ops.call_ns[row]) - margin)])
        one = ops.client[earlier] == ops.client[row] or _may_be_one(evidence, earlier, row)
        again = ops.fence[earlier] == ops.fence[row] and one
        if not again:
            findings.append(_order(evidence, earlier, row))
    return limited(findings[:LISTED_MAX], len(findings))


def _order(evidence: Evidence, earlier: int, later: int) -> Finding:
    ops = evidence.ops
    a, b = evidence.client(earlier), evidence.client(later)
    why = (
        f"{b} was elected to lead {evidence.key(int(ops.key[later]))!r} in term "
        f"{int(ops.fence[later])}, though it asked at {evidence.at(ops.call_ns[later])}, after "
        f"{a} had been elected in term {int(ops.fence[earlier])} at {evidence.at(ops.return_ns[earlier])}"
    )
    return _finding(evidence, "term-order", why, earlier, later)


def _finding(evidence: Evidence, name: str, why: str, first: int, second: int) -> Finding:
    ops = evidence.ops
    return evidence.finding(
        name,
        EXCLUSION,
        Severity.VIOLATION,
        why,
        key=int(ops.key[first]),
        witnesses=(evidence.completion(first), evidence.completion(second)),
        clients=(evidence.client(first), evidence.client(second)),
        terms=[int(ops.fence[first]), int(ops.fence[second])],
    )
