"""Lease honesty: did the library promise more time than the TTL that it set can give?

`false-validity`: the deadline that the client was told lies beyond `begun + TTL⁺ + ε`, or success was
returned after that lease must have been over. `TTL⁺ = TTL·(1+ρ)/(1−ρ)` is how long a lease can last by the
recorder's clock, since the node's clock and the recorder's may both err (`checker.history.windows`).

`begun` is when the attempt that was granted began. A lock that
is refused may try again inside one call, so the call itself is only a bound where one attempt is all there is
(`single_attempt`); otherwise the lock must have said when the attempt began (`attempt_ns`), and where nobody
knows only a claim longer than the TTL is a lie for certain. (An acquire that waited for somebody else's lease
to end would be accused otherwise: counting from its call is unsound for every lock that retries.)

What the lock says of its attempt never widens what it is held to: where the nodes were watched, the lease is
over when as many of them as make a grant had the token no more (`checker.history.sightings`: what each node
said of the time that the key had left there). That is earlier than the attempt allows if the lock counted
votes that it had got before the attempt.

What `held` answers is counted from when the grant (or its last extension) *returned*: it may come from the
nodes, and they count from when they were asked, which may be as late as that. The answer was made after the
question, so its deadline is taken from there, and no pause can explain one that lies beyond the lease. An
extension that is under way, or whose outcome nobody knows, may have happened up to the answer itself; a lock
that extends its leases unasked must record that as such an extension, or no TTL.

A stamp that is taken after its process stood still proves nothing about what the library knew when it looked,
so pauses and stalls of the client (and of the lab) inside the call acquit it as far as they can explain: all
their length is taken off. They do not if the claim alone is longer than the lease, or the lock itself named
both the attempt and a deadline: instants that no pause can move.
For the same reason everything that leans on a stamp is given `stall_ns`, which may pass unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.history.arrays import largest_before, longer, plus
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions
from checker.history.operations import I64, MISSING, NEVER, NONE, Bools, F, Index, Operations, Status
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge
from checker.words import in_words

HONESTY = Property.LEASE_HONESTY
ROUNDED_NS = 1_000_000
"""Nodes tell the time that is left in whole milliseconds."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What clients were told, shape (n,), and when the lease that it is about is over at the latest.

    `claimed_ns` is `MISSING` where success was all that was said; `success` marks acquires and extensions,
    whose success is itself a claim; the others are answers of `held`. `called_ns` is when the granted attempt
    began, at the latest (for an answer, when the grant had returned); `bounded` tells whether that is known
    at all, `stated` whether the lock said it. `deadline_ns` is the deadline in the lock's own words, or the
    earliest that an answer can mean, or `MISSING`.
    """

    row: Index
    grant: Index
    called_ns: I64
    returned_ns: I64
    ttl_ns: I64
    over_ns: I64
    claimed_ns: I64
    deadline_ns: I64
    stated: Bools
    bounded: Bools
    success: Bools


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on lease honesty."""
    claims = _claims(evidence)
    findings = false_validities(evidence, claims)
    if not len(claims.row):
        why = "no grant had a TTL, so no lease was ever claimed"
        if evidence.model != "lease" or evidence.history.clocks:
            why = f"not applicable: {why}"
            return judge(HONESTY, findings, otherwise=Outcome.ABSENT, why=why)
        return judge(HONESTY, findings, otherwise=Outcome.UNKNOWN, why=why)
    why = f"{len(claims.row)} leases were granted or extended, and none was claimed for longer than its TTL"
    return judge(HONESTY, findings, why=why)


