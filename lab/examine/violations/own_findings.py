"""What the checker must leave open, and an examination need not: it can look at its nodes, and run again.

The checker knows a history. It cannot tell whether a library tried again within a call, so it does not count
a lease from the call; and it cannot tell whether a release that was not answered was carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from checker.words import listed
from lab.examine.kinds import CLOCKS, FALSE_VALIDITY
from lab.examine.violations.evidence import NEVER, Evidence, Operation, watched
from lab.examine.violations.judge import RELEASE, Violation, labels, violations
from lab.examine.violations.keys_that_stay import LEAK, keys_that_stay, released_in_vain
from lab.examine.violations.renewal import lapsed_renewals
from lab.examine.violations.sessions import in_sessions
from lab.faults.clock import ClockFault
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.search.actor import capacity_in
from lab.search.faults import client_of, every_fault, is_a
from lab.search.runner import Outcome, is_unattended

FENCE_ORDER: Final = "fence-order"
AFTER_LEASES: Final = 2
"""So many leases after a release, and after the last fault, no key may be there any more."""
ROUNDED_NS: Final = 3_000_000
"""Nodes keep keys for whole milliseconds."""


def all_violations(outcome: Outcome) -> dict[str, Violation]:
    """All that is wrong in this history, by the finding's name; the first of each. Only inside ``trials``."""
    outcome = in_sessions(outcome)
    found = violations(outcome)
    for violation in own_findings(outcome):
        found.setdefault(violation.finding, violation)
    return found


def own_findings(outcome: Outcome) -> Iterator[Violation]:
    """The findings beside the checker's; none where the clocks of nodes were moved, or nodes forgot."""
    if not labels(outcome.trial) & CLOCKS:
        yield from _over_at_return(outcome)
        has_one_holder = capacity_in(outcome.trial).permits == 1 and not outcome.trial.has_readers
        if has_one_holder:  # else another client's lease may be why a client is refused
            yield from _kept_alive(outcome)
            yield from keys_that_stay(outcome)
            yield from _said_to_be_held(outcome)
        yield from _claims_too_much(outcome)
        yield from _over_from_the_start(outcome)
        yield from _fence_of_who_was_overtaken(outcome)
        yield from _released_in_vain(outcome)
        yield from lapsed_renewals(outcome)


def _over_at_return(outcome: Outcome) -> Iterator[Violation]:
    """A lease that is granted, or extended, when a majority of the nodes has its key no more.

    Only calls that took longer than the lease are looked at, with the time taken off that the client was
    paused for: it may have looked before.
    """
    longest_ns = outcome.trial.longest_ttl_ns
    if not any(took_ns > longest_ns for _, took_ns in _successes(outcome)):
        return
    if (evidence := watched(outcome)) is None:
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
        if len(evidence.holding(each.client, each.ended_ns)) < evidence.outcome.trial.majority:
            yield each


def _is_long(outcome: Outcome, each: Operation) -> bool:
    paused_ns = sum(
        fault.lasts_ns for fault in outcome.struck if is_a(fault, Pause) and client_of(fault) == each.client
    )
    return each.ended_ns - each.called_ns - paused_ns > outcome.trial.longest_ttl_ns


def _successes(outcome: Outcome) -> Iterator[tuple[dict[str, Any], int]]:
    """The events of acquires and extensions that succeeded, and how long each call took."""
    called_ns: dict[tuple[str, str], int] = {}
    for event in outcome.events:
        if event["f"] not in ("acquire", "extend"):
            continue
        call = event["client"], event["f"]
        if event["type"] == "invoke":
            called_ns[call] = event["time_ns"]
        elif event["type"] == "ok":
            yield event, event["time_ns"] - called_ns.get(call, event["time_ns"])


def _kept_alive(outcome: Outcome) -> Iterator[Violation]:
    """A key that is still there some leases after the release of the last holder was called, unanswered."""
    ttl_ns = outcome.trial.longest_ttl_ns
    release: dict[str, Any] | None = None
    since_ns = 0
    refused_ns: int | None = None
    for event in outcome.events:
        f, kind = event["f"], event["type"]
        if is_unattended(event):
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


