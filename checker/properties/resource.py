"""The resource: was an update lost, does any order explain what the clients read and wrote?

`lost-update`: two committed read-modify-writes were based on one version. `cycle`: see
`checker.properties.cycles`; a cycle through a lost update is not told twice.
"""

from __future__ import annotations

import numpy as np

from checker.history.accesses import Accesses, accesses_of, contradictions
from checker.history.arrays import sort_grouped
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import count, positions
from checker.history.operations import MISSING, NEVER, Index
from checker.properties.cycles import Step, shortest_cycle
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge

RESOURCE = Property.RESOURCE


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on the resource; unknown if nothing was ever written."""
    writes = evidence.writes
    if not len(writes):
        if evidence.of_a_lock_alone:
            why = "not applicable: the record is of a lock alone, nobody read or wrote"
            return judge(RESOURCE, [], otherwise=Outcome.ABSENT, why=why)
        why = "no write was accepted, so nothing could be corrupted"
        return judge(RESOURCE, [], otherwise=Outcome.UNKNOWN, why=why)
    accesses = accesses_of(evidence)
    lost, rows = lost_updates(evidence)
    findings = [*lost, *cycles(evidence, accesses, rows)]
    twice = _version_given_twice(accesses)
    if twice >= 0:
        why = (
            f"the store gave version {accesses.version[twice]} of {evidence.key(int(accesses.key[twice]))!r}"
            " to two writes: it does not serialise them, so no order is known"
        )
        return judge(RESOURCE, findings, otherwise=Outcome.UNKNOWN, why=why)
    versioned = count(accesses.write)
    if not versioned:
        why = "the store returned no versions, so the order of writes is not known"
        return judge(RESOURCE, findings, otherwise=Outcome.UNKNOWN, why=why)
    why = f"{versioned} writes form one order that explains every read, and no update was lost"
    return judge(RESOURCE, findings, why=why)


def lost_updates(evidence: Evidence) -> tuple[list[Finding], Index]:
    """`lost-update`: two committed read-modify-writes from one version; and all operations in such pairs."""
    writes, ops = evidence.writes, evidence.ops
    based = evidence.based_on
    rows = positions(based != MISSING)
    order = rows[sort_grouped(writes.key[rows], based[rows])]
    same = (writes.key[order][1:] == writes.key[order][:-1]) & (based[order][1:] == based[order][:-1])
    found = positions(same)
    findings = []
    for i in found[:LISTED_MAX].tolist():
        pair = sorted(order[i : i + 2].tolist(), key=lambda w: int(writes.version_written[w]))
        one, two = (int(writes.row[w]) for w in pair)
        a, b = evidence.client(one), evidence.client(two)
        versions = [int(v) for v in writes.version_written[pair]]
        name = evidence.key(int(ops.key[one]))
        wrote = [f", wrote version {v}" if v != MISSING else "" for v in versions]
        line = " · ".join(
            f"{who}: read version {based[order[i]]}{made} at {evidence.at(ops.return_ns[row])}"
            if ops.return_ns[row] < NEVER
            else f"{who}: read version {based[order[i]]}{made}"
            for who, made, row in zip((a, b), wrote, (one, two), strict=True)
        )
        findings.append(
            evidence.finding(
                "lost-update",
                RESOURCE,
                Severity.VIOLATION,
                headline=f"{b} overwrote {a}'s update of {name!r} without having seen it",
                evidence=(line,),
                key=int(ops.key[one]),
                witnesses=(evidence.completion(one), evidence.completion(two)),
                clients=(a, b),
                version_read=int(based[order[i]]),
                versions_written=[None if v == MISSING else v for v in versions],
                values=[ops.name("value", one), ops.name("value", two)],
            )
        )
    return limited(findings, int(found.size)), writes.row[order[np.concatenate([found, found + 1])]]


def cycles(evidence: Evidence, accesses: Accesses, lost: Index) -> list[Finding]:
    """`cycle`: the order of versions, what was based on what, and real time contradict each other."""
    epsilon = evidence.params.epsilon_ns
    explained = np.zeros(len(evidence.ops), np.bool_)
    explained[lost] = True
    found = contradictions(accesses, epsilon, LISTED_MAX, explained[accesses.row])
    findings: list[Finding] = []
    for first, second, kind in zip(found.first.tolist(), found.second.tolist(), found.kind, strict=True):
        own = positions(accesses.key == accesses.key[first])
        a, b = (int(positions(own == x)[0]) for x in (first, second))
        steps = shortest_cycle(accesses.take(own), a, b, epsilon, kind)
        whole = [Step(int(own[s.source]), int(own[s.target]), s.kind) for s in steps]
        findings.append(_cycle(evidence, accesses, whole))
    return limited(findings, found.count)


def _cycle(evidence: Evidence, accesses: Accesses, steps: list[Step]) -> Finding:
    sentences = [_sentence(evidence, accesses, step) for step in steps]
    rows = [int(accesses.row[step.source]) for step in steps]
    key = int(accesses.key[steps[0].source])
    return evidence.finding(
        "cycle",
        RESOURCE,
        Severity.VIOLATION,
        headline=f"no order explains the operations on {evidence.key(key)!r}",
        evidence=sentences,
        key=key,
        witnesses=[evidence.completion(row) for row in rows],
        clients=[evidence.client(row) for row in rows],
        edges=[
            {
                "from": evidence.completion(int(accesses.row[step.source])),
                "to": evidence.completion(int(accesses.row[step.target])),
                "kind": step.kind,
                "why": sentence,
            }
            for step, sentence in zip(steps, sentences, strict=True)
        ],
    )


def _sentence(evidence: Evidence, accesses: Accesses, step: Step) -> str:
    a, b = (evidence.client(int(accesses.row[x])) for x in (step.source, step.target))
    seen = accesses.based_on if accesses.write[step.source] else accesses.version
    version = int(accesses.version[step.target])
    if step.kind == "rw":
        return f"{a} read version {seen[step.source]}, {b} wrote version {version} without {a} seeing it"
    if step.kind == "ww":
        return f"{b} wrote version {version} after {a}'s version {accesses.version[step.source]}"
    if step.kind == "version":
        did = "wrote" if accesses.write[step.target] else "read"
        return f"{b} {did} version {version}, later than {a}'s version {accesses.version[step.source]}"
    if step.kind == "wr":
        return f"{b} read version {accesses.version[step.source]}, which {a} wrote"
    return (
        f"{a} had finished (version {accesses.version[step.source]}) by "
        f"{evidence.at(accesses.done_ns[step.source])}, before {b} began (version {version}) at "
        f"{evidence.at(accesses.call_ns[step.target])}"
    )


def _version_given_twice(accesses: Accesses) -> int:
    writer = positions(accesses.write)
    key, version = accesses.key[writer], accesses.version[writer]
    twice = positions((key[1:] == key[:-1]) & (version[1:] == version[:-1]))
    return int(writer[twice[0]]) if twice.size else -1