def false_validities(evidence: Evidence, claims: Claims) -> list[Finding]:
    """`false-validity`, definite ones as violations; those that a standstill explains as information."""
    params = evidence.params
    lease = longer(claims.ttl_ns, params.rho)
    limit = claims.over_ns + params.epsilon_ns
    claimed = claims.claimed_ns != MISSING
    named = claims.deadline_ns != MISSING
    deadline = np.where(named, claims.deadline_ns, claims.returned_ns + claims.claimed_ns - params.stall_ns)
    too_long = (claimed | named) & (deadline > limit)
    too_late = claims.success & (claims.returned_ns - params.stall_ns > limit)
    plain = claims.success & (claims.claimed_ns > lease + params.epsilon_ns)
    stated = claims.stated & named & too_long
    suspects = positions(((too_long | too_late) & claims.bounded) | plain)
    still = evidence.still_ns(claims.row[suspects], claims.returned_ns[suspects])
    by_then = np.where(too_late, claims.returned_ns - params.stall_ns, deadline)[suspects]
    by_then = np.where(too_long[suspects], np.maximum(by_then, deadline[suspects]), by_then)
    excused = (by_then - still <= limit[suspects]) & ~(plain | stated | ~claims.success)[suspects]
    guilty = suspects[~excused]
    findings = [_finding(evidence, claims, int(at), Severity.VIOLATION) for at in guilty[:LISTED_MAX]]
    findings = limited(findings, int(guilty.size))
    spared = [
        _finding(evidence, claims, int(at), Severity.INFORMATION) for at in suspects[excused][:LISTED_MAX]
    ]
    return findings + limited(spared, int(excused.sum()))


def _claims(evidence: Evidence) -> Claims:
    """Acquires and extensions that succeeded with a TTL, and what `held` answered about them."""
    ops, grants = evidence.ops, evidence.grants
    granted = positions(grants.returned & (grants.ttl_ns < NEVER))
    extensions = grants.extensions.only(Status.OK)
    extended = positions(extensions.ttl_ns < NEVER)
    asked, grant = _held(evidence)
    rows = np.concatenate([grants.row[granted], extensions.row[extended], asked])
    base = np.concatenate([grants.row[granted], extensions.row[extended]])
    success = np.arange(rows.size) < base.size
    begun, stated = _begun(ops, base)
    ttl = np.concatenate([grants.ttl_ns[granted], extensions.ttl_ns[extended], grants.ttl_ns[grant]])
    lease = longer(ttl, evidence.params.rho)
    none = np.zeros(asked.size, np.bool_)
    over = plus(begun, lease[: base.size])
    over[: granted.size] = np.minimum(
        over[: granted.size], _seen_over(evidence, granted, stated[: granted.size])
    )
    return Claims(
        row=rows,
        grant=np.concatenate([granted, extensions.grant[extended], grant]),
        called_ns=np.concatenate([begun, ops.return_ns[grants.row[grant]]]),
        returned_ns=ops.return_ns[rows],
        ttl_ns=ttl,
        over_ns=np.concatenate([over, _over_by_then(evidence, asked, grant, lease[base.size :])]),
        claimed_ns=ops.claimed_ns[rows],
        deadline_ns=np.where(success, ops.deadline_ns[rows], plus(ops.call_ns[rows], ops.claimed_ns[rows])),
        stated=np.concatenate([stated, none]),
        bounded=np.concatenate([stated | evidence.params.single_attempt, ~none]),
        success=success,
    )


def _seen_over(evidence: Evidence, told_grants: Index, stated: Bools) -> I64:
    """When the leases of grants whose attempt the lock stated were over, by what nodes said of their keys."""
    over = np.full(told_grants.size, NEVER, np.int64)
    grants, ops = evidence.grants, evidence.ops
    if not evidence.history.nodes:
        return over
    prolonged = np.full(len(grants), NEVER, np.int64)
    np.minimum.at(prolonged, grants.extensions.grant, grants.extensions.call_ns)
    for at in positions(stated & (grants.token[told_grants] != NONE)).tolist():
        g = int(told_grants[at])
        over[at] = evidence.sightings.over_by(
            evidence.key(int(grants.key[g])),
            str(ops.names.token[int(grants.token[g])]),
            int(grants.called_ns[g]),
            int(prolonged[g]),
        )
    return over


