"""The breaches of a trial: what broke which rule, when, and by which command or claim.

See ``lab.examine.ledger.breaches`` for the rules. By itself a breach is a candidate: it counts as a cause if
a violation goes away when it is repaired, or says it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lab.examine.kinds import longest_wait_ns
from lab.examine.ledger.book import NEVER, ROUNDED_NS, Breach, Call, Claim, Effect, Entry, Lease, Ledger, Own
from lab.examine.ledger.breaches import (
    APART,
    CLAIMS,
    LEAVES,
    ORDER,
    PAST_CLAIM,
    PROGRESS,
    RESIDUE,
    SKIPS_NODES,
    SOON_NS,
    WAITING,
    residue_of,
)
from lab.examine.ledger.keeping import Kept
from lab.examine.violations.evidence import ABOUT_CONNECTIONS
from lab.examine.violations.judge import end_ns_of, labels, may_repeat, never_ends
from lab.faults.client_crash import ClientCrash
from lab.faults.clock import ClockFault
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.down import DownFault
from lab.faults.hold import Hold
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.locks import lock_class
from lab.scenario.steps import Close
from lab.scenario.tracks import Timed
from lab.search.faults import client_of, is_a, nodes_of
from lab.search.guard import CANCELLED
from lab.search.origin import Sent
from lab.search.runner import Outcome, is_unattended

TAKES_NOTHING: Final = ABOUT_CONNECTIONS | {"UNWATCH", "DISCARD"}
"""What a client sends to have a connection in order, as when another one broke in a transaction."""
RAISES, NEVER_ENDS, IS_LATE, FAILS, MIXES = "raises", "never ends", "is late", "fails", "mixes keys"
STOPS: Final = "stops renewing"
OUTWAITS: Final = "waits past its time-out"
FENCE, STALE = "fence", "stale"
NOT_SENT, NOT_ARRIVED, OVERTAKEN, ERROR_REPLY = (
    "not sent",
    "not arrived",
    "overtaken",
    "answered with an error",
)
OTHER_TOKEN, OTHER_VALUE, UNCHANGED = "other token", "other value", "changed nothing"
AFTER_ITS_END, DID_SOMETHING = "renewed", "did something else"
"""What became of the command that was to take a key away."""
MS_NS: Final = 1_000_000
LOOKS: Final = 20
"""How often it is looked whether the lock was free while a call went on."""
RENEWAL_LOOKS: Final = 50
"""How often in a lease it is looked whether a key that is renewed is there."""


@dataclass(frozen=True, slots=True)
class Found:
    """One breach: its kind, when it happened, and what shows it.

    ``excused``: a fault was in the way of doing better. ``text`` says more, where there is more to say.
    """

    kind: Breach
    time_ns: int
    entry: Entry | None = None
    effect: Effect | None = None
    claim: Claim | None = None
    call: Call | None = None
    own: Own | None = None
    node: str = ""
    text: str = ""
    excused: bool = False


def breaches(kept: Kept) -> list[Found]:
    """All breaches of a trial, in the order of time."""
    return sorted([*certain(kept), *_of_progress(kept)], key=lambda each: each.time_ns)


def certain(kept: Kept) -> list[Found]:
    """Those that need no look at how long calls took, by rule."""
    found = [*_of_entries(kept), *_of_claims(kept), *_of_residues(kept)]
    return [*found, *_of_renewals(kept), *_of_order(kept)]


def _of_entries(kept: Kept) -> Iterator[Found]:
    for entry in kept.ledger.entries:
        for effect, kind in zip(entry.effects, entry.breaches, strict=True):
            # What is refused takes nothing under another name: what it has set there is a note.
            is_note = kind is not None and kind.whose == APART and entry.call and entry.call.how == "fail"
            if kind is not None and not is_note:
                excused = kind.whose == WAITING and _was_away(kept.outcome, effect, entry.time_ns)
                yield Found(
                    kind, entry.time_ns, entry, effect, call=entry.call, node=entry.node, excused=excused
                )


def _was_away(outcome: Outcome, effect: Effect, at_ns: int) -> bool:
    """Whether a client whose place is taken away was kept from showing that it waits."""
    waits = effect.before.lease if effect.before is not None else None
    if waits is None:
        return False
    return is_out(outcome, waits.client, waits.asked_ns, at_ns) or bool(
        away_from(outcome, waits.client, waits.asked_ns, at_ns, losing_only=True)
    )


def _of_claims(kept: Kept) -> Iterator[Found]:
    ledger, uses = kept.ledger, kept.outcome.trial.uses or kept.outcome.trial.nodes
    for claim in ledger.claims:
        call, at_ns, until_ns = claim.call, claim.at_ns, claim.call.lease.until_ns
        if call.f == "held":
            late = at_ns > until_ns + ROUNDED_NS and claim.kept_ns < at_ns - ROUNDED_NS
            if claim.until_ns >= at_ns and late and until_ns:
                yield Found(PAST_CLAIM, at_ns, claim=claim, call=call)
            continue
        asked = {sent.node for sent in call.sent}
        if asked and len(asked) < uses and claim.kept_ns and claim.until_ns > at_ns:
            skipped = ledger.nodes_for(call) - asked
            excused = skipped <= away_from(kept.outcome, call.client, 0, at_ns)
            kind, names = Breach(CLAIMS, call.f, SKIPS_NODES), ", ".join(sorted(skipped))
            yield Found(kind, at_ns, claim=claim, call=call, text=names, excused=excused)
        # What is no more than rounded harms nobody; undoing it only shifts what comes afterwards.
        if claim.until_ns > max(claim.kept_ns, at_ns if claim.kept_ns else 0) + ROUNDED_NS:
            yield Found(Breach(CLAIMS, call.f, "claims"), at_ns, claim=claim, call=call)


def _of_residues(kept: Kept) -> Iterator[Found]:
    """Keys that were there for long after the call that was to take them away, or that had failed."""
    outcome, ledger = kept.outcome, kept.ledger
    effects = (effect for entry in ledger.entries for effect in entry.effects)
    owners = {id(effect.after.lease) for effect in effects if effect.after is not None}
    calls_of = dict[int, list[Call]]()
    for call in ledger.calls:
        if call.f in ("acquire", "release"):
            calls_of.setdefault(id(call.lease), []).append(call)
    for lease in (each for each in ledger.leases.values() if id(each) in owners):
        calls = calls_of[id(lease)]
        made_ns = [
            entry.time_ns
            for call in calls
            for entry in call.entries
            if any(effect.what == "create" for effect in entry.effects)
        ]
        ends_ns = min((call.ended_ns for call in calls if call.f == "acquire"), default=NEVER)
        # What is sent early may be executed late; and a call that takes too long may leave something, too.
        looks_ns = [max([lease.over_ns, *made_ns]) + SOON_NS] if lease.over_ns < NEVER else []
        looks_ns += [
            at_ns + lease.ttl_ns // 2 + 1 for at_ns in made_ns if at_ns + lease.ttl_ns // 2 < ends_ns
        ]
        for look_ns in looks_ns:
            yield from _left_at(outcome, ledger, lease, calls[-1], look_ns, asked=look_ns < ends_ns)


def _left_at(
    outcome: Outcome, ledger: Ledger, lease: Lease, call: Call, look_ns: int, *, asked: bool
) -> Iterator[Found]:
    """The keys of a lease that nobody has, at a time; ``asked``: its acquire was still going on then."""
    for node, slot, own in ledger.at(look_ns):
        if own.lease is not lease or (asked and (slot.element or slot.field)):  # a place of one that waits
            continue
        kind = Breach(RESIDUE, "acquire", LEAVES, "asked") if asked else residue_of(own, NEVER)
        if kind is not None:
            since = min(lease.over_ns, look_ns)
            excused = is_out(outcome, lease.client, since, look_ns) or _was_kept_from(
                outcome, ledger, lease, own, node, slot.key
            )
            # It may still wait for the answer to what made the key, which a fault has lost.
            excused = excused or (asked and _waits_for_answer(outcome, ledger, lease, own, node, look_ns))
            since_ns = look_ns if asked else lease.over_ns + MS_NS
            yield Found(kind, since_ns, own.made_by, call=call, own=own, node=node, excused=excused)


def _waits_for_answer(
    outcome: Outcome, ledger: Ledger, lease: Lease, own: Own, node: str, look_ns: int
) -> bool:
    """Whether a client has sent a node nothing since what made a key there, and a fault was in its way."""
    made = own.made_by
    if made is None or made.sent is None:
        return False
    sent = (each for call in ledger.calls if call.lease is lease for each in call.sent if each.node == node)
    if any(made.sent.time_ns < each.time_ns <= look_ns for each in sent):
        return False
    return node in away_from(outcome, lease.client, made.time_ns, look_ns)


def _was_kept_from(outcome: Outcome, ledger: Ledger, lease: Lease, own: Own, node: str, key: str) -> bool:
    """Whether a fault kept a client from taking a key away: what it sent was lost, or it could not."""
    if own.made_by is None:
        return True
    by = own.made_by.call
    if by is not None and by.lease is not lease:  # it was handed over to one that was not there any more
        return node in away_from(outcome, lease.client, lease.asked_ns, lease.over_ns + SOON_NS)
    fact, _, last = undoing(ledger, lease, own.made_by)
    if fact == NOT_ARRIVED or (fact == NOT_SENT and _broke_off(outcome, ledger, lease, node)):
        return True
    if fact == OVERTAKEN:  # on another connection: no harm, where nobody was told that it has no key
        return lease.state == "unknown" or (lease.state == "refused" and len(ledger.nodes) > 1)
    # Where it was refused a connection, or its node was down, it could send nothing (more).
    since_ns, until_ns = (last or own.made_by).time_ns, min(lease.over_ns, NEVER - SOON_NS) + SOON_NS
    closed = away_from(outcome, lease.client, since_ns, until_ns, closed_only=True)
    if node in closed and fact in (NOT_SENT, ERROR_REPLY, OTHER_VALUE, UNCHANGED):
        return True
    # What comes after an error such as NOSCRIPT, or after SCRIPT LOAD, waits for the answer to that.
    if fact == ERROR_REPLY or (last is not None and key not in last.words):
        return node in away_from(outcome, lease.client, since_ns, until_ns)
    # A client library connects anew first, and may hear nothing.
    connects = any(
        sent.node == node
        and sent.time_ns > own.made_by.time_ns
        and sent.words[0].upper() in ABOUT_CONNECTIONS
        for call in ledger.calls
        if call.lease is lease
        for sent in call.sent
    )
    return fact == NOT_SENT and connects and node in away_from(outcome, lease.client, since_ns, until_ns)


def _broke_off(outcome: Outcome, ledger: Ledger, lease: Lease, node: str) -> bool:
    """Whether a client could send nothing in its release, since its connection was broken.

    It hears of that when it sends. Whether it tells its user, or leaves the key to its TTL without a word,
    makes no difference to others.
    """
    ends_ns = [each.ended_ns for each in ledger.calls if each.lease is lease and each.f == "release"]
    begins, _ = outcome.times_of_faults
    return bool(ends_ns) and any(
        is_a(fault, Reset)
        and client_of(fault) in ("", lease.client)
        and node in nodes_of(fault)
        and lease.asked_ns <= begins.get(f"f{number}", NEVER) <= ends_ns[0]
        for number, fault in enumerate(outcome.struck, 1)
    )


def undoing(ledger: Ledger, lease: Lease, made: Entry) -> tuple[str, Sent | None, Entry | None]:
    """What became of the command that was to take away what another one made: as a fact, and that command."""
    calls = [call for call in ledger.calls if call.lease is lease and call.f in ("acquire", "release")]
    sent_ns = lease.over_ns if made.sent is None else made.sent.time_ns
    by = made.call
    if by is not None and by.lease is lease and (by.f in ("release", "extend") or sent_ns > lease.over_ns):
        return AFTER_ITS_END, made.sent, made
    sent = [
        each
        for call in calls
        for each in call.sent
        if each.node == made.node and made.sent is not None and each is not made.sent
        if each.time_ns >= made.sent.time_ns and each.words[0].upper() not in TAKES_NOTHING
    ]
    # What renewed it between the two calls was to take nothing away, nor was what prolonged it in the first.
    granted_ns = next((call.ended_ns for call in calls if call.f == "acquire"), NEVER)
    released_ns = next((call.called_ns for call in calls if call.f == "release"), granted_ns)
    sent = [each for each in sent if not granted_ns < each.time_ns < released_ns]
    gave = {id(entry.sent) for call in calls for entry in call.entries if _prolongs(entry, lease)}
    sent = [each for each in sent if id(each) not in gave or each.time_ns > lease.over_ns]
    if not sent:
        return NOT_SENT, None, None
    lies = made.effects[0].after.lies if made.effects and made.effects[0].after else None
    value = lies.value if lies is not None else ""
    # What is sent when the key has expired takes nothing away, and may be the next try.
    sent = [each for each in sent if lies is None or each.time_ns < lies.until_ns] or sent[:1]
    sent = [each for each in sent if value in each.words and each.words != made.words] or sent
    # Nor does what arrives then: it has not arrived as long as there was something to take away.
    gone_ns = ledger.gone_ns(made)
    entries = [
        entry for call in calls for entry in call.entries if entry.sent in sent and entry.time_ns < gone_ns
    ]
    if all(entry.sent is not sent[-1] for entry in entries):
        return NOT_ARRIVED, sent[-1], None
    last = entries[-1]
    if last.time_ns < made.time_ns:
        return OVERTAKEN, last.sent, last
    if last.error:
        return ERROR_REPLY, last.sent, last
    if value not in last.words:
        fact = OTHER_VALUE if named_by(ledger, last, lease) is None else OTHER_TOKEN
        return fact, last.sent, last
    return DID_SOMETHING if last.effects else UNCHANGED, last.sent, last


def _prolongs(entry: Entry, lease: Lease) -> bool:
    """Whether a command prolonged what belongs to a lease, and did nothing else but set more of it."""
    does = {effect.what for effect in entry.effects}
    owners = {effect.after.lease is lease for effect in entry.effects if effect.after is not None}
    return "prolong" in does and does <= {"create", "prolong"} and owners == {True}


def named_by(ledger: Ledger, entry: Entry, but: Lease) -> Lease | None:
    """The lease whose token a command names, if that is another one."""
    named = [
        lease for lease in ledger.leases.values() if lease.token is not None and lease.token in entry.words
    ]
    return named[0] if named and but not in named else None


def _of_progress(kept: Kept) -> Iterator[Found]:
    outcome, ledger = kept.outcome, kept.ledger
    for failure in outcome.failures:
        of = [each for each in ledger.calls if (each.client, each.f) == (failure.client, failure.f)]
        text = f"raised {failure.error} ({failure.where})"
        call = of[-1] if of else None
        yield Found(Breach(PROGRESS, failure.f, RAISES), failure.time_ns, call=call, text=text)
    end_ns = max((event["time_ns"] for event in outcome.events), default=0)
    if any(call.ended_ns == NEVER for call in ledger.calls):
        end_ns = end_ns_of(outcome)
    refused = _refused_by_keys(ledger)
    asked = [
        (each.asked_ns, min(each.over_ns, max(each.until_ns, 0) or NEVER), each)
        for each in ledger.leases.values()
    ]
    limit_ns = None if outcome.struck else longest_wait_ns(outcome.trial.lock, outcome.trial.options)
    for call in ledger.calls:
        bound_ns = max(call.ttl_ns, outcome.trial.ttl_ns) // 2
        took_ns = min(call.ended_ns, end_ns) - call.called_ns
        if call.f == "acquire" and limit_ns is not None and took_ns > limit_ns:
            yield Found(Breach(PROGRESS, "acquire", OUTWAITS), call.called_ns + limit_ns, call=call)
        if took_ns > bound_ns and not is_out(outcome, call.client):
            is_open = call.ended_ns == NEVER and not may_repeat(outcome)
            has_no_end = is_open and never_ends(outcome.trial, call.lease.grant_id, call.f)
            what = NEVER_ENDS if has_no_end else IS_LATE
            over_ns = min(call.ended_ns, end_ns)
            # It may wait for an answer that was lost, unless it has been heard of since.
            away = away_from(outcome, call.client, call.called_ns, over_ns, losing_only=True)
            away -= {entry.node for entry in call.entries if entry.time_ns >= over_ns - bound_ns}
            away |= away_from(outcome, call.client, over_ns - bound_ns, over_ns)
            excused = len(ledger.nodes_for(call) - away) < ledger.majority
            if call.f == "acquire":  # which may wait for as long as another client has the lock
                excused = excused or _free_for_ns(ledger, call, over_ns) < bound_ns
            kind = Breach(PROGRESS, call.f, what)
            yield Found(kind, call.called_ns + bound_ns, call=call, excused=excused)
        elif call.f == "acquire" and call.how in ("fail", "info"):
            others = [own for own in refusing(ledger, call).values() if own.lease is not None]
            strange = [own for own in others if own.lease and own.lease.resource != call.lease.resource]
            if strange:
                kind = Breach(PROGRESS, "acquire", MIXES)
                yield Found(kind, call.ended_ns, call=call, own=strange[0])
            elif (
                _is_free_for(kept, call, asked)
                and _keys_refuse_for_ns(ledger, call, refused) <= bound_ns // 2
            ):
                yield Found(Breach(PROGRESS, "acquire", FAILS), call.ended_ns, call=call)


def _of_renewals(kept: Kept) -> Iterator[Found]:
    """Leases that renew themselves, as their lock says, and are over though holder and nodes are well.

    A renewal may be missed: what a fault kept it from is not held against it, as long as half of the lease is
    left when the fault is over. What was sent after that shows that the renewal goes on; how it ends then is
    judged by other rules. It is not looked at where an assumption is broken, or a client closes its lock.
    """
    outcome, ledger = kept.outcome, kept.ledger
    tracks = outcome.trial.tracks.values()
    if labels(outcome.trial) or any(isinstance(timed.step, Close) for track in tracks for timed in track):
        return
    lost = {event["client"] for event in outcome.events if event["f"] == "lost"}
    for call in ledger.calls:
        lease, client = call.lease, call.client
        if (call.f, call.how) != ("acquire", "ok") or not lease.renews or client in lost:
            continue
        after = (each for each in ledger.calls if each.client == client and each.called_ns >= call.ended_ns)
        given_back = next((each for each in after if each.f != "held"), None)
        if given_back is None or given_back.f != "release":
            continue
        until_ns = given_back.called_ns
        quiet_ns = _quiet_ns(outcome, client, call.ended_ns, until_ns)
        if quiet_ns is None:
            continue
        had_fault = quiet_ns > call.ended_ns
        if ledger.kept_at(lease, quiet_ns, lease.ttl_ns // 2 if had_fault else 0) < ledger.majority:
            continue
        looks = range(quiet_ns, until_ns, max(1, lease.ttl_ns // RENEWAL_LOOKS))
        over_ns = next((at_ns for at_ns in looks if ledger.kept_at(lease, at_ns) < ledger.majority), None)
        if over_ns is None or any(
            entry.client == client and quiet_ns < entry.time_ns < over_ns for entry in ledger.entries
        ):
            continue
        since = "the last fault was over" if had_fault else "it was granted"
        gone = f"{(over_ns - quiet_ns) / 1e9:.2f} s later it was on no majority of the nodes"
        text = f"nothing was sent for it after {since}, and {gone}"
        yield Found(Breach(PROGRESS, "acquire", STOPS), over_ns, call=call, text=text)


def _quiet_ns(outcome: Outcome, client: str, since_ns: int, until_ns: int) -> int | None:
    """From when on no fault was in a client's way; None: one was all the time, or it stood still, or died."""
    quiet_ns, (begins, ends) = since_ns, outcome.times_of_faults
    for number, fault in enumerate(outcome.struck, 1):
        began_ns = begins.get(f"f{number}", until_ns)
        if client_of(fault) not in ("", client) or began_ns >= until_ns:
            continue
        over_ns = began_ns if fault.ending is None else ends.get(f"f{number}", until_ns)
        if is_a(fault, Pause, ClientCrash) or over_ns >= until_ns:
            return None
        quiet_ns = max(quiet_ns, over_ns)
    return quiet_ns


