"""What happened in a trial, line by line: operations and faults in the order of time, up to the violation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from checker.words import listed
from lab.examine.evidence import MS_NS, NEVER, Evidence, Operation
from lab.examine.judge import RELEASE, RENEWAL
from lab.examine.own_findings import all_violations
from lab.locks.capacity import READ
from lab.search.actor import OTHER_GRANTS
from lab.search.faults import fault_of
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Trial

LINES_MAX: Final = 15
"""How many lines there are at most."""
SAME_MIN: Final = 4
"""So many lines in a row that differ only in their times are shortened."""
LONG_NS: Final = 20 * MS_NS
"""An operation that took longer is shown with its end."""
OF_THE_RESOURCE: Final = ("read", "held", "write")
WITHOUT_RESOURCE: Final = (
    "overlap",
    "over-capacity",
    "fence-order",
    "false-validity",
    "continuity-loss",
    "leak",
    "unavailable",
    RELEASE,
    RENEWAL,
)
"""Findings that need no reads and writes."""
OUTCOMES: Final = {
    ("acquire", "ok"): "acquires: granted",
    ("acquire", "fail"): "acquires: refused",
    ("acquire", "info"): "acquires: outcome unknown",
    ("extend", "ok"): "extends: the lease is longer now",
    ("extend", "fail"): "extends: refused",
    ("extend", "info"): "extends: outcome unknown",
    ("release", "ok"): "releases",
    ("release", "fail"): "releases: it did not hold the lock any more",
    ("release", "info"): "releases: outcome unknown",
    ("write", "ok"): "writes",
    ("write", "fail"): "writes: rejected",
    ("write", "info"): "writes: outcome unknown",
}


def narrate(trial: Trial, finding: str) -> tuple[str, ...]:
    """Run a trial once more and tell what happens up to its finding; only inside ``trials``.

    Raises:
        UnknownOutcome: a client ended with an exception.
    """
    found = all_violations(run_trial(trial)).get(finding)
    outcome = run_trial(trial, watch=True)
    evidence = Evidence(outcome)
    last_ns = NEVER
    if found is not None and found.witnesses:
        last_ns = max(outcome.events[at]["time_ns"] for at in found.witnesses)
    without = OF_THE_RESOURCE if finding in WITHOUT_RESOURCE else ()
    lines = _faults(evidence, outcome)  # ahead of the call that they strike at
    lines += [
        (each.called_ns, _stamp(evidence, each), _operation(each))
        for each in evidence.operations
        if each.f not in without
    ]
    lines.sort(key=lambda line: line[0])
    return cut(shortened([(stamp, words) for at_ns, stamp, words in lines if at_ns <= last_ns]))


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    """At most ``LINES_MAX`` lines: the beginning, and the end, at which the violation is."""
    if len(lines) <= LINES_MAX:
        return tuple(lines)
    half = LINES_MAX // 2
    return (*lines[:half], f"… {len(lines) - 2 * half} more lines …", *lines[-half:])


def shortened(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of a stamp and words, where of many in a row with the same words the first and last are left."""
    found: list[str] = []
    for _, group in groupby(lines, key=itemgetter(1)):
        same = [f"{stamp}: {words}" for stamp, words in group]
        if len(same) >= SAME_MIN:
            same[1:-1] = [f"… the same {len(same) - 2} times more"]
        found += same
    return found


def _stamp(evidence: Evidence, operation: Operation) -> str:
    called = evidence.at(operation.called_ns)
    if operation.ended_ns == NEVER or operation.ended_ns - operation.called_ns <= LONG_NS:
        return called
    return f"{called} to {evidence.at(operation.ended_ns)}"


def _operation(operation: Operation) -> str:
    who, f, how, event = operation.client.capitalize(), operation.f, operation.how, operation.event
    if how == "open":
        return f"{who} calls {f}, which never returns"
    if f == "read":
        return f"{who} reads version {event.get('version_read')}"
    if f == "held":
        still = event.get("value") == "yes"
        return f"{who} {'still believes in the lease' if still else 'sees that the lease is over'}"
    of_another = f" '{event['key']}'" if _is_of_other_lock(event) else ""
    verb, colon, outcome = OUTCOMES.get((f, how), f"{f} ({how})").partition(":")
    reads = " as a reader" if f == "acquire" and event.get("value") == READ else ""
    words = f"{who} {verb}{of_another}{reads}{colon}{outcome}"
    if (f, how) == ("acquire", "ok") and not of_another:
        words += _where(event.get("_nodes") or [], event.get("_others") or [])
        words += f" with fence {event['fence']}" if event.get("fence") is not None else ""
    elif (f, how) == ("write", "ok"):
        words += f" version {event.get('version_written')}"
    return words


def _is_of_other_lock(event: Mapping[str, Any]) -> bool:
    """Whether an operation is about the second lock of its client, whose grants have numbers of their own."""
    number = str(event.get("grant_id") or "").rpartition("-")[2]
    return number.isdigit() and int(number) > OTHER_GRANTS


def _where(nodes: list[str], others: list[str]) -> str:
    """On which nodes a grant's key is; or, where its token was found on none, what was."""
    if nodes:
        return f" (its key is on {listed(nodes)})"
    return f" (the key is on {listed(others)}, without its token)" if others else " (the key is on no node)"


def _faults(evidence: Evidence, outcome: Outcome) -> list[tuple[int, str, str]]:
    """When each fault began and ended."""
    of = {f"f{at}": fault for at, fault in enumerate(outcome.struck, 1)}
    lines = []
    for event in outcome.events:
        if event["process"] == "nemesis" and event["type"] == "invoke":
            begun = event.get("heals")
            fault = of.get(begun or event["fault_id"])
            if fault is None:
                words = f"the Sentinels promote {listed(event['targets'])}"
            else:
                words = f"{'end of the fault' if begun else 'fault'}: {fault_of(fault).clause}"
            lines.append((event["time_ns"], evidence.at(event["time_ns"]), words))
    return lines