def _over_by_then(evidence: Evidence, asked: Index, grant: Index, lease_ns: I64) -> I64:
    """When the lease that an answer of `held` is about is over at the latest, as far as nodes can have it.

    `lease_ns` is how long a lease of that grant can last.
    """
    ops, grants, extensions = evidence.ops, evidence.grants, evidence.grants.extensions
    answered = ops.return_ns[asked]

    def latest(value: I64) -> I64:
        return largest_before(extensions.grant, extensions.call_ns, value, grant, answered)

    granted = np.minimum(ops.return_ns[grants.row[grant]], answered)
    over = plus(granted, lease_ns)
    lease = longer(extensions.ttl_ns, evidence.params.rho)
    done, under_way = latest(plus(extensions.return_ns, lease)), latest(lease)
    extended = np.minimum(done, plus(answered, under_way))  # `MISSING` where none was called
    unseen = evidence.gap_ns[grant] <= answered  # an extension may be missing
    return np.where(unseen, NEVER, np.maximum(over, extended) + ROUNDED_NS)


def _begun(ops: Operations, rows: Index) -> tuple[I64, Bools]:
    """When the granted attempt of an operation began at the latest, and whether the lock said so itself.

    What it said counts only if it lies inside the call.
    """
    said = ops.attempt_ns[rows]
    stated = (said >= ops.call_ns[rows]) & (said <= ops.return_ns[rows])
    return np.where(stated, said, ops.call_ns[rows]), stated


def _held(evidence: Evidence) -> tuple[Index, Index]:
    """Answers of `held` that claim time left, and the grants that they are about, if those expire."""
    ops, grants = evidence.ops, evidence.grants
    rows = ops.rows(F.HELD, Status.OK)
    rows = rows[ops.claimed_ns[rows] > 0]
    grant = grants.of(ops.grant[rows])
    rows, grant = rows[grant != NONE], grant[grant != NONE]
    bounded = grants.ttl_ns[grant] < NEVER
    return rows[bounded], grant[bounded]


def _finding(evidence: Evidence, claims: Claims, at: int, severity: Severity) -> Finding:
    row, called, returned = int(claims.row[at]), int(claims.called_ns[at]), int(claims.returned_ns[at])
    what = {F.ACQUIRE: "acquire", F.EXTEND: "extension", F.HELD: "held"}[F(int(evidence.ops.f[row]))]
    who, claim = evidence.client(row), int(claims.claimed_ns[at])
    named = int(claims.deadline_ns[at])
    until = named if named != MISSING else returned + max(0, claim)
    answer = not claims.success[at]
    excess = (until if answer else max(until, returned)) - int(claims.over_ns[at])
    lease = f"the lease of {in_words(int(claims.ttl_ns[at]))}"
    since = f"granted by {evidence.at(called)}" if answer else f"asked for at {evidence.at(called)}"
    over = f"{lease} {since} is over by {evidence.at(claims.over_ns[at])}"
    if not answer and int(claims.over_ns[at]) < called + int(claims.ttl_ns[at]):
        over = (
            f"nodes had its key before {evidence.at(called)}, when it says that its attempt began: by what "
            f"they told of the key, {lease} is over by {evidence.at(claims.over_ns[at])}"
        )
    if claim <= 0:
        left = "" if claim == MISSING else f", with {in_words(-claim)} less than nothing left of its lease"
        said = f"the {what} returned success at {evidence.at(returned)}{left}"
        headline = f"{who}'s {what} returned success {in_words(excess)} after its lease was over"
    else:
        said = f"at {evidence.at(returned)} the {what} left {in_words(claim)} of validity"
        headline = f"{who}'s {what} promised {in_words(excess)} more than its lease has"
    lines = [said, over]
    if severity is Severity.INFORMATION:
        lines.append(
            f"{who} (or the lab) stood still for so long in between, which is no fault of the library"
        )
    return evidence.finding(
        "false-validity",
        HONESTY,
        severity,
        headline=headline,
        evidence=lines,
        key=int(evidence.grants.key[claims.grant[at]]),
        witnesses=(evidence.invocation(row), evidence.completion(row)),
        clients=(who,),
        excess_ns=excess,
        claimed_ns=None if claim == MISSING else claim,
        ttl_ns=int(claims.ttl_ns[at]),
        elapsed_ns=returned - called,
    )
