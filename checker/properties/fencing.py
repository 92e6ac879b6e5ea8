"""Fencing: do the fences of grants grow, and did the store accept what a fence would have stopped?

One write is told by its most specific finding: `fence-breach` where the store claims to look at fences and
let a smaller one pass; else `stale-write` where its client had also run past its lease; else
`unfenced-write`. A client that merely ran past its lease is a `stale-use`: a warning, as no lock prevents it.

"After" means that the other write had returned before this one was called, or that the store's own version
numbers say so (the store serialises writes, so a write that was delayed on its way counts as well).

A grant begins to hold between two instants: the return of its acquire, and the call of it or, where the nodes
were watched, the instant before which a majority surely had not its token (`checker.history.sightings`). One
grant is later than another only if it began after the other's acquire had returned. Where grants that may
have begun in either order got fences, or wrote, in the reverse of the order in which they were returned,
nothing is known (`checker.properties.grant_order`), and the verdict says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.history.arrays import grow_together, largest_before, longer, plus, which_before
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import count, every, positions, some
from checker.history.operations import I64, MISSING, NEVER, F, Index, Status
from checker.properties import grant_order as order
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge
from checker.words import in_words

FENCING = Property.FENCING


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on fencing; `absent` if the lock offers no fence and nothing happened that needed one."""
    if evidence.nested and evidence.of_a_lock_alone:
        why = "not applicable: the record is of a lock alone, with no write that could be late"
        return judge(FENCING, [], otherwise=Outcome.ABSENT, why=why)
    if evidence.nested:
        why = "nested grants of one client are not told apart, so no write can be called late"
        return judge(FENCING, [], otherwise=Outcome.UNKNOWN, why=why)
    uses, lease_end = resource_uses(evidence)
    past = positions(evidence.ops.call_ns[uses] - evidence.params.epsilon_ns > lease_end)
    findings = [*fence_orders(evidence), *breaches_and_unfenced(evidence, uses[past])]
    guilty = {w for f in findings if f.name == "stale-write" for w in f.witnesses}
    findings += stale_uses(evidence, uses[past], lease_end[past], guilty)
    doubt = order.undecided(evidence)
    if doubt is not None:
        return judge(FENCING, findings, otherwise=Outcome.UNKNOWN, why=doubt)
    grants = evidence.grants
    fenced = count(grants.fence[grants.held] != MISSING)
    if fenced:
        why = (
            f"{fenced} grants carried fences, which grew in the order in which they were returned, and no "
            "write "
            "was accepted after one of a later grant"
        )
        return judge(FENCING, findings, why=why)
    if evidence.params.lock_fences:
        why = "the lock claims to hand out fences, but no grant carried one"
        return judge(FENCING, findings, otherwise=Outcome.UNKNOWN, why=why)
    why = "the lock offers no fence, and nothing happened that one would have stopped"
    return judge(FENCING, findings, otherwise=Outcome.ABSENT, why=why)


def fence_orders(evidence: Evidence) -> list[Finding]:
    """`fence-order`: a later grant with a fence no larger than an earlier one's, or one fence given twice."""
    grants, margin = evidence.grants, 2 * evidence.params.epsilon_ns
    rows = positions(grants.held & (grants.fence != MISSING))
    if not rows.size:
        return []
    key, fence = grants.key[rows], grants.fence[rows]
    acquired, began = grants.acquired_ns[rows], evidence.began_ns[rows]
    if every(acquired >= began) and grow_together(key, began, fence, strictly=True):
        return []  # what was acquired before a grant began had begun before it, and got a smaller fence
    earlier = largest_before(key, acquired, fence, key, began - margin)
    back = positions(earlier >= fence)
    pairs = [
        (int(rows[which_before(key, acquired, fence, int(key[i]), int(began[i]) - margin)]), int(rows[i]))
        for i in back[:LISTED_MAX].tolist()
    ]
    by_fence = np.lexsort((acquired, fence, key))
    same = (key[by_fence][1:] == key[by_fence][:-1]) & (fence[by_fence][1:] == fence[by_fence][:-1])
    reported = set(back.tolist())
    twins = [
        (int(rows[by_fence[i]]), int(rows[by_fence[i + 1]]))
        for i in positions(same)[: 2 * LISTED_MAX].tolist()
        if int(by_fence[i + 1]) not in reported
    ]
    findings = [_fence_order(evidence, g, h) for g, h in (pairs + twins)[:LISTED_MAX]]
    repeated = int(same.sum()) - int(np.isin(by_fence[1:][same], back).sum())
    return limited(findings, int(back.size) + repeated)


