"""All that is wrong in a trial: what the checker finds in its history, and its ledger on the nodes.

The checker knows a history. It cannot tell whether a library tried again within a call, so it does not count
a lease from the call; whether a release that was not answered was carried out; or whose keys a client is
refused by. Of such things a history says at most that they may be: then the trial is run again with its
ledger, and a breach that no fault excuses is a finding. A trial that is looked at ``closely`` is run with its
ledger at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.examine.kinds import CLOCKS, DIES, FALSE_VALIDITY, HELD, PAUSED
from lab.examine.ledger.book import MS_NS, NEVER, OTHERS, RENEWS, ROUNDED_NS, Call, Claim, Lease, Own
from lab.examine.ledger.breaches import LEAVES, ORDER, OWN_KEYS, PAST_CLAIM, RESIDUE
from lab.examine.ledger.keeping import Kept, keep
from lab.examine.ledger.rules import FENCE, STOPS, Found, certain, is_out, refusing
from lab.examine.violations.judge import RELEASE, RENEWAL, Violation, labels, violations
from lab.examine.violations.sessions import in_sessions
from lab.faults.clock import ClockFault
from lab.faults.down import DownFault
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.search.faults import every_fault, is_a, nodes_of
from lab.search.runner import ZERO_NS, Outcome, is_unattended

FENCE_ORDER: Final = "fence-order"
LEAK: Final = "leak"
OTHERS_KEY: Final = "others-key"
"""A call deletes, replaces, prolongs or shortens the key of another client's lease, one that lasts."""
AFTER_LEASES: Final = 2
"""So many leases after a lease was over, and after the last fault, no key of it may be there any more."""
DOES: Final = {
    "delete": "deletes",
    "replace": "overwrites",
    "shorten": "shortens the life of",
    "prolong": "prolongs",
}


def all_violations(outcome: Outcome) -> dict[str, Violation]:
    """All that is wrong in this history, by the finding's name; the first of each. Only inside ``trials``."""
    if asks_for_ledger(outcome):
        try:
            return seen(keep(outcome.trial))
        except UnknownOutcome:  # a client ends with an error outside of its lock's operations
            pass
    return violations(in_sessions(outcome))


def seen(kept: Kept) -> dict[str, Violation]:
    """The same of a trial that was run with its ledger."""
    found = violations(in_sessions(kept.outcome))
    for violation in _of_ledger(kept):
        found.setdefault(violation.finding, violation)
    return found


def _of_ledger(kept: Kept) -> Iterator[Violation]:
    """What the breaches of a trial come to; nothing where the clocks of nodes were moved, or nodes forgot."""
    trial = kept.outcome.trial
    broken = labels(trial)
    if broken & CLOCKS:
        return
    stood_still = any(is_a(fault, ClockFault, Pause, PowerCut) for fault in every_fault(trial))
    for found in sorted(certain(kept), key=lambda each: each.time_ns):
        rule, _, effect, whose = found.kind
        if found.excused or found.kind in kept.repairs:
            continue
        if found.claim is not None and effect == "claims" and not (stood_still and found.claim.kept_ns):
            yield from _claim(kept, found, found.claim)
        elif rule == OWN_KEYS and whose == OTHERS and broken <= {PAUSED, HELD, DIES}:
            yield from _act(kept, found)
        elif rule == RESIDUE and effect == LEAVES and not broken:
            yield from _residue(kept, found)
        elif effect == STOPS and found.call is not None:
            client = found.call.client
            headline = f"{client}'s lease ended by itself, though {client} held it"
            yield Violation(RENEWAL, headline, (found.text,), clients=(client,))
        elif (rule, effect) == (ORDER, FENCE):
            yield Violation(FENCE_ORDER, f"a client was granted fence {found.text}")
    yield from _keys_nobody_has(kept)