def _released_in_vain(outcome: Outcome) -> Iterator[Violation]:
    """A release of a lease that lasts, after which its key stays until it expires; no fault struck.

    Watched are only trials in which a release was refused, or another client was after one that was not.
    """
    if every_fault(outcome.trial) or not _may_be_in_vain(outcome):
        return
    if (evidence := watched(outcome)) is None:
        return
    for release, nodes, look_ns in released_in_vain(evidence):
        says = "was refused" if release.how == "fail" else "returned"
        headline = f"{release.client}'s release {says}, and left the key of its lease"
        seen = (
            f"released at {evidence.at(release.called_ns)}, in its lease, without a fault; at "
            f"{evidence.at(look_ns)} the key still lay on {listed(nodes)}"
        )
        yield Violation(RELEASE, headline, (seen,), clients=(release.client,))
        return


def _may_be_in_vain(outcome: Outcome) -> bool:
    """Whether a release failed before its lease was over, or one that did not was of no use to others."""
    trial = outcome.trial
    granted: dict[str, int] = {}
    called: dict[str, int] = {}
    over_ns = 0
    for event in outcome.events:
        f, kind, client, now_ns = event["f"], event["type"], event.get("client"), event["time_ns"]
        if client is None or is_unattended(event):
            continue
        if kind == "invoke":
            called[client] = now_ns
        elif f == "acquire" and kind == "ok":
            if over_ns and called[client] < over_ns < now_ns + trial.ttl_ns // 20:
                return True  # it waited for the end of a lease that had been released
            granted[event["grant_id"]], over_ns = called[client], 0
        elif f == "acquire" and kind == "fail" and called[client] < over_ns:
            return True
        elif f == "release" and kind in ("ok", "fail") and event["grant_id"] in granted:
            ends_ns = granted[event["grant_id"]] + _lease_ns(outcome, event)
            if now_ns < ends_ns - _lease_ns(outcome, event) // 4:
                if kind == "fail":
                    return True
                over_ns = ends_ns
    return False


def _lease_ns(outcome: Outcome, event: dict[str, Any]) -> int:
    return int(event.get("ttl_ns") or outcome.trial.ttl_ns)


def _claims_too_much(outcome: Outcome) -> Iterator[Violation]:
    """A lease that is claimed for longer than a majority of the nodes keeps its key; no clock was moved."""
    if any(is_a(fault, ClockFault, Pause, PowerCut) for fault in every_fault(outcome.trial)):
        return
    for index, left_ns in outcome.left_ns.items():
        if (over_ns := too_much_ns(outcome, index)) > 0:
            event = outcome.events[index]
            what = {"acquire": "acquire", "extend": "extension"}[event["f"]]
            headline = (
                f"{event['client']}'s {what} claims {over_ns / 1e9:.2f} s more than its key will be there"
            )
            seen = (
                f"it claims {event['claimed_ns'] / 1e9:.2f} s, and a majority keeps its key for "
                f"{left_ns / 1e9:.2f} s"
            )
            yield Violation(FALSE_VALIDITY, headline, (seen,), clients=(event["client"],))
            return


def _said_to_be_held(outcome: Outcome) -> Iterator[Violation]:
    """A lock that says of a lease that it is held, asked when that was over and no majority had its key.

    No clock was moved, and no client paused. Of a lock that renews its leases it is found that they end.
    """
    faults = every_fault(outcome.trial)
    if any(is_a(each, ClockFault, Pause, PowerCut) for each in faults):
        return
    if not _may_be_said_late(outcome):
        return
    if (evidence := watched(outcome)) is None:
        return
    for each in evidence.operations:
        grant = None if each.grant_id is None else evidence.grant_of(each.grant_id)
        if (each.f, each.how, each.event.get("value")) != ("held", "ok", "yes") or grant is None:
            continue
        over_ns = evidence.until_ns(grant) + ROUNDED_NS
        nodes = evidence.holding(each.client, each.called_ns)
        if each.called_ns > over_ns and len(nodes) < outcome.trial.majority:
            late_s = (each.called_ns - over_ns + ROUNDED_NS) / 1e9
            headline = f"{each.client}'s lock says that its lease is held {late_s:.2f} s after its end"
            seen = f"asked at {evidence.at(each.called_ns)}, when its key lay on {len(nodes)} of the nodes"
            yield Violation(FALSE_VALIDITY, headline, (seen,), clients=(each.client,))
            return