def _fence_order(evidence: Evidence, g: int, h: int) -> Finding:
    grants, ops = evidence.grants, evidence.ops
    old, new = int(grants.fence[g]), int(grants.fence[h])
    a, b, key = evidence.holder(g), evidence.holder(h), evidence.key(int(grants.key[g]))
    if old == new:
        headline = f"{a} and {b} were granted {key!r} with one and the same fence {old}"
    else:
        headline = f"{b} was granted {key!r} with fence {new} after {a} had got fence {old}"
    return evidence.finding(
        "fence-order",
        FENCING,
        Severity.VIOLATION,
        headline=headline,
        evidence=[
            f"{a}: acquired at {evidence.at(grants.acquired_ns[g])} · "
            f"{b}: held nothing before {evidence.at(evidence.began_ns[h])}, "
            f"acquired at {evidence.at(grants.acquired_ns[h])}"
        ],
        key=int(grants.key[g]),
        witnesses=(evidence.completion(int(grants.row[g])), evidence.completion(int(grants.row[h]))),
        clients=(a, b),
        fences=[old, new],
        grants=[ops.name("grant", int(grants.row[x])) for x in (g, h)],
    )


def resource_uses(evidence: Evidence) -> tuple[Index, I64]:
    """Reads and writes made under a grant (rows), and when its lease was over at the latest by their call.

    An extension of unknown outcome that was called before makes that `NEVER`, and so does one that may be
    missing.
    """
    ops, grants, rho = evidence.ops, evidence.grants, evidence.params.rho
    rows = positions((ops.f == F.READ) | (ops.f == F.WRITE))
    grant = grants.of(ops.grant[rows])
    known = grants.certain(grant)
    rows, grant = rows[known], grant[known]
    end = plus(grants.acquired_ns, longer(grants.ttl_ns, rho))[grant]
    extensions = grants.extensions
    may = extensions.status != Status.FAIL
    if some(may):
        until = plus(extensions.return_ns[may], longer(extensions.ttl_ns[may], rho))
        longest = largest_before(
            extensions.grant[may], extensions.call_ns[may], until, grant, ops.call_ns[rows]
        )
        end = np.maximum(end, longest)
    unseen = evidence.gap_ns[grant] <= ops.call_ns[rows]
    return rows, np.where(unseen, NEVER, end)


def stale_uses(evidence: Evidence, uses: Index, lease_end: I64, reported: set[int]) -> list[Finding]:
    """`stale-use`: an operation on the resource began after the lease was over; not the `reported` ones."""
    ops = evidence.ops
    fresh = [
        i for i, row in enumerate(uses.tolist()) if not reported or evidence.completion(row) not in reported
    ]
    findings = []
    for i in fresh[:LISTED_MAX]:
        row, late = int(uses[i]), int(ops.call_ns[uses[i]] - lease_end[i])
        verb = "wrote to" if ops.f[row] == F.WRITE else "read"
        grant = int(evidence.grants.of(ops.grant[row : row + 1])[0])
        who, name = evidence.client(row), evidence.key(int(ops.key[row]))
        headline = f"{who} {verb} {name!r} {in_words(late)} after its lease was over"
        line = (
            f"{who}: lease over at {evidence.at(int(lease_end[i]))} at the latest, called at "
            f"{evidence.at(ops.call_ns[row])}"
        )
        findings.append(
            evidence.finding(
                "stale-use",
                FENCING,
                Severity.WARNING,
                headline=headline,
                evidence=(line,),
                key=int(ops.key[row]),
                witnesses=(evidence.completion(int(evidence.grants.row[grant])), evidence.invocation(row)),
                clients=(evidence.client(row),),
                late_ns=late,
            )
        )
    return limited(findings, len(fresh))