def _claim(kept: Kept, found: Found, claim: Claim) -> Iterator[Violation]:
    """A lease that is claimed for longer than nodes keep its key, by more than a lock without margin may."""
    trial, call = kept.outcome.trial, claim.call
    client, there = call.client, f"its key lay on {len(claim.nodes)} of {trial.nodes} nodes"
    if found.kind == PAST_CLAIM and call.lease.renews:
        return  # that is over when its renewals end
    if found.kind == PAST_CLAIM:
        headline = f"{client}'s lock says that its lease is held, though it is over"
        evidence = f"asked at {stamp(claim.at_ns)}, when {there}"
        yield Violation(FALSE_VALIDITY, headline, (evidence,), clients=(client,))
        return
    what = {"acquire": "acquire", "extend": "extension"}[call.f]
    over_ns = claim.until_ns - max(claim.there_ns, claim.at_ns)
    if not claim.kept_ns:
        # What a quick call was told may be true of keys that others have handed over, if it is not over
        # already; and who stood still may have looked before.
        is_quick = claim.at_ns < min(claim.until_ns, call.called_ns + trial.longest_ttl_ns)
        if is_quick or is_out(kept.outcome, client, call.called_ns, claim.at_ns):
            return
        headline = f"{client}'s {what} returned success when no majority of the nodes had its key"
        evidence = f"the {what} took {(claim.at_ns - call.called_ns) / 1e9:.2f} s, and then {there}"
    elif claim.stated and over_ns > _slack_ns(kept):
        headline = f"{client}'s {what} claims {over_ns / 1e9:.2f} s more than its key will be there"
        claims_s, keeps_s = ((each - claim.at_ns) / 1e9 for each in (claim.until_ns, claim.there_ns))
        evidence = f"it claims {claims_s:.2f} s, and a majority keeps its key for {keeps_s:.2f} s"
    else:
        return
    yield Violation(FALSE_VALIDITY, headline, (evidence,), clients=(client,))


def _slack_ns(kept: Kept) -> int:
    """By how much a lock without a margin may be wrong about the end of a key: clocks drift."""
    return ROUNDED_NS + kept.outcome.trial.longest_ttl_ns // 100


def _act(kept: Kept, found: Found) -> Iterator[Violation]:
    """What a call does to a key of another client's lease that lasts, or to a field of one.

    One that is only asked for may be gone again by the time that its client counts on it.
    """
    effect, entry, call = found.effect, found.entry, found.call
    owner = effect.before.lease if effect is not None and effect.before is not None else None
    if effect is None or entry is None or call is None or owner is None:
        return
    if effect.what not in DOES or effect.slot.element or owner.state == "asked":
        return
    if owner.until_ns - found.time_ns <= _slack_ns(kept):  # it is over, by the clock of the node
        return
    headline = f"{call.client}'s {call.f} {DOES[effect.what]} the key of {owner.client}'s lease"
    evidence = f"by {entry.name} on {found.node} at {stamp(found.time_ns)}"
    yield Violation(OTHERS_KEY, headline, (evidence,), clients=(call.client, owner.client))


def _residue(kept: Kept, found: Found) -> Iterator[Violation]:
    """A key that a release has left for most of its lease, on a node that no fault hit.

    What an acquire leaves that failed may be a mark of who waits. An element of what is shared may be a place
    in a queue; and what has no token of the lease, or is in nobody's way, may be something else than a lock.
    """
    own, call = found.own, found.call
    if own is None or call is None or own.lease is None or own.made_by is None:
        return
    lease, well = own.lease, kept.ledger.nodes_for(call) - _hit(kept, call)
    is_excused = found.node not in well or len(well) < kept.ledger.majority
    is_short = own.lies.until_ns - lease.over_ns < lease.ttl_ns // 2
    is_element = any(each.slot.element for each in own.made_by.effects)
    if found.kind.whose != "released" or is_excused or is_short or is_element:
        return
    has_token = lease.token is None or lease.token in own.lies.value
    if not has_token or not (call.how == "fail" or _keeps_out(kept, found.node, own, lease)):
        return
    ended = {"fail": "was refused", "info": "had no answer"}.get(call.how, "returned")
    headline = f"{lease.client}'s release {ended}, and left the key of its lease"
    evidence = f"nothing was in its way at {stamp(lease.over_ns)}, and the key still lay on {found.node}"
    yield Violation(RELEASE, headline, (evidence,), clients=(lease.client,))


