"""What is judged when it happens: the effects of a command, and keys that stay when a call is over.

A call changes keys of its own lease only, and in the way of its purpose: an acquire creates, an extension
prolongs, a release deletes. What it sets lasts no longer than its lease, and is gone if it ends without one.
"""

from __future__ import annotations

from typing import Final

from lab.examine.ledger.book import (
    ANOTHER,
    GRACE_NS,
    MS_NS,
    NEVER,
    OTHERS,
    OVER,
    OWN,
    PASS_ON,
    ROUNDED_NS,
    Breach,
    Call,
    Effect,
    Entry,
    Lease,
    Ledger,
    Own,
    Slot,
)

OWN_KEYS: Final = "own keys"
CLAIMS: Final = "claims"
RESIDUE: Final = "residue"
PROGRESS: Final = "progress"
ORDER: Final = "order"
RULES: Final = {
    OWN_KEYS: "a call changes or deletes only what its own lease owns, and in the way of its purpose",
    CLAIMS: "what a client is told it has is no more than a majority of the nodes keeps",
    RESIDUE: "when a call and its bound are over, nothing stays that no live lease owns",
    PROGRESS: (
        "every call ends, within its bound and as calls may end, a free lock is granted, "
        "and a lease that renews itself goes on"
    ),
    ORDER: "later grants have larger fences, and the store keeps the order of its writes",
}
"""The rules, the same for every lock."""

SKIPS_NODES: Final = "skips nodes"
KEPT_TOO_LONG: Final = "keeps too long"
LEAVES: Final = "leaves"
APART: Final = "apart from others'"
BESIDE: Final = "beside others'"
WAITING: Final = "waiting"
"""Of a client that waits. One that has died meanwhile may be taken out of a queue: no call tells of that."""
PAST_CLAIM: Final = Breach(CLAIMS, "held", "claims")
"""A client's lock says that its lease is held, when it is over and no majority keeps the key."""
READS_WALL_CLOCK: Final = Breach(CLAIMS, "any", "reads the wall clock")


def breach_of(entry: Entry, effect: Effect, ledger: Ledger) -> Breach | None:
    """Which rule an effect breaks, as a kind of breach; None if it breaks none."""
    call, what, now_ns, slot = entry.call, effect.what, entry.time_ns, effect.slot
    if call is None or what == PASS_ON or _hands_over(effect, call.lease):
        return None
    if what == "count":
        again = _counts_again(call, entry.node, effect, ledger)
        return Breach(OWN_KEYS, call.f, what, OWN) if again else None
    lease, f = call.lease, call.f
    owner = effect.before.lease if effect.before is not None else None
    foreign = owner is not None and owner is not lease
    if slot.element and _may_go_or_come(call, effect, now_ns):
        return _of_place(owner, call, what)
    takes_away = what == "delete" or (what == "shorten" and f == "release")
    if foreign and owner is not None and (takes_away or not lease.has(owner, now_ns)):
        shares = what in ("prolong", "shorten") and _shares(entry, effect, ledger)
        if not shares or _harms(effect, owner, lease):
            whose = OTHERS if owner.client != lease.client else ANOTHER
            return Breach(OWN_KEYS, f, what, whose + ("" if owner.is_live(now_ns) else OVER))
        if what == "prolong":
            return None
    sent_ns = entry.sent.time_ns if entry.sent is not None else now_ns
    grows = what in ("create", "prolong", "replace")
    if what == "create" and f == "acquire":
        may_be_place = slot.element and not ledger.capacity.read_write
        if not may_be_place and is_apart(lease, slot.key, ledger, now_ns):
            return Breach(OWN_KEYS, f, what, APART if ledger.capacity.of_one else BESIDE)
        if beside(lease, entry.node, slot, ledger, now_ns) is not None:
            return Breach(OWN_KEYS, f, what, BESIDE)
    is_over = lease.state not in ("asked", "held") and lease.over_ns < sent_ns - GRACE_NS
    if lease.state == "held" and f == "acquire":  # by a task that it has left behind
        is_over = 0 < lease.until_ns < sent_ns - GRACE_NS and not (lease.renews and what == "prolong")
    if grows and f != "release" and is_over:
        return Breach(RESIDUE, f, what, OWN + OVER)
    if (grows and f in ("release", "held")) or (f == "extend" and what == "create"):
        return Breach(OWN_KEYS, f, what, OWN)
    if (
        f != "release"
        and lease.state == "held"
        and lease.is_live(now_ns)
        and _is_sooner(call, effect, now_ns)
    ):
        return Breach(OWN_KEYS, f, what, OWN)
    return Breach(RESIDUE, f, KEPT_TOO_LONG) if _is_too_long(call, effect, now_ns) else None


