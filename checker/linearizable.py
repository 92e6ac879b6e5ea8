"""The mutex and register models put into words and properties: `not-linearizable`."""

from __future__ import annotations

from typing import Final

from checker.custom import CustomModel, CustomResult
from checker.evidence import LISTED_MAX, Evidence, limited
from checker.operations import F
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge, worst

WINDOWED: Final = frozenset(("lease", "owner-mutex", "fenced-mutex"))
"""Models whose grants belong to one holder at a time, so that windows of grants mean something."""
REGISTER: Final = "cas-register"


def check_lock(evidence: Evidence) -> PropertyVerdict:
    """Mutual exclusion by the lock's model; for leases see `checker.mutual_exclusion`."""
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
    why = (
        f"no order of the operations explains {evidence.client(blocked)}'s {what} at "
        f"{evidence.at(evidence.ops.return_ns[blocked])} by the model {kind}: "
        f"{len(result.order)} others can be put in order, it cannot"
    )
    return evidence.finding(
        "not-linearizable",
        property,
        Severity.VIOLATION,
        why,
        key=int(evidence.ops.key[blocked]),
        witnesses=[e for row in (*last, blocked) for e in (evidence.called(row), evidence.told(row))],
        clients=[evidence.client(row) for row in (*last, blocked)],
        model=kind,
        algorithm="search",
    )


def _check(evidence: Evidence, property: Property) -> PropertyVerdict:
    from checker.linearizability import Assumptions, check_linearizability

    params = evidence.params
    assume = Assumptions(
        depth=params.depth,
        refusals=tuple(params.refusals),
        rho=params.rho,
        delta_ns=params.delta_ns,
        epsilon_ns=params.epsilon_ns,
    )
    results = check_linearizability(
        evidence.history.ops, evidence.model, assume=assume, start_ns=evidence.history.start_ns
    )
    violated = [r for r in results if r.outcome == "violated"]
    findings: list[Finding] = []
    for result in violated[:LISTED_MAX]:
        rows = list(result.witness)
        findings.append(
            evidence.finding(
                "not-linearizable",
                property,
                Severity.VIOLATION,
                result.why,
                key=int(evidence.ops.key[rows[0]]) if rows else -1,
                witnesses=[e for row in rows for e in (evidence.called(row), evidence.told(row))],
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