def _keeps_out(kept: Kept, node: str, own: Own, lease: Lease) -> bool:
    """Whether a client asked in vain while what a lease has left lay on a node, and got no key beside it."""
    since_ns, until_ns = lease.over_ns, own.lies.until_ns
    asked = (
        each
        for each in kept.ledger.calls
        if each.f == "acquire" and each.lease is not lease and each.lease.resource == lease.resource
        if since_ns < each.called_ns < until_ns
    )
    in_vain = any(each.how != "ok" or each.ended_ns > until_ns - ROUNDED_NS for each in asked)
    return in_vain and not any(
        each.what in ("create", "replace") and each.after is not None and each.after.lease is not lease
        for entry in kept.ledger.entries
        if entry.node == node and since_ns < entry.time_ns < until_ns
        for each in entry.effects
    )


def _hit(kept: Kept, release: Call) -> set[str]:
    """The nodes that faults hit, but for those that had been restarted before a release and answered it."""
    answered = {entry.node for entry in release.entries}
    hit, (_, ends) = set[str](), kept.outcome.times_of_faults
    for number, fault in enumerate(kept.outcome.struck, 1):
        was_restarted = is_a(fault, DownFault) and ends.get(f"f{number}", NEVER) < release.called_ns
        hit |= set(nodes_of(fault)) - (answered if was_restarted else set())
    return hit


def _keys_nobody_has(kept: Kept) -> Iterator[Violation]:
    """A client that is refused by keys of leases that have been over for so long that none may be there."""
    trial, ledger = kept.outcome.trial, kept.ledger
    if ledger.capacity.permits != 1 or trial.has_readers:
        return
    others_ns = [event["time_ns"] for event in kept.outcome.events if event["process"] == "nemesis"]
    others_ns += [
        each.ended_ns for each in ledger.calls if each.how == "info" and each.f in ("acquire", "extend")
    ]
    granted = [each for each in ledger.leases.values() if each.until_ns]
    for call in (each for each in ledger.calls if (each.f, each.how) == ("acquire", "fail")):
        ends_ns = (min(each.over_ns, each.until_ns) for each in granted if each.asked_ns < call.called_ns)
        if call.called_ns <= max(ends_ns, default=NEVER) + AFTER_LEASES * trial.longest_ttl_ns:
            continue
        by = refusing(ledger, call)
        leases = [own.lease for own in by.values() if own.lease is not None]
        if not leases or len(ledger.nodes_for(call) - by.keys()) >= ledger.majority:
            continue
        # One that renews itself lasts until it is given back.
        over_ns = max(min(each.over_ns, NEVER if each.renews else each.until_ns or NEVER) for each in leases)
        since_ns = max([over_ns, *(each for each in others_ns if each <= call.called_ns)])
        if call.called_ns > since_ns + AFTER_LEASES * trial.longest_ttl_ns:
            owner, late_s = leases[0].client, (call.called_ns - over_ns) / 1e9
            headline = f"{call.client} is refused {late_s:.1f} s after {owner}'s lease was over"
            evidence = f"its key lies on {', '.join(sorted(by))} as before"
            yield Violation(LEAK, headline, (evidence,), clients=(call.client, owner))
            return


def stamp(time_ns: int) -> str:
    """A time for people: since time zero of the trial, when the cluster was up."""
    since_ms = (time_ns - ZERO_NS) / MS_NS
    return f"{since_ms:.0f} ms" if since_ms < 10_000 else f"{since_ms / 1000:.2f} s"


