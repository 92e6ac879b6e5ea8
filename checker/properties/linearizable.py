"""The mutex and register models put into words and properties: `not-linearizable`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import UNSET

from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions
from checker.history.operations import COLUMNS, F, Operations, Status
from checker.linearizability.custom import CustomModel, CustomResult
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge, worst
from checker.words import listed

WINDOWED: Final = frozenset(("lease", "owner-mutex", "fenced-mutex"))
"""Models whose grants belong to one holder at a time, so that windows of grants mean something."""
REGISTER: Final = "cas-register"


def check_lock(evidence: Evidence) -> PropertyVerdict:
    """Mutual exclusion by the lock's model; for leases see `checker.properties.mutual_exclusion`."""
    return _check(evidence, Property.MUTUAL_EXCLUSION)


def check_register(evidence: Evidence) -> PropertyVerdict:
    """The resource as a register with compare-and-set."""
    return _check(evidence, Property.RESOURCE)


def by_model(
    evidence: Evidence, property: Property, model: CustomModel, result: CustomResult, rows: list[int]
) -> Finding:
    """The finding for an object whose operations a model of one's own does not explain.

    `rows` maps the positions of the operations that were searched to rows of the table.
    """
    assert result.blocked is not None
    blocked = rows[result.blocked]
    last = [rows[at] for at in result.order[-1:]]
    kind = type(model).__name__
    what = str(F(int(evidence.ops.f[blocked])).name).lower()
    headline = (
        f"no order of the operations explains {evidence.client(blocked)}'s {what} at "
        f"{evidence.at(evidence.ops.return_ns[blocked])} by the model {kind}"
    )
    return evidence.finding(
        "not-linearizable",
        property,
        Severity.VIOLATION,
        headline=headline,
        evidence=[f"{len(result.order)} other operations can be put in order, this one cannot"],
        key=int(evidence.ops.key[blocked]),
        witnesses=[
            e for row in (*last, blocked) for e in (evidence.invocation(row), evidence.completion(row))
        ],
        clients=[evidence.client(row) for row in (*last, blocked)],
        model=kind,
        algorithm="search",
    )


def _check(evidence: Evidence, property: Property) -> PropertyVerdict:
    from checker.linearizability import Assumptions, check_linearizability
    from checker.linearizability.model import UNKNOWN_VALUE

    params = evidence.params
    assume = Assumptions(
        depth=params.depth,
        refusals=tuple(params.refusals),
        rho=params.rho,
        delta_ns=params.delta_ns,
        epsilon_ns=params.epsilon_ns,
        initial=UNKNOWN_VALUE if params.initial is UNSET else params.initial,
    )
    ops = evidence.history.ops
    if property is Property.MUTUAL_EXCLUSION:
        ops = with_deaths(ops, evidence.killed)
    results = check_linearizability(ops, evidence.model, assume=assume, zero_ns=evidence.history.zero_ns)
    violated = [r for r in results if r.outcome == "violated"]
    findings: list[Finding] = []
    for result in violated[:LISTED_MAX]:
        rows = [row for row in result.witness if row < len(evidence.ops)]
        who = listed(dict.fromkeys(evidence.client(row) for row in rows))
        named = "" if result.key is None else f" on {result.key!r}"
        findings.append(
            evidence.finding(
                "not-linearizable",
                property,
                Severity.VIOLATION,
                result.why,
                headline=f"no order of the operations{named} explains what {who} saw ({result.model})",
                evidence=[result.why.removesuffix(".")],
                key=int(evidence.ops.key[rows[0]]) if rows else -1,
                witnesses=[e for row in rows for e in (evidence.invocation(row), evidence.completion(row))],
                clients=[evidence.client(row) for row in rows],
                model=result.model,
                algorithm=result.algorithm,
            )
        )
    outcome = worst(Outcome(r.outcome) for r in results)
    unsure = next((r.why for r in results if r.outcome == "unknown"), None)
    why = (
        unsure or f"the operations on each of {len(results)} keys can be put in one order ({evidence.model})"
    )
    if not results:
        why = f"the history holds no operation of a {evidence.model}"
    return judge(property, limited(findings, len(violated)), otherwise=outcome, why=why)


def with_deaths(ops: Operations, killed: Sequence[tuple[int, int]]) -> Operations:
    """The same operations, and releases of unknown outcome where clients were killed that still held a lock.

    Whoever is dead holds no session any more, but nobody knows when it ended. `killed` are pairs of a client
    code and the time from which on it may have been dead. The rows that are added stand at the end.
    """
    added: list[tuple[int, int, int, int]] = []
    for client, death_ns in killed:
        mine = (ops.client == client) & (ops.call_ns <= death_ns)
        taken = mine & (ops.f == F.ACQUIRE) & (ops.status != Status.FAIL)
        given = mine & (ops.f == F.RELEASE) & (ops.status == Status.OK)
        for key in np.unique(ops.key[taken]).tolist():
            process = int(ops.process[positions(taken & (ops.key == key))[-1]])
            left = int((taken & (ops.key == key)).sum()) - int((given & (ops.key == key)).sum())
            added += [(client, process, key, death_ns)] * max(left, 0)
    if not added:
        return ops
    client_codes, processes, keys, deaths = (np.array(column) for column in zip(*added, strict=True))
    last = max(int(ops.call_index.max()), int(ops.return_index.max()))
    ends = Operations.build(
        len(added),
        f=np.full(len(added), F.RELEASE),
        status=np.full(len(added), Status.INFO),
        client=client_codes,
        process=processes,
        key=keys,
        call_ns=deaths,
        call_index=last + 1 + np.arange(len(added)),
    )
    columns = {name: np.concatenate([getattr(ops, name), getattr(ends, name)]) for name in COLUMNS}
    return Operations(**columns, names=ops.names)