def _may_be_said_late(outcome: Outcome) -> bool:
    """Whether a client was told that its lease is held a whole lease after it last got one."""
    called: dict[tuple[str, str], int] = {}
    over_ns: dict[str, int] = {}
    for event in outcome.events:
        f, kind, client = event["f"], event["type"], event.get("client")
        if is_unattended(event):
            return False  # what renews itself is over when its renewals end
        if client is None:
            continue
        if kind == "invoke":
            called[client, f] = event["time_ns"]
        elif kind == "ok" and f in ("acquire", "extend"):
            over_ns[event["grant_id"]] = called[client, f] + _lease_ns(outcome, event)
        elif kind == "ok" and (f, event.get("value")) == ("held", "yes"):
            says_late = called[client, f] > over_ns.get(event["grant_id"], NEVER) + ROUNDED_NS
            if says_late:
                return True
    return False


def _over_from_the_start(outcome: Outcome) -> Iterator[Violation]:
    """A success with a lease of which nothing is left, of a quick call; no clock was moved."""
    if any(is_a(fault, ClockFault, Pause) for fault in every_fault(outcome.trial)):
        return
    for event, took_ns in _successes(outcome):
        left_ns = event.get("claimed_ns")
        if left_ns is None or left_ns > 0 or took_ns > event["ttl_ns"] // 2:
            continue
        what = {"acquire": "acquire", "extend": "extension"}[event["f"]]
        headline = f"{event['client']}'s {what} returned a lease that was already over"
        seen = (f"it had ended {-left_ns / 1e9:.2f} s before",)
        yield Violation(FALSE_VALIDITY, headline, seen, clients=(event["client"],))
        return


def too_much_ns(outcome: Outcome, index: int) -> int:
    """By how much the claim of an event is longer than the nodes keep the key.

    0 if it is not, or by no more than a correct lock without a margin may be off.
    """
    left_ns = outcome.left_ns.get(index)
    over_ns = 0 if left_ns is None else int(outcome.events[index]["claimed_ns"]) - left_ns
    return over_ns if over_ns > ROUNDED_NS + outcome.trial.longest_ttl_ns // 100 else 0


def _fence_of_who_was_overtaken(outcome: Outcome) -> Iterator[Violation]:
    """A grant with a smaller fence than another that had been returned before its key was on the nodes.

    The checker goes by that order where nodes are observed. It is looked at only where grants were returned
    with fences that do not grow, although their calls overlap: then the events of clients do not tell it.
    """
    if not _went_back(outcome):
        return
    if (evidence := watched(outcome)) is None:
        return
    for earlier, later in overtaken_grants(evidence):
        fences = earlier.event["fence"], later.event["fence"]
        headline = (
            f"{later.client} was granted fence {fences[1]} after {earlier.client} got fence {fences[0]}"
        )
        seen = (
            f"{earlier.client} was granted the lock at {evidence.at(earlier.ended_ns)}, and only then "
            f"{later.client}'s key was set, at {evidence.at(evidence.began_ns(later) or 0)}"
        )
        yield Violation(FENCE_ORDER, headline, (seen,), clients=(earlier.client, later.client))
        return


def overtaken_grants(evidence: Evidence) -> Iterator[tuple[Operation, Operation]]:
    """Two grants, the second with the smaller fence, though its key was set after the first was returned."""
    fenced = [grant for grant in evidence.grants() if grant.event.get("fence") is not None]
    for later in fenced:
        began_ns = evidence.began_ns(later)
        for earlier in fenced:
            backwards = later.event["fence"] < earlier.event["fence"]
            same_key = later.event.get("key") == earlier.event.get("key")
            if began_ns is not None and backwards and same_key and earlier.ended_ns < began_ns:
                yield earlier, later


def _went_back(outcome: Outcome) -> bool:
    """Whether a grant was returned with a smaller fence than one that was returned before it."""
    highest: dict[str, int] = {}
    for event in outcome.events:
        fence = event.get("fence") if event["type"] == "ok" and event["f"] == "acquire" else None
        if fence is not None:
            if fence < highest.get(event["key"], fence):
                return True
            highest[event["key"]] = fence
    return False