def _refused_by_keys(ledger: Ledger) -> list[Call]:
    """The acquires that failed when keys of other leases left no majority free."""
    return [
        each
        for each in ledger.calls
        if (each.f, each.how) == ("acquire", "fail")
        and len(ledger.nodes_for(each) - refusing(ledger, each).keys()) < ledger.majority
    ]


def _keys_refuse_for_ns(ledger: Ledger, call: Call, refused: list[Call]) -> int:
    """For how long keys refuse clients around a failure: since the last lease was over, until the next grant.

    Whoever asked then would have had to wait without this failure as well. From half of the bound on, the
    keys account for most of what makes the wait a finding.
    """
    asked = [
        each for each in ledger.calls if each.f == "acquire" and each.lease.resource == call.lease.resource
    ]
    over_ns = [min(each.lease.over_ns, each.lease.until_ns) for each in asked if each.lease.until_ns > 0]
    since_ns = max((each for each in over_ns if each <= call.called_ns), default=0)
    until_ns = min(
        (each.ended_ns for each in asked if each.how == "ok" and each.ended_ns >= call.ended_ns),
        default=NEVER,
    )
    around = [
        each
        for each in refused
        if each.lease.resource == call.lease.resource and since_ns <= each.called_ns < until_ns
    ]
    if not around:
        return 0
    return max(each.ended_ns for each in around) - min(each.called_ns for each in around)