def _counts_again(call: Call, node: str, effect: Effect, ledger: Ledger) -> bool:
    """Whether a release counts down on a node though its lease has nothing there to give back.

    What the lease had there was gone before this call; or it had nothing, and has counted down before.
    """
    if call.f != "release" or _counted(effect) >= 0:
        return False
    had = took = False
    total = 0
    for each in (entry for other in ledger.calls if other.lease is call.lease for entry in other.entries):
        for one in each.effects if each.node == node and not each.undone else ():
            had |= one.after is not None and one.after.lease is call.lease and one.what != "count"
            is_own = one.before is not None and one.before.lease is call.lease
            took |= is_own and one.what == "delete" and each.call is call
            total += _counted(one) if one.slot == effect.slot else 0
    return not took if had else total < 0


def _counted(effect: Effect) -> int:
    """By how much a counter grew."""
    before, after = (
        int(own.lies.value) if own is not None and own.lies.value.lstrip("-").isdigit() else 0
        for own in (effect.before, effect.after)
    )
    return after - before if effect.what == "count" else 0


def _may_go_or_come(call: Call, effect: Effect, now_ns: int) -> bool:
    """Whether an element of a list or a set is nobody's, its own lease's that goes, or a place in a queue.

    No element has an end of its own: one whose lease is over goes when somebody takes it away. An extension
    takes away none that is all that its lease has.
    """
    owner, maker = (own.lease if own is not None else None for own in (effect.before, effect.after))
    lease = call.lease
    if owner is None:
        return maker is None
    goes = effect.what == "delete"
    if owner is lease:
        is_its_lock = lease.state == "held" and lease.is_live(now_ns) and not lease.has_keys
        return goes and not (call.f == "extend" and is_its_lock)
    is_over = goes and owner.state in ("held", "released") and not owner.is_live(now_ns)
    return is_over or owner.state in ("asked", "refused", "unknown")


def _of_place(owner: Lease | None, call: Call, what: str) -> Breach | None:
    """The breach of a call that takes away the place of another one that goes on; None of any other."""
    takes = owner is not None and owner is not call.lease and (owner.state, what) == ("asked", "delete")
    return Breach(OWN_KEYS, call.f, what, WAITING) if takes else None


def _hands_over(effect: Effect, lease: Lease) -> bool:
    """Whether a key of this lease, which may be an element, is now that of one that has asked for it."""
    owner, heir = (own.lease if own is not None else None for own in (effect.before, effect.after))
    return owner is lease and heir is not None and heir is not lease and heir.state != "held"


def _shares(entry: Entry, effect: Effect, ledger: Ledger) -> bool:
    """Whether a key that several leases share has, or had in this script, a part of the one that did this."""
    lease = entry.call.lease if entry.call is not None else None
    owned, key = ledger.owned[entry.node], effect.slot.key
    if not (effect.slot.field or effect.slot.element):
        return False
    if any(slot.key == key and own.lease is lease for slot, own in owned.items()):
        return True
    changed = (each for each in entry.inner if each.changes() and key in each.words)
    return any(not each.name.upper().startswith(("EXPIRE", "PEXPIRE")) for each in changed)


