"""Timeliness: does a try with a time-out come back in time?

`late-return`: an acquire that may wait for `wait_ns` (a field of its invocation; 0 for a try that must not
wait) was not back within that time and `wait_slack_ns` of the header. Time in which the client or the lab
stood still does not count, and since a process may stand still for up to `stall_ns` without a record, the
slack is never smaller than that. How it came back (granted, refused, unknown) makes no difference.

**Sound**: both stamps are read from the recorder's clock, widened by ε; the lock's own clock may run slower
by ρ, so it gets `wait_ns·(1+ρ)`. A try that never came back is a warning: the client may have been killed
without a record.
"""

from __future__ import annotations

import numpy as np

from checker.history.arrays import longer
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions, some
from checker.history.operations import MISSING, NEVER, F
from checker.verdict import Finding, Property, PropertyVerdict, Severity, judge
from checker.words import in_words

TIMELINESS = Property.TIMELINESS


def applies(evidence: Evidence) -> bool:
    """Whether any acquire says how long it may wait."""
    ops = evidence.ops
    return some(ops.wait_ns[ops.f == F.ACQUIRE] != MISSING)


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on timeliness."""
    findings = late_returns(evidence)
    ops = evidence.ops
    count = int(((ops.f == F.ACQUIRE) & (ops.wait_ns != MISSING)).sum())
    return judge(TIMELINESS, findings, why=f"{count} tries with a time-out, and all came back in time")


def late_returns(evidence: Evidence) -> list[Finding]:
    """`late-return`: a try was not back when its time-out was over."""
    ops, params = evidence.ops, evidence.params
    rows = positions((ops.f == F.ACQUIRE) & (ops.wait_ns != MISSING))
    back = np.minimum(ops.return_ns[rows], ops.info_ns[rows])
    end = np.minimum(back, evidence.history.end_ns)
    slack = max(params.wait_slack_ns, params.stall_ns) + 2 * params.epsilon_ns
    limit = longer(ops.wait_ns[rows], params.rho) + slack
    late = positions(end - ops.call_ns[rows] > limit)
    if late.size:
        took = end[late] - ops.call_ns[rows[late]] - evidence.still_ns(rows[late], end[late])
        late = late[took > limit[late]]
    findings = [
        _late(evidence, int(rows[at]), int(end[at]), bool(back[at] < NEVER)) for at in late[:LISTED_MAX]
    ]
    return limited(findings, late.size)


def _late(evidence: Evidence, row: int, end_ns: int, returned: bool) -> Finding:
    ops = evidence.ops
    who, wait = evidence.client(row), int(ops.wait_ns[row])
    took = end_ns - int(ops.call_ns[row])
    killed = any(
        code == ops.client[row] and killed_ns >= ops.call_ns[row] for code, killed_ns in evidence.killed
    )
    asked = "without waiting" if wait == 0 else f"with a time-out of {in_words(wait)}"
    came = f"came back after {in_words(took)}" if returned else f"had not come back after {in_words(took)}"
    return evidence.finding(
        "late-return",
        TIMELINESS,
        Severity.VIOLATION if returned else Severity.INFORMATION if killed else Severity.WARNING,
        f"{who} asked for {evidence.key(int(ops.key[row]))!r} {asked} at {evidence.at(ops.call_ns[row])}, "
        f"and {came}",
        key=int(ops.key[row]),
        witnesses=(evidence.invocation(row), evidence.completion(row)),
        clients=(who,),
        wait_ns=wait,
        took_ns=took,
    )