def asks_for_ledger(outcome: Outcome) -> bool:
    """Whether a trial is to be run with its ledger: its history leaves something open that nodes can tell.

    Of one that is looked at ``closely`` always; of none where clocks of nodes were moved, or nodes forgot. A
    look at the events comes first, since a ledger takes some times as long as the trial: it may suspect what
    the ledger clears.
    """
    trial = outcome.trial
    if trial.closely or labels(trial) & CLOCKS:
        return trial.closely
    return _claims_too_much(outcome) or _stays_open(outcome)


def _claims_too_much(outcome: Outcome) -> bool:
    """Whether a success claims more than nodes keep, came after its lease, or has a fence that went back."""
    highest: dict[str, int] = {}
    for event, took_ns in _successes(outcome):
        fence, left_ns = event.get("fence"), event.get("claimed_ns")
        if took_ns > outcome.trial.longest_ttl_ns or (left_ns is not None and left_ns <= 0):
            return True
        if fence is not None and event["f"] == "acquire":
            if fence < highest.get(event["key"], fence):
                return True
            highest[event["key"]] = fence
    slack_ns = ROUNDED_NS + outcome.trial.longest_ttl_ns // 100
    return any(
        outcome.events[index]["claimed_ns"] - left_ns > slack_ns for index, left_ns in outcome.left_ns.items()
    )


def _successes(outcome: Outcome) -> Iterator[tuple[dict[str, Any], int]]:
    """The events of acquires and extensions that succeeded, and how long each call took."""
    called_ns: dict[tuple[str, str], int] = {}
    for event in outcome.events:
        if event["f"] in ("acquire", "extend"):
            call = event["client"], event["f"]
            if event["type"] == "invoke":
                called_ns[call] = event["time_ns"]
            elif event["type"] == "ok":
                yield event, event["time_ns"] - called_ns.get(call, event["time_ns"])


def _stays_open(outcome: Outcome) -> bool:
    """Whether the end of a lease is not what its history lets expect.

    It is said to be held, or renewed, when it should be over; a client is refused, or waits, when nobody has
    the lock any more; or a release fails within its lease.
    """
    trial = outcome.trial
    called: dict[tuple[str, str], int] = {}
    ends_ns: dict[str, int] = {}
    renewed: set[str] = set()
    free_ns, given_back_until_ns = 0, 0
    for event in outcome.events:
        f, kind, client = event["f"], event["type"], event.get("client")
        now_ns: int = event["time_ns"]
        grant_id, ttl_ns = event.get("grant_id") or "", int(event.get("ttl_ns") or trial.ttl_ns)
        if is_unattended(event):
            renewed |= {grant_id} if RENEWS in event["process"] else set()
            continue
        if client is None:
            continue
        if kind == "invoke":
            called[client, f] = now_ns
            if f == "release" and grant_id in renewed and now_ns > ends_ns.get(grant_id, NEVER):
                return True
            continue
        asked_ns: int = called.get((client, f)) or now_ns
        if f in ("acquire", "extend") and kind == "ok":
            if f == "acquire" and asked_ns < given_back_until_ns < now_ns + trial.ttl_ns // 20:
                return True  # it waited for the end of a lease that had been given back
            ends_ns[grant_id], given_back_until_ns = asked_ns + ttl_ns, 0
        elif f == "held" and kind == "ok" and event.get("value") == "yes" and grant_id not in renewed:
            if asked_ns > ends_ns.get(grant_id, NEVER) + ROUNDED_NS:
                return True
        elif f == "release" and grant_id in ends_ns:
            until_ns = ends_ns.pop(grant_id)
            if kind == "fail" and now_ns < until_ns - ttl_ns // 4:
                return True
            free_ns = max(free_ns, now_ns)
            given_back_until_ns = until_ns if kind == "ok" else 0
        elif f == "acquire" and kind == "fail" and all(each <= asked_ns for each in ends_ns.values()):
            since_ns = max(free_ns, *ends_ns.values(), 0)
            if since_ns and asked_ns > since_ns + trial.unavailable_ns // 2:
                return True
    return False
