"""What the checker must leave open, and an examination need not: it can look at its nodes, and run again.

The checker knows a history. It cannot tell whether a library tried again within a call, so it does not count
a lease from the call; and it cannot tell whether a release that was not answered was carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.examine.evidence import Evidence, Operation
from lab.examine.judge import Violation, labels, violations
from lab.examine.kinds import CLOCKS
from lab.search.relevant import UNATTENDED
from lab.search.runner import Outcome, run_trial

LEAK: Final = "leak"
FALSE_VALIDITY: Final = "false-validity"
AFTER_LEASES: Final = 2
"""So many leases after a release, and after the last fault, no key may be there any more."""


def all_violations(outcome: Outcome) -> dict[str, Violation]:
    """All that is wrong in this history, by the finding's name; the first of each. Only inside ``trials``."""
    found = violations(outcome)
    for violation in own_findings(outcome):
        found.setdefault(violation.finding, violation)
    return found


def own_findings(outcome: Outcome) -> Iterator[Violation]:
    """The findings beside the checker's; none where the clocks of nodes were moved, or nodes forgot."""
    if not labels(outcome.trial) & CLOCKS:
        yield from _over_at_return(outcome)
        yield from _kept_alive(outcome)


def _over_at_return(outcome: Outcome) -> Iterator[Violation]:
    """A lease that is granted, or extended, when a majority of the nodes has its key no more.

    Only calls that took longer than the lease are looked at, with the time taken off that the client was
    paused for: it may have looked before.
    """
    if not any(_took_ns(outcome, event) > outcome.trial.ttl_ns for event in outcome.events):
        return
    try:
        evidence = Evidence(run_trial(outcome.trial, watch=True))
    except UnknownOutcome:
        return
    for each in late_successes(evidence):
        nodes = evidence.holding(each.client, each.ended_ns)
        what = {"acquire": "acquire", "extend": "extension"}[each.f]
        headline = f"{each.client}'s {what} returned success when its lease was over"
        seen = (
            f"the {what} took {(each.ended_ns - each.called_ns) / 1e9:.2f} s, and then its key lay on "
            f"{len(nodes)} of {outcome.trial.nodes} nodes"
        )
        yield Violation(FALSE_VALIDITY, headline, (seen,), clients=(each.client,))
        return


def late_successes(evidence: Evidence) -> Iterator[Operation]:
    """The calls that were told of success when a majority of the nodes had the client's key no more."""
    for each in evidence.operations:
        if each.f not in ("acquire", "extend") or each.how != "ok" or not _is_long(evidence.outcome, each):
            continue
        if len(evidence.holding(each.client, each.ended_ns)) <= evidence.outcome.trial.nodes // 2:
            yield each


def _is_long(outcome: Outcome, each: Operation) -> bool:
    paused_ns = sum(
        fault.lasts_ns for fault in outcome.struck if (fault.kind, fault.client) == ("pause", each.client)
    )
    return each.ended_ns - each.called_ns - paused_ns > outcome.trial.ttl_ns


def _took_ns(outcome: Outcome, event: dict[str, Any]) -> int:
    """How long a call took that succeeded; 0 for anything else."""
    if event["type"] != "ok" or event["f"] not in ("acquire", "extend"):
        return 0
    called = [
        other["time_ns"]
        for other in outcome.events
        if (other["type"], other["f"], other.get("client")) == ("invoke", event["f"], event["client"])
        and other["time_ns"] <= event["time_ns"]
    ]
    return int(event["time_ns"] - called[-1]) if called else 0


def _kept_alive(outcome: Outcome) -> Iterator[Violation]:
    """A key that is still there some leases after the release of the last holder was called, unanswered."""
    ttl_ns = outcome.trial.ttl_ns
    release: dict[str, Any] | None = None
    since_ns = 0
    refused_ns: int | None = None
    for event in outcome.events:
        f, kind = event["f"], event["type"]
        if UNATTENDED in event["process"]:
            continue
        if "client" not in event:
            since_ns, refused_ns = event["time_ns"], None  # a fault begins or ends
        elif f == "acquire" and kind == "invoke":
            refused_ns = event["time_ns"]
        elif f in ("acquire", "extend") and kind == "ok":
            release = None
        elif f in ("acquire", "extend") and kind == "info":
            since_ns, refused_ns = event["time_ns"], None  # what it may have set runs out as well
        elif f == "release" and kind == "info":
            release, since_ns = event, max(since_ns, event["time_ns"])
        elif f == "acquire" and kind == "fail" and event.get("refused_by") and release is not None:
            asked_ns = 0 if refused_ns is None else refused_ns
            if asked_ns <= since_ns + AFTER_LEASES * ttl_ns:
                continue
            waited_s, owner = (asked_ns - release["time_ns"]) / 1e9, release["client"]
            headline = f"{event['client']} is refused {waited_s:.1f} s after {owner}'s release"
            seen = f"{owner}'s release was not answered, and nobody was granted the lock since"
            yield Violation(LEAK, headline, (seen,), clients=(event["client"], owner))
            return