def _is_free_for(kept: Kept, call: Call, asked: list[tuple[int, int, Lease]]) -> bool:
    """Whether an acquire could have had the lock: who had it or asked left room, and a majority was free."""
    if str(call.event.get("error", "")).endswith(CANCELLED):
        return False
    ledger = kept.ledger
    others = [
        lease
        for asked_ns, ends_ns, lease in asked
        if asked_ns < call.ended_ns and ends_ns > call.called_ns - MS_NS
        if lease is not call.lease and lease.resource == call.lease.resource
    ]
    if ledger.is_full(others, call.lease):
        return False
    away = away_from(kept.outcome, call.client, call.called_ns - SOON_NS, call.ended_ns)
    refuse = refusing(ledger, call, places=True).keys()  # it may be that a place is what refuses it
    return len(ledger.nodes_for(call) - away - refuse) >= ledger.majority


def _free_for_ns(ledger: Ledger, call: Call, over_ns: int) -> int:
    """For how long at a stretch a majority was free while an acquire went on, to a twentieth of that."""
    step_ns = max(1, (over_ns - call.called_ns) // LOOKS)
    nodes, longest, stretch = ledger.nodes_for(call), 0, 0
    for at_ns in range(call.called_ns, over_ns, step_ns):
        blocked = refusing(ledger, call, at_ns, places=True)
        stretch = stretch + step_ns if len(nodes - blocked.keys()) >= ledger.majority else 0
        longest = max(longest, stretch)
    return longest


def refusing(ledger: Ledger, call: Call, at_ns: int | None = None, *, places: bool = False) -> dict[str, Own]:
    """The nodes with a key of another lease that a call asks for, when it is called or later; and the key.

    Of a lock that several may have at once, those with keys of leases that leave it no room. With ``places``
    also what may be no more than a place in a queue.
    """
    words = {word for sent in call.sent for word in sent.words[1:]}
    # A script may put the name of a key together.
    words |= {word for entry in call.entries for each in entry.inner for word in each.words[1:]}
    found: dict[str, dict[int, Own]] = {}
    for node, slot, own in ledger.at(call.called_ns if at_ns is None else at_ns):
        # An element of a lease that was never granted may be a place in a queue.
        is_place = slot.element and (own.lease is None or not own.lease.until_ns)
        # What lies there of the same lock may refuse it, though the call finds it without its name.
        is_same = places and own.lease is not None and own.lease.resource == call.lease.resource
        is_there = slot.key in words and (places or not is_place)
        if (is_there or is_same) and own.lease is not call.lease:
            found.setdefault(node, {})[id(own.lease)] = own
    full = {
        node: owns
        for node, owns in found.items()
        if ledger.is_full([own.lease for own in owns.values()], call.lease)
    }
    return {node: list(owns.values())[-1] for node, owns in full.items()}


def away_from(
    outcome: Outcome,
    client: str,
    since_ns: int,
    until_ns: int,
    *,
    closed_only: bool = False,
    losing_only: bool = False,
) -> set[str]:
    """The nodes that a fault kept from a client at some time in between.

    ``closed_only``: those to which it could not even send, since they were down, or closed connections.
    ``losing_only``: those from which something may be lost for good. What is late arrives when that ends.
    """
    begins, ends = outcome.times_of_faults
    return {
        node
        for number, fault in enumerate(outcome.struck, 1)
        if not is_a(fault, ClockFault, Reset) and client_of(fault) in ("", client)
        if not closed_only or _closes(fault)
        if not losing_only or not is_a(fault, Delay, Hold)
        if begins.get(f"f{number}", NEVER) <= until_ns and ends.get(f"f{number}", NEVER) >= since_ns
        for node in nodes_of(fault)
    }


def _closes(fault: Timed) -> bool:
    """Whether connections to what it hits end, and new ones are refused."""
    return is_a(fault, DownFault) or (isinstance(fault.step, Cut) and fault.step.mode == "refused")


def is_out(outcome: Outcome, client: str, since_ns: int = 0, until_ns: int = NEVER) -> bool:
    """Whether a client was paused at some time in between, or had died."""
    begins, ends = outcome.times_of_faults
    return any(
        begins.get(f"f{number}", NEVER) <= until_ns and ends.get(f"f{number}", NEVER) >= since_ns
        for number, fault in enumerate(outcome.struck, 1)
        if client_of(fault) == client and is_a(fault, Pause, ClientCrash)
    )


def _of_order(kept: Kept) -> Iterator[Found]:
    """What the history says of grants, reads and writes; a grant counts from when a majority had its key."""
    outcome, ledger = kept.outcome, kept.ledger
    set_ns: dict[str, int] = {}
    for call in ledger.calls:
        made = [
            entry.time_ns
            for entry in call.entries
            if any(effect.what in ("create", "replace") for effect in entry.effects)
        ]
        if call.f == "acquire" and len(made) >= ledger.majority:
            set_ns[call.lease.grant_id] = made[ledger.majority - 1]
    announces = bool(getattr(lock_class(outcome.trial.lock), "announces_token", False))
    granted: list[dict[str, Any]] = []
    written: list[dict[str, Any]] = []
    called: dict[tuple[str, str], int] = {}
    for event in outcome.events:
        f, at_ns = event["f"], event["time_ns"]
        if "client" not in event or is_unattended(event):
            continue
        if event["type"] == "invoke":
            called[event["client"], f] = at_ns
        if event["type"] != "ok":
            continue
        since_ns: int = called.setdefault((event["client"], f), at_ns)
        if f == "acquire":
            since_ns = max(since_ns, set_ns.get(event["grant_id"], 0))
            yield from _fence_too_small(event, [each for each in granted if each["time_ns"] < since_ns])
            granted.append(event)
        before = [each for each in written if each["time_ns"] < since_ns]
        if f == "read":
            newest = max((int(each["version_written"] or 0) for each in before), default=0)
            if (version := event.get("version_read") or 0) < newest:
                text = f"answered version {version}, though version {newest} was acknowledged before"
                yield Found(Breach(ORDER, "read", STALE), at_ns, text=text)
        elif f == "write":
            newer = [each for each in before if (each.get("fence") or 0) > (event.get("fence") or 0)]
            ids = [each["grant_id"] for each in granted]
            later = granted[ids.index(event["grant_id"]) + 1 :] if event["grant_id"] in ids else []
            replaced = later and later[-1]["time_ns"] < since_ns and later[-1]["client"] != event["client"]
            if newer and outcome.trial.store_fences:
                text = f"accepted fence {event.get('fence')} after {newer[0].get('fence')}"
                yield Found(Breach(ORDER, "write", STALE), at_ns, text=text)
            elif announces and replaced:
                text = (
                    f"accepted {event['client']}'s write under a token that {later[-1]['client']}'s replaced"
                )
                yield Found(Breach(ORDER, "write", STALE), at_ns, text=text)
            written.append(event)


def _fence_too_small(event: dict[str, Any], before: list[dict[str, Any]]) -> Iterator[Found]:
    fence = event.get("fence")
    if fence is None:
        return
    same_key = [each for each in before if each["key"] == event["key"] and each.get("fence") is not None]
    if higher := [each for each in same_key if each["fence"] >= fence]:
        text = f"{fence} after {higher[0]['client']}'s {higher[0]['fence']}, which was granted before"
        yield Found(Breach(ORDER, "acquire", FENCE), event["time_ns"], text=text)