def breaches_and_unfenced(evidence: Evidence, past: Index) -> list[Finding]:
    """`fence-breach`, `stale-write` and `unfenced-write`, one finding per write, the most specific.

    `past` are the operations that began after their lease was over, ascending.
    """
    writes, grants = evidence.writes, evidence.grants
    own = positions(grants.certain(writes.grant))
    began = np.full(len(writes), MISSING, np.int64)
    began[own] = evidence.began_ns[writes.grant[own]]
    margin = 2 * evidence.params.epsilon_ns
    late = np.zeros(len(writes), bool)
    acquired = grants.acquired_ns[writes.grant[own]]
    if some(acquired < began[own]) or not _in_step(evidence, own, began):
        newer = _largest_earlier(evidence, own, began)
        late[own] = newer > acquired + margin
    breach = np.zeros(len(writes), bool)
    fenced = positions(writes.fence != MISSING)
    if evidence.params.store_fences and not _in_step(evidence, fenced, writes.fence):
        breach[fenced] = _largest_earlier(evidence, fenced, writes.fence) > writes.fence[fenced]
    if not some(late | breach):
        return []
    over = np.zeros(len(evidence.ops), bool)
    over[past] = True
    stale = over[writes.row]
    groups = (
        ("fence-breach", breach, positions(writes.fence != MISSING), writes.fence),
        ("stale-write", late & ~breach & stale, own, began),
        ("unfenced-write", late & ~breach & ~stale, own, began),
    )
    findings: list[Finding] = []
    for name, mask, among, value in groups:
        rows = positions(mask)
        listed = [
            _late_write(evidence, name, int(w), _witness(evidence, int(w), among, value), bool(stale[w]))
            for w in rows[:LISTED_MAX]
        ]
        findings += limited(listed, int(rows.size))
    return findings


def _in_step(evidence: Evidence, among: Index, value: I64) -> bool:
    """Whether values and versions grow with the calls of these writes, on every key.

    Then what came before a write, by time or by version, was called before it and has no larger value.
    """
    writes = evidence.writes
    key, call_ns, version = writes.key[among], writes.call_ns[among], writes.version_written[among]
    known = version != MISSING
    return (
        every(writes.done_ns[among] >= call_ns)
        and grow_together(key, call_ns, value[among])
        and grow_together(key[known], version[known], call_ns[known])
    )


def _largest_earlier(evidence: Evidence, among: Index, value: I64) -> I64:
    """For each of some accepted writes the largest value of those that came before it, by time or version."""
    writes, margin = evidence.writes, 2 * evidence.params.epsilon_ns
    key, value = writes.key[among], value[among]
    best = largest_before(key, writes.done_ns[among], value, key, writes.call_ns[among] - margin)
    version = writes.version_written[among]
    known = positions(version != MISSING)
    by_version = largest_before(key[known], version[known], value[known], key[known], version[known])
    best[known] = np.maximum(best[known], by_version)
    return best


def _witness(evidence: Evidence, write: int, among: Index, value: I64) -> int:
    """The earlier write with the largest value, found by time if that suffices, else by version."""
    writes, margin = evidence.writes, 2 * evidence.params.epsilon_ns
    key, candidates = int(writes.key[write]), []
    for stamp, before in (
        (writes.done_ns, int(writes.call_ns[write]) - margin),
        (writes.version_written, int(writes.version_written[write])),
    ):
        known = among[stamp[among] != MISSING]
        found = which_before(writes.key[known], stamp[known], value[known], key, before)
        if found >= 0:
            candidates.append(int(known[found]))
    return max(candidates, key=lambda w: int(value[w]))


def _late_write(evidence: Evidence, name: str, late: int, newer: int, stale: bool) -> Finding:
    writes, ops = evidence.writes, evidence.ops
    row, other = int(writes.row[late]), int(writes.row[newer])
    a, b, key = evidence.client(row), evidence.client(other), evidence.key(int(writes.key[late]))
    after = writes.done_ns[newer] < writes.call_ns[late]
    order_ = (
        f"at {evidence.at(writes.call_ns[late])}, after {b}'s write had returned at "
        f"{evidence.at(writes.done_ns[newer])}"
        if after
        else f"as version {writes.version_written[late]}, after {b}'s version {writes.version_written[newer]}"
    )
    details: dict[str, Any] = {
        "order": "time" if after else "version",
        "values": [ops.name("value", r) for r in (row, other)],
    }
    headline = f"the store accepted {a}'s write to {key!r} after a write of {b}, whose grant is the later one"
    lines = [f"{a}'s write was accepted {order_}"]
    if name == "fence-breach":
        old, new = int(writes.fence[late]), int(writes.fence[newer])
        headline = (
            f"the store accepted {a}'s write to {key!r} with fence {old} after one of {b} with fence {new}"
        )
        details["fences"] = [old, new]
    else:
        lines.append(
            ("its own lease was over by then, and " if stale else "")
            + "a fencing token would have stopped it"
        )
    clients = (a, b)
    grants = [int(g) for g in (writes.grant[late], writes.grant[newer]) if g >= 0]
    return evidence.finding(
        name,
        FENCING,
        Severity.VIOLATION,
        headline=headline,
        evidence=lines,
        key=int(writes.key[late]),
        witnesses=[
            *(evidence.completion(int(evidence.grants.row[g])) for g in grants),
            evidence.completion(other),
            evidence.invocation(row),
            evidence.completion(row),
        ],
        clients=clients,
        **details,
    )