def _harms(effect: Effect, owner: Lease, lease: Lease) -> bool:
    """Whether a key that leases share is one of several locks, or so ends before another's lease."""
    ends_ns = effect.after.lies.until_ns if effect.after is not None else NEVER
    cuts_short = effect.what == "shorten" and ends_ns < owner.until_ns - ROUNDED_NS
    return cuts_short or owner.resource != lease.resource


def _is_sooner(call: Call, effect: Effect, now_ns: int) -> bool:
    """Whether a key is gone sooner than it was to be, and than this call asks for."""
    ends_ns = 0 if effect.after is None else effect.after.lies.until_ns
    asked_ns = now_ns + call.ttl_ns * 97 // 100 if call.f == "extend" else NEVER
    return effect.before is not None and ends_ns < min(asked_ns, effect.before.lies.until_ns) - ROUNDED_NS


def _is_too_long(call: Call, effect: Effect, now_ns: int) -> bool:
    """Whether a key is there for longer than the lease that was asked for.

    What has elements lasts for as long as any of them needs it: of an element only no end is too long.
    """
    due_ns = FOR_EVER_NS if effect.slot.element else call.ttl_ns + call.ttl_ns // 50 + ROUNDED_NS
    return effect.after is not None and effect.after.lies.until_ns - now_ns > due_ns


def is_rival(other: Lease, lease: Lease, ledger: Ledger) -> bool:
    """Whether one of two leases of one lock leaves less of it to the other.

    Of a lock with one holder a client may take over what it has itself; of a semaphore it takes two permits.
    """
    is_anothers = other.client != lease.client or (ledger.capacity.permits > 1 and other is not lease)
    return is_anothers and other.resource == lease.resource


def is_apart(lease: Lease, key: str, ledger: Ledger, now_ns: int) -> bool:
    """Whether others leave no room in the same lock, with majorities under other names and none here."""
    apart: list[Lease] = []
    for other in ledger.live_leases(now_ns):
        if is_rival(other, lease, ledger):
            keys = {
                slot.key
                for owned in ledger.owned.values()
                for slot, own in owned.items()
                if own.lease is other
            }
            if keys and key not in keys and ledger.kept_until_ns(other, now_ns):
                apart.append(other)
    return bool(apart) and ledger.is_full(apart, lease)


def beside(lease: Lease, node: str, slot: Slot, ledger: Ledger, now_ns: int) -> Lease | None:
    """Another client's lease that lasts, or is asked for, and has a field or an element of the same key.

    Only if those that have one leave no room for this lease; then one of those that weigh most.
    """
    found: dict[int, Lease] = {}
    for there, own in ledger.owned[node].items():
        other = own.lease
        if there.key != slot.key or there == slot or other is None:
            continue
        if is_rival(other, lease, ledger) and other.is_live(now_ns):
            found[id(other)] = other
    if not found or not ledger.is_full(found.values(), lease):
        return None
    return max(found.values(), key=lambda other: other.weight)


def residue_of(own: Own, now_ns: int, share: int = 2) -> Breach | None:
    """Which breach a key is that is still there: its call is over, or takes too long, and nobody has it.

    An acquire that goes on takes too long from this ``share`` of its lease on, 2 for a half.
    """
    lease = own.lease
    if lease is None:
        return None
    if (
        lease.state == "asked"
        and own.made_by is not None
        and own.made_by.time_ns < now_ns - lease.ttl_ns // share
    ):
        return Breach(RESIDUE, "acquire", LEAVES, lease.state)
    if lease.over_ns > now_ns - GRACE_NS:
        return None
    if lease.state not in ("refused", "unknown", "released"):
        return None
    return Breach(RESIDUE, "release" if lease.state == "released" else "acquire", LEAVES, lease.state)


SOON_NS: Final = 300 * MS_NS
"""How long after a call its undoing may take where nothing is in its way."""
FOR_EVER_NS: Final = NEVER // 2
"""What lasts longer has no end."""
