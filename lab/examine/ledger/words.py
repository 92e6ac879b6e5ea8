"""A breach in words: one sentence of what was seen, the lines of the lock's code that did it, and the facts.

Facts are what distinguishes breaches of one kind: the catalogue of names goes by them, and only it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checker.words import listed
from lab.drivers.messages import ONE_OBJECT
from lab.errors import LabError
from lab.examine.kinds import longest_wait_ns
from lab.examine.ledger.book import (
    MS_NS,
    NEVER,
    OWN,
    PASS_ON,
    Call,
    Claim,
    Effect,
    Entry,
    Lease,
    Own,
    Slot,
)
from lab.examine.ledger.breaches import (
    APART,
    BESIDE,
    FOR_EVER_NS,
    KEPT_TOO_LONG,
    LEAVES,
    OWN_KEYS,
    PROGRESS,
    READS_WALL_CLOCK,
    RESIDUE,
    SKIPS_NODES,
    is_rival,
)
from lab.examine.ledger.keeping import Kept
from lab.examine.ledger.places import of_reads, of_requests, to_its_sending
from lab.examine.ledger.rules import (
    AFTER_ITS_END,
    DID_SOMETHING,
    ERROR_REPLY,
    FENCE,
    IS_LATE,
    MIXES,
    NEVER_ENDS,
    NOT_ARRIVED,
    NOT_SENT,
    OTHER_TOKEN,
    OTHER_VALUE,
    OUTWAITS,
    OVERTAKEN,
    RAISES,
    STOPS,
    UNCHANGED,
    Found,
    away_from,
    breaches,
    named_by,
    refusing,
    undoing,
)
from lab.examine.violations.evidence import ABOUT_CONNECTIONS, Evidence, form_of
from lab.examine.violations.judge import end_ns_of
from lab.faults.drift import Drift
from lab.faults.failover import Failover
from lab.faults.promote import Promote
from lab.locks import margin_ns as margin_ns_of
from lab.locks.driver import NO_ANSWER
from lab.search.origin import Place, Sent

NOUNS: Final = {"extend": "extension", "held": "check"}
DID: Final = {
    "delete": "deleted",
    "replace": "replaced",
    "prolong": "prolonged",
    "shorten": "shortened",
    "create": "set",
    "count": "counted",
    PASS_ON: "passed on",
}
HOW: Final = {"ok": "succeeded", "fail": "was refused", "info": "had no certain end", "open": "never ended"}
LOOKS: Final = ("GET", "EXISTS", "PTTL", "TTL", "HGET", "HEXISTS", "MGET", "HGETALL", "STRLEN")
GRANTS_SHOWN: Final = 4
"""Of so many grants, the last ones, it is said which fence they got."""
NEAR_NS: Final = 50 * MS_NS
"""Breaches of one kind and one call within this time are one act on several nodes."""

SAME_TOKEN, LOOKED_BEFORE = "same token", "looked before"
MINORITY, SHORT_LIFE, DRIFT = "minority", "short life", "drift"
OTHER_KEY, NO_END, NESTED, HELD = "other key", "no end", "nested", "held"
REFUSED_EXTENSION: Final = "extension refused"
ASKED_NOBODY, MINORITY_AWAY, ITS_OWN_KEY = (
    "asked nobody",
    "minority away",
    "its own key",
)
SLEEPS, AFTER_FAULT, MIXED_LEASES = "sleeps", "after a fault", "mixed leases"
NO_SCRIPT, SCRIPT_LOST = "NOSCRIPT", "script lost"
MINORITY_REFUSES, MOVED = "minority refuses", "moved"
STAYS: Final = "stays with the old master"
OTHER_NODES: Final = "other nodes"
SENT_BEFORE, AGAIN, REPLY_OWED, TWICE = "sent before", "returned again", "reply owed", "counted twice"
SHARED: Final = "shared key"


@dataclass(frozen=True, slots=True)
class Told:
    """A breach in words: the sentence, the calls in the lock's code that did it, and the facts."""

    sentence: str
    places: tuple[Place, ...] = ()
    facts: frozenset[str] = frozenset()


def tell(kept: Kept, found: Found) -> Told:
    """Say what was seen of a breach."""
    teller = _Teller(kept, found)
    if found.kind == READS_WALL_CLOCK:
        return teller.of_wall_clock()
    if found.kind.rule == OWN_KEYS:
        return teller.of_own_keys()
    if found.claim is not None:
        return teller.of_claim(found.claim)
    if found.kind.effect == LEAVES:
        return teller.of_residue()
    if found.kind.rule == RESIDUE:
        return teller.of_life()
    return teller.of_progress() if found.kind.rule == PROGRESS else teller.of_order()


class _Teller:
    """Finds words for one breach."""

    def __init__(self, kept: Kept, found: Found) -> None:
        self.kept, self.found = kept, found
        self.ledger, self.outcome = kept.ledger, kept.outcome
        self.evidence = Evidence(kept.outcome)
        self.at = self.evidence.at

    def of_wall_clock(self) -> Told:
        """The wall clock was read, and with the true time nothing is wrong."""
        reads = [
            (read, client)
            for client, each in self.outcome.wall_clock.items()
            for read in each
            if read.time_ns == self.found.time_ns
        ]
        read, client = next((each for each in reads if each[0].places), reads[0])
        sentence = (
            f"{_whose(client)} lock read the wall clock at {self.at(read.time_ns)}; with a clock that shows "
            "the true time nothing is wrong"
        )
        return Told(sentence, of_reads(read))

    def of_own_keys(self) -> Told:
        """A call changed what it must not change."""
        entry, effect = self.found.entry, self.found.effect
        assert entry is not None
        assert entry.call is not None
        assert effect is not None
        call, places = entry.call, self._places(entry.sent)
        if self.found.kind.whose == APART:
            return Told(self._apart(call, effect), places)
        if self.found.kind.whose == BESIDE:
            return Told(self._beside(call, effect), places)
        did = f"{DID[effect.what]} {{}} on {self._nodes()} at {self.at(entry.time_ns)} ({_said(entry)})"
        subject = f"{self._subject(call)}, which {HOW[call.how]},"
        if effect.what == "count":
            did = did.format(f"{effect.slot.key!r} down")
            return Told(f"{subject} {did}, though its lease had nothing there to give back", places)
        if self.found.kind.whose == OWN:
            gone = effect.what == "create"
            own = "its key, which was gone," if gone else "its own key in its lease"
            set_by = effect.before.made_by if effect.before is not None else None
            if (
                entry.sent is None
                or set_by is None
                or set_by.sent is None
                or set_by.sent.time_ns < entry.sent.time_ns
            ):
                return Told(f"{subject} {did.format(own)}", places)
            why = f"it was sent before {_the(set_by)} that set it, for an earlier try, and names its token"
            return Told(f"{subject} {did.format(own)}: {why}", places, frozenset((SENT_BEFORE,)))
        assert effect.before is not None
        assert effect.before.lease is not None
        why, facts = self._how_it_chose(entry, effect.before)
        if self.outcome.trial.reentrant and self.outcome.trial.options.get(ONE_OBJECT):
            facts = {NESTED}
            why = "the lock's object was taken twice, and its inner end gives back what the outer one has"
        same_lock = effect.before.lease.resource == call.lease.resource
        if effect.what == "shorten" and same_lock and self._has_part(call, effect):
            facts = {SHARED}
            why = "the key has what both leases left there, and now ends before the longer of them"
        if not same_lock:
            facts.add(OTHER_KEY)
        return Told(
            f"{subject} {did.format(self._key_of(effect.before.lease, call))}: {why}",
            places,
            frozenset(facts),
        )

    def _has_part(self, call: Call, effect: Effect) -> bool:
        """Whether a call has a field or an element of its own in the key of another lease's."""
        return bool(effect.slot.field or effect.slot.element) and any(
            each.slot.key == effect.slot.key and each.after is not None and each.after.lease is call.lease
            for entry in call.entries
            for each in entry.effects
        )

    def _apart(self, call: Call, effect: Effect) -> str:
        effects = [each for other in self.ledger.entries for each in other.effects]
        others = sorted(
            {
                each.slot.key
                for each in effects
                if each.after and each.after.lease and each.after.lease.client != call.client
            }
        )
        return (
            f"{self._subject(call)} takes {call.lease.resource!r} under the key {effect.slot.key!r}, another "
            f"client under {', '.join(map(repr, others))}"
        )

    def _beside(self, call: Call, effect: Effect) -> str:
        entry = self.found.entry
        assert entry is not None
        part = effect.slot.field or effect.slot.element
        clients = {
            each.after.lease.client.capitalize()
            for other in self.ledger.entries
            for each in other.effects
            if other.node == entry.node and other.time_ns <= entry.time_ns and each.after
            if each.slot.key == effect.slot.key or not part or self.ledger.capacity.read_write
            if each.after.lease and is_rival(each.after.lease, call.lease, self.ledger)
            if each.after.lease.over_ns > entry.time_ns and self._are_too_many(each.after.lease, call.lease)
        }
        did = f"added {part!r} to {effect.slot.key!r}" if part else f"set {effect.slot.key!r}"
        what = "entry" if part else "key"
        others = f"{what} of {listed(sorted(clients))}'s lease" if len(clients) < 2 else ""
        others = others or f"{'entries' if part else 'keys'} of leases of {listed(sorted(clients))}"
        return (
            f"{self._subject(call)} {did} on {self._nodes()} at {self.at(entry.time_ns)} ({_said(entry)}), "
            f"while the {others} lay there"
        )

    def _are_too_many(self, other: Lease, lease: Lease) -> bool:
        """Whether a lease may be why there is no room: any of a semaphore's, but no reader's for a reader."""
        return not self.ledger.capacity.read_write or self.ledger.is_full([other], lease)

    def _key_of(self, owner: Lease, call: Call) -> str:
        text = f"{_whose(owner.client)} key"
        if owner.client == call.client:
            text = f"the key of its client's other lease of {self.at(owner.asked_ns)}"
        if owner.resource != call.lease.resource:
            text += f" of {owner.resource!r}, when asked for {call.lease.resource!r}"
        return text

    def _how_it_chose(self, entry: Entry, before: Own) -> tuple[str, set[str]]:
        call, value = entry.call, before.lies.value
        assert call is not None
        looks = [
            each
            for each in call.entries
            if each.node == entry.node and each.time_ns < entry.time_ns and each.name in LOOKS
        ]
        if call.f == "acquire" and value in entry.words[1:] and before.lease is not None:
            replaced = any(effect.before is before and effect.what == "replace" for effect in entry.effects)
            if replaced and value != call.lease.token:
                return "it names that very value, though its lease lasts", set()
        if value in entry.words[1:]:
            sets_it = call.f == "acquire" and any(
                value in sent.words for sent in call.sent if sent is not entry.sent
            )
            if call.lease.token == value or sets_it:
                return "both leases have the same token", {SAME_TOKEN}
            return "it names the token of that other lease", {OTHER_TOKEN}
        if any(each.name in LOOKS for each in entry.inner):
            return "it looks at the value, and goes on though it is another lease's", set()
        if looks:
            since_ms = (entry.time_ns - looks[-1].time_ns) / MS_NS
            why = f"it compares nothing itself, and goes by a {looks[-1].name} of {since_ms:.1f} ms before"
            return why, {LOOKED_BEFORE}
        return "it does not compare whose the key is", set()

    def of_claim(self, claim: Claim) -> Told:
        """A client was told more than the nodes keep."""
        call, nodes = claim.call, self.ledger.nodes
        places = self._places_of(call)
        if self.found.kind.effect == SKIPS_NODES:
            where = f"its key lay on {listed(claim.nodes)} only, so that the loss of one node is enough"
            if len(claim.nodes) == len(nodes):
                where = "these keep the key no longer than before"
            sentence = f"{self._subject(call)} did not ask {self.found.text}: {where}"
            return Told(sentence, places, frozenset((SKIPS_NODES,)))
        if call.f == "held":
            return self._of_belief(claim)
        told = "claimed the lease" if claim.stated else "succeeded, for a lease"
        begin = f"{self._subject(call)} {told} until {self.at(claim.until_ns)}"
        if not claim.kept_ns:
            rest = _together({node: _answer(call, node) for node in nodes if node not in claim.nodes})
            where = f"only on {listed(claim.nodes)} of" if claim.nodes else "on none of"
            sentence = f"{begin}, but its key lay {where} {len(nodes)} nodes when it returned: {rest}"
            had = {
                entry.node
                for entry in call.entries
                if any(effect.what in ("create", "replace", "prolong") for effect in entry.effects)
            }
            facts = set() if len(had) >= self.ledger.majority_for(call.lease) else {MINORITY}
            asked = {sent.node for sent in call.sent}
            others = {sent.node for each in self._rivals(call) for sent in each.sent}
            if asked and others and asked.isdisjoint(others):
                sentence += f"; others ask {listed(sorted(others))} for it"
                facts.add(OTHER_NODES)
            if (owed := self._reply_owed(call)) is not None:
                sentence += (
                    f"; on the same connection the reply to the {owed.words[0].upper()} of "
                    f"{self.at(owed.time_ns)} had not been read"
                )
                facts.add(REPLY_OWED)
            earlier = self._returned_before(call)
            if earlier is not None and earlier.over_ns <= call.called_ns:
                sentence += (
                    f"; its client had released that very lease, of {self.at(earlier.asked_ns)}, before"
                )
                facts.add(AGAIN)
                releases = [
                    each for each in self.ledger.calls if each.lease is earlier and each.f == "release"
                ]
                places = self._places_of(releases[-1]) if releases else ()
            elif earlier is not None:
                sentence += f"; it is the lease of {self.at(earlier.asked_ns)}, which was over"
                facts = set()
            return Told(sentence, places, frozenset(facts))
        why, known = self._why_less(claim)
        sure = f"it can be sure of a majority only until {self.at(claim.kept_ns)}"
        return Told(f"{begin}, but {sure}{why}", places, known)

    def _rivals(self, call: Call) -> Iterator[Call]:
        """The calls of other clients that are about the same lock."""
        lease = call.lease
        return (
            each
            for each in self.ledger.calls
            if each.lease.resource == lease.resource and each.client != call.client
        )

    def _reply_owed(self, call: Call) -> Sent | None:
        """What a client had sent on a connection of a call, and given up before it was answered."""
        for sent in call.sent:
            for other in self.ledger.calls:
                if other.client != call.client or other.called_ns >= call.called_ns or other.how != "info":
                    continue
                for earlier in other.sent:
                    if (earlier.node, earlier.connection) == (sent.node, sent.connection):
                        return earlier
        return None

    def _returned_before(self, call: Call) -> Lease | None:
        """The earlier lease of the same client with the token of a call's, if it was released, or is over."""
        for lease in self.ledger.leases.values():
            is_same = lease.token == call.lease.token is not None and lease.client == call.client
            if is_same and lease is not call.lease and min(lease.over_ns, lease.until_ns) <= call.called_ns:
                return lease
        return None

    def _of_belief(self, claim: Claim) -> Told:
        """A lock says that a lease is held that is over."""
        call, lease = claim.call, claim.call.lease
        said = f"asked at {self.at(claim.at_ns)}, {_whose(call.client)} lock said that its lease is held"
        sentence = f"{said}; it was claimed until {self.at(lease.until_ns)}, and no majority keeps the key"
        others = [each for each in self.ledger.calls if each.client == call.client]
        in_vain = [
            entry
            for each in others
            for entry in each.entries
            if entry.time_ns > lease.asked_ns
            and not (entry.effects or entry.error or entry.words[0].upper() == "SCRIPT")
            and each.lease is lease
            and each.f not in ("release", "held")
        ]
        facts = set()
        if call.event.get("claimed_ns"):
            sentence += f"; now it is said to be held until {self.at(claim.until_ns)}"
            facts.add(MOVED)
        if in_vain:
            last = in_vain[-1]
            sentence += f"; {_the(last)} to {last.node} at {self.at(last.time_ns)} changed nothing"
            facts.add(UNCHANGED)
            named = named_by(self.ledger, last, lease)
            if named is not None:
                sentence += f", since it names the token of another lease, of {self.at(named.asked_ns)}"
                facts.add(OTHER_TOKEN)
        refused = [
            each
            for each in others
            if each.lease is lease
            and (each.f, each.how) == ("extend", "fail")
            and each.ended_ns <= claim.at_ns
        ]
        if refused and lease.until_ns < claim.at_ns:
            sentence += f"; its extension at {self.at(refused[-1].called_ns)} was refused"
            facts.add(REFUSED_EXTENSION)
        if self._deadline_of_another(call, claim.at_ns):
            sentence += "; its client's lease of another key was held then"
            facts.add(MIXED_LEASES)
        return Told(sentence, (), frozenset(facts))

    def _deadline_of_another(self, call: Call, at_ns: int) -> bool:
        return any(
            lease.client == call.client
            and lease.resource != call.lease.resource
            and at_ns - NEAR_NS < lease.until_ns
            and call.lease.until_ns < lease.until_ns
            and lease.asked_ns < at_ns
            for lease in self.ledger.leases.values()
        )

    def _why_less(self, claim: Claim) -> tuple[str, frozenset[str]]:
        """Why a majority keeps the key for less than was claimed."""
        call = claim.call
        made = [
            (entry, effect.after)
            for entry in call.entries
            for effect in entry.effects
            if effect.after is not None and effect.after.lease is call.lease
            if not (effect.slot.element and call.lease.has_keys)
        ]
        given_by = [
            entry
            for entry in self.ledger.entries
            if entry.call is not None and entry.call.lease is not call.lease
            if any(effect.after and effect.after.lease is call.lease for effect in entry.effects)
        ]
        if not made and given_by:
            mark, facts = self._counted_from(claim, fast=False)
            giver, at = given_by[-1].client.capitalize(), self.at(given_by[-1].time_ns)
            return f": {giver} gave it the key at {at}{mark}", facts
        # Nodes that keep the key for longer already need not change anything for a shorter extension.
        is_kept = call.f == "extend" and claim.kept_ns >= call.called_ns + call.ttl_ns * 97 // 100
        if is_kept and not made:
            return self._counted_from(claim, fast=False)
        if not made:
            changed = [entry for entry in call.entries if entry.call is call]
            why = (
                f": {_together({node: _answer(call, node) for node in self.ledger.nodes})}" if changed else ""
            )
            return f"{why or ': it changed no key'}", frozenset((UNCHANGED,))
        given = {entry.node: (own.lies.until_ns - entry.time_ns, entry, own) for entry, own in made}
        by_life = sorted(given.values(), key=lambda each: each[0], reverse=True)
        given_ns, entry, own = by_life[min(self.ledger.majority, len(by_life)) - 1]
        fast = any(
            isinstance(fault.step, Drift) and fault.step.ppm > 0 and not fault.step.client
            for fault in self.outcome.struck
        )
        is_short = own.lies.until_ms is not None and given_ns < call.ttl_ns * 97 // 100
        gave = [each for life_ns, each, _ in by_life if life_ns >= call.ttl_ns * 97 // 100]
        whole = [each.node for each in gave]
        if is_short and whole and all(each.words[:2] != entry.words[:2] for each in gave):
            others = [node for node in self.ledger.nodes if node not in whole]
            rest = _together({node: _answer(call, node) for node in others})
            return f": only {listed(sorted(whole))} got all of it; {rest}", frozenset((MINORITY,))
        if is_short:
            life, asked = _seconds(given_ns), _seconds(call.ttl_ns)
            return f": {_said(entry)} gave the key {life} of the {asked} asked for", frozenset((SHORT_LIFE,))
        kept = {each.node for each, _ in made}
        unchanged = [node for node in self.ledger.nodes if node not in kept]
        if call.f == "extend" and not is_kept and len(kept) < self.ledger.majority:
            rest = _together({node: _answer(call, node) for node in unchanged})
            return f": {rest}", frozenset((UNCHANGED,))
        mark, facts = self._counted_from(claim, fast=fast)
        return mark, facts

    def _counted_from(self, claim: Claim, *, fast: bool) -> tuple[str, frozenset[str]]:
        """From when a lock counted a lease, by comparing the claim with the marks there are."""
        call = claim.call
        sent = [each.time_ns for each in call.sent if each.words[0].upper() not in ABOUT_CONNECTIONS]
        first_ns = min(sent, default=call.called_ns)
        earlier = [
            other.until_ns
            for other in self.ledger.claims
            if other.call.lease is call.lease and other.at_ns < claim.at_ns
        ]
        marks = {"the return of the call": call.ended_ns, "the first request": first_ns}
        marks |= {"the earlier end of the lease": earlier[-1]} if earlier else {}
        try:
            trial = self.outcome.trial
            margin_ns = margin_ns_of(trial.lock, call.ttl_ns, trial.options)
        except LabError:
            margin_ns = 0
        off_ns, mark, margin, at_ns = min(
            (abs(at_ns + call.ttl_ns - less_ns - claim.until_ns), mark, margin, at_ns)
            for mark, at_ns in marks.items()
            for margin, less_ns in (
                ("", margin_ns),
                (" without a margin", 0),
                (" with the margin added", -margin_ns),
            )
        )
        about = "" if off_ns < 3 * MS_NS else "about "
        sentence = (
            f": the claim counts from {about}{mark}, {self.at(at_ns)}{margin}; the first request left at "
            f"{self.at(first_ns)}"
        )
        if fast:
            sentence += ", and the clock of a node is faster, as clocks may be"
        return sentence, frozenset((DRIFT,) if fast else ())

    def of_residue(self) -> Told:
        """Keys stay that nobody's lease owns."""
        own, call = self.found.own, self.found.call
        assert own is not None
        assert own.lease is not None
        assert own.made_by is not None
        lease, asked = own.lease, self.found.kind.whose == "asked"
        if lease.state == "released" and not asked:
            called_ns = call.called_ns if call is not None else lease.over_ns
            what, how = f"{_whose(lease.client)} release of {self.at(called_ns)}", "ended"
        else:
            what = f"{_whose(lease.client)} acquire of {self.at(lease.asked_ns)}"
            how = "was still going on" if asked else HOW["fail" if lease.state == "refused" else "info"]
        over_ns = self.found.time_ns if asked else lease.over_ns
        nodes = {
            each.node
            for each in breaches(self.kept)
            if each.kind == self.found.kind and each.own is not None and each.own.lease is lease
        }
        no_end = own.lies.until_ns > FOR_EVER_NS
        until = "for ever" if no_end else f"until {self.at(own.lies.until_ns)}"
        why, facts, sent = self._undoing(lease, own.made_by)
        sentence = (
            f"{what}, which {how} at {self.at(over_ns)}, left its key on {listed(sorted(nodes))} {until}{why}"
        )
        places = self._places(sent or own.made_by.sent)
        if (twice := self._entered_twice(lease)) is not None:
            first_ns, again = twice
            sentence += (
                f"; the acquire of {self.at(lease.asked_ns)} had counted it twice, at {self.at(first_ns)} "
                f"and at {self.at(again.time_ns)}"
            )
            facts.add(TWICE)
            places = self._places(again.sent)
        return Told(sentence, places, frozenset({*facts, *([NO_END] if no_end else [])}))

    def _entered_twice(self, lease: Lease) -> tuple[int, Entry] | None:
        """When an acquire counted a field up, and the command that counted it up again, if one did."""
        first_ns: dict[tuple[str, Slot], int] = {}
        for call in self.ledger.calls:
            for entry in call.entries if call.lease is lease and call.f == "acquire" else ():
                for effect in entry.effects:
                    if effect.after is None or not effect.after.lies.value.isdigit() or not effect.slot.field:
                        continue
                    before = effect.before.lies.value if effect.before is not None else "0"
                    grew = int(effect.after.lies.value) - int(before) if before.isdigit() else 0
                    if effect.what in ("create", "count") and grew == 1:
                        where = entry.node, effect.slot
                        if where in first_ns:
                            return first_ns[where], entry
                        first_ns[where] = entry.time_ns
        return None

    def _undoing(self, lease: Lease, made: Entry) -> tuple[str, set[str], Sent | None]:
        """What became of the command that was to take a key away."""
        fact, sent, last = undoing(self.ledger, lease, made)
        if fact == AFTER_ITS_END and made.call is not None:
            did = listed([DID.get(effect.what, effect.what) for effect in made.effects])
            by = f"the {NOUNS.get(made.call.f, made.call.f)}'s {_said(made).removeprefix('a ')}"
            facts = {fact} if _renews(made) else set()
            return f": {by} {did} it at {self.at(made.time_ns)}", facts, made.sent
        if sent is None:
            return ": nothing was sent there to take it away", {NOT_SENT}, made.sent
        if last is None:
            command = sent.words[0].upper()
            return f": the {command} that was to take it away did not arrive", {NOT_ARRIVED}, sent
        what = {
            OVERTAKEN: f" that was to take it away was executed before {_the(made)}",
            ERROR_REPLY: f" sent there was answered {last.error.partition(' ')[0]}",
            OTHER_VALUE: " sent there does not name its value",
            UNCHANGED: " sent there changed nothing",
        }.get(fact, "")
        if fact == OTHER_TOKEN and (named := named_by(self.ledger, last, lease)) is not None:
            whose = f"{_whose(named.client)} lease of {named.resource!r} of {self.at(named.asked_ns)}"
            what = f" sent there names the token of {whose}"
        elif fact == DID_SOMETHING:
            did = listed([DID.get(effect.what, effect.what) for effect in last.effects])
            what = f" sent there at {self.at(last.time_ns)} {did} it"
            return f": {_the(last)}{what}", {AFTER_ITS_END} if _renews(last) else set(), last.sent
        facts = {fact}
        if last.error.startswith(NO_SCRIPT) and last.call is not None and self._struck_before(last.call):
            facts |= {SCRIPT_LOST, AFTER_FAULT}
        return f": {_the(last)}{what}", facts, last.sent

    def of_life(self) -> Told:
        """A key lives for too long, or is made to live when its lease is over."""
        entry, effect = self.found.entry, self.found.effect
        assert entry is not None
        assert entry.call is not None
        assert effect is not None
        assert effect.after is not None
        call, places = entry.call, self._places(entry.sent)
        if self.found.kind.effect == KEPT_TOO_LONG:
            left_ns = effect.after.lies.until_ns - entry.time_ns
            no_end = left_ns > FOR_EVER_NS
            life = "no end" if no_end else _seconds(left_ns)
            sentence = (
                f"{self._subject(call)} gave its key on {self._nodes()} {life} for a lease of "
                f"{_seconds(call.ttl_ns)} ({_said(entry)})"
            )
            return Told(sentence, places, frozenset((NO_END,) if no_end else ()))
        did = f"{DID[effect.what]} its key on {self._nodes()} at {self.at(entry.time_ns)} ({_said(entry)})"
        over = self.at(call.lease.over_ns)
        state = HELD if entry.time_ns < call.lease.over_ns else call.lease.state  # as it was then
        if state == HELD:
            sentence = (
                f"{self._subject(call)} {did}, after its lease was over at {self.at(call.lease.until_ns)}"
            )
            return Told(sentence, places, frozenset((HELD,)))
        sentence = f"{self._subject(call)} {did}, after its lease was {state} at {over}"
        renews = state == "released" and _renews(entry)
        return Told(sentence, places, frozenset((AFTER_ITS_END,) if renews else ()))

    def of_progress(self) -> Told:
        """A call does not come to its end as it should."""
        call, what = self.found.call, self.found.kind.effect
        if call is None:
            return Told(f"{self.found.kind.call} {self.found.text}")
        subject, places = self._subject(call), self._places_of(call)
        if what == RAISES:
            return Told(f"{subject} {self.found.text}", places)
        if what == STOPS:
            last = self._places(call.sent[-1]) if call.sent else places
            return Told(f"{subject} was not renewed: {self.found.text}", last)
        own = self.found.own
        if what == MIXES and own is not None and own.lease is not None:
            other = f"{_whose(own.lease.client)} lease of {own.lease.resource!r}"
            return Told(f"{subject} of {call.lease.resource!r} was refused by the key of {other}", places)
        asked, facts, silent_after = self._asked(call)
        if what == IS_LATE and silent_after is not None:
            places = self._places(silent_after)
        waiting = self.outcome.waiting.get(call.client, ()) if call.ended_ns == NEVER else ()
        if waiting:
            asked, places = f"{asked}; it waits at {waiting[-1].text!r}", waiting
        took = f"took {_seconds(call.ended_ns - call.called_ns)}"
        if str(call.event.get("error", "")).startswith(NO_ANSWER):
            took = f"had no end within {_seconds(call.ended_ns - call.called_ns)}, and was given up"
        if call.ended_ns == NEVER:
            took = f"was not over after {_seconds(end_ns_of(self.outcome) - call.called_ns)}"
        failed = f"failed at {self.at(call.ended_ns)} although the lock was free"
        wait_ns = longest_wait_ns(self.outcome.trial.lock, self.outcome.trial.options)
        limit = f"{took}, and by its time-out it should take {_seconds(wait_ns or 0)} at most"
        did = {NEVER_ENDS: "never ended", IS_LATE: took, OUTWAITS: limit}.get(what, failed)
        return Told(f"{subject} {did}; {asked}", places, frozenset(facts))

    def _asked(self, call: Call) -> tuple[str, set[str], Sent | None]:
        """What each node was asked in a call, what it answered, and after what nothing was asked for long."""
        facts: set[str] = set()
        silent_after: Sent | None = None
        struck = self._struck_before(call)
        if struck:
            facts.add(AFTER_FAULT)
        new_masters = self._promoted_before(call)
        if new_masters and new_masters.isdisjoint(sent.node for sent in call.sent):
            facts.add(STAYS)
        if not call.sent:
            facts.add(ASKED_NOBODY)
            return f"it asked no node{self._silent_since(call)}", facts, None
        until_ns = min(call.ended_ns, max(sent.time_ns for sent in call.sent) + 2 * call.ttl_ns)
        said = {node: _answer(call, node, until_ns) for node in self.ledger.nodes}
        if _errors(call.entries):
            facts.add(ERROR_REPLY)
        for node, own in refusing(self.ledger, call).items():
            if own.lease is not None:
                asked = self.at(own.lease.asked_ns)
                said[node] += f" (the key of {_whose(own.lease.client)} acquire of {asked} lay there)"
                if own.lease.client == call.client:
                    facts.add(ITS_OWN_KEY)
        nodes = self.ledger.nodes_for(call)
        if 0 < len(nodes & refusing(self.ledger, call).keys()) <= len(nodes) - self.ledger.majority:
            facts.add(MINORITY_REFUSES)
        away = away_from(self.outcome, call.client, call.called_ns, until_ns)
        for node in away:
            said[node] += " (it cannot be reached)"
        if 0 < len(nodes & away) <= len(nodes) - self.ledger.majority:
            facts.add(MINORITY_AWAY)
        parts = [_together(said)]
        times = sorted({sent.time_ns for sent in call.sent} | {call.called_ns, min(call.ended_ns, until_ns)})
        silent_ns, since_ns = max((b - a, a) for a, b in zip([times[0], *times], times, strict=False))
        if silent_ns > call.ttl_ns // 5:
            last = [sent for sent in call.sent if sent.time_ns <= since_ns][-1:]
            silent_after = last[0] if last else None
            after = "".join(f" after {each.words[0]} to {each.node}" for each in last)
            parts.append(f"it sent nothing for {_seconds(silent_ns)}{after} from {self.at(since_ns)} on")
            arrived = {id(entry.sent) for entry in call.entries}
            sent_before = [
                sent
                for sent in call.sent
                if sent.time_ns <= since_ns and sent.words[0].upper() not in ABOUT_CONNECTIONS
            ]
            if last and not away and all(id(sent) in arrived for sent in sent_before):
                facts.add(SLEEPS)
        return "; ".join(parts), facts, silent_after

    def _promoted_before(self, call: Call) -> set[str]:
        """The replicas that had become masters when it was called."""
        return {
            event["targets"][0]
            for event in self.outcome.events
            if event["process"] == "nemesis"
            and event["f"] in (Promote.KEY, Failover.KEY)
            and event["type"] == "ok"
            and event["time_ns"] <= call.called_ns
        }

    def _struck_before(self, call: Call) -> list[str]:
        return [
            f"{'the end of a fault' if event.get('heals') else event['f']} at {self.at(event['time_ns'])}"
            for event in self.outcome.events
            if event["process"] == "nemesis" and event["type"] == "ok" and event["time_ns"] <= call.called_ns
        ]

    def _silent_since(self, call: Call) -> str:
        sent = [
            each.time_ns
            for other in self.ledger.calls
            for each in other.sent
            if other.client == call.client and each.time_ns < call.called_ns
        ]
        since = f", nor did its client send anything since {self.at(max(sent))}" if sent else ""
        struck = self._struck_before(call)
        return since + (f" ({', '.join(struck)})" if struck else "")

    def of_order(self) -> Told:
        """Fences, or the store, are out of order."""
        if self.found.kind.effect != FENCE:
            return Told(f"the store {self.found.text} at {self.at(self.found.time_ns)}")
        parts = []
        last: Call | None = None
        for call in self.ledger.calls:
            if call.f != "acquire" or call.how != "ok" or call.event.get("fence") is None:
                continue
            if call.ended_ns <= self.found.time_ns:
                last = call
            counted = [
                (entry.node, effect.after.lies.value)
                for entry in call.entries
                for effect in entry.effects
                if effect.after and effect.after.lies.value.isdigit()
            ]
            nodes = listed(sorted({node for node, _ in counted}))
            values = listed(sorted({value for _, value in counted}))
            how = f"counted to {values} on {nodes}" if counted else "no node counted"
            parts.append(f"{call.client.capitalize()} got {call.event['fence']} ({how})")
        shown = parts if len(parts) <= GRANTS_SHOWN else ["…", *parts[-GRANTS_SHOWN:]]
        sentence = f"a grant at {self.at(self.found.time_ns)} has fence {self.found.text}; {'; '.join(shown)}"
        lowered = self._lowered()
        if lowered is not None:
            entry, before, after = lowered
            sentence += (
                f"; {_whose(entry.client)} {_said(entry)} had lowered the counter on {entry.node} from "
                f"{before} to {after} at {self.at(entry.time_ns)}"
            )
            return Told(sentence, self._places(entry.sent))
        return Told(sentence, self._places_of(last) if last is not None else ())

    def _lowered(self) -> tuple[Entry, str, str] | None:
        """The last command before a grant that made a counter smaller, with its value before and after."""
        for entry in reversed(self.ledger.entries):
            for effect in entry.effects if entry.time_ns <= self.found.time_ns else ():
                if effect.what != "count" or effect.before is None or effect.after is None:
                    continue
                before, after = effect.before.lies.value, effect.after.lies.value
                if before.isdigit() and after.isdigit() and int(after) < int(before):
                    return entry, before, after
        return None

    def _nodes(self) -> str:
        """The nodes on which a call did the same at about the same time."""
        near = [
            each.entry.node
            for each in breaches(self.kept)
            if each.kind == self.found.kind and each.call is self.found.call and each.entry is not None
            if abs(each.time_ns - self.found.time_ns) < NEAR_NS
        ]
        return listed(sorted(set(near)))

    def _subject(self, call: Call) -> str:
        return f"{_whose(call.client)} {NOUNS.get(call.f, call.f)} of {self.at(call.called_ns)}"

    def _places(self, sent: Sent | None) -> tuple[Place, ...]:
        return () if sent is None else to_its_sending(self.outcome, sent)

    def _places_of(self, call: Call) -> tuple[Place, ...]:
        return of_requests(self.outcome, call.sent, call.lease.token)


def _whose(client: str) -> str:
    return f"{client.capitalize() or 'A client'}'s"


def _said(entry: Entry) -> str:
    """A command in words: SET NX PX, or a script of GET and DEL."""
    if not entry.name.startswith(("EVAL", "FCALL")):
        options = [word.upper() for word in entry.words[3:] if word.upper() in SET_OPTIONS]
        return " ".join([entry.name, *options])
    if not entry.inner:
        return entry.name
    return f"a script of {listed(list(dict.fromkeys(form_of(each) for each in entry.inner)))}"


SET_OPTIONS: Final = ("NX", "XX", "GT", "LT", "PX", "EX", "PXAT", "EXAT", "GET", "KEEPTTL", "IFEQ")


def _renews(entry: Entry) -> bool:
    """Whether a command gave a key life after one of the same call had set it there: as a watchdog does."""
    slots = {effect.slot for effect in entry.effects if effect.what in ("create", "prolong")}
    return entry.call is not None and any(
        other.node == entry.node and other.time_ns < entry.time_ns and effect.slot in slots
        for other in entry.call.entries
        for effect in other.effects
    )


def _the(entry: Entry) -> str:
    said = _said(entry)
    return f"the {said.removeprefix('a ')}"


def _seconds(duration_ns: int) -> str:
    return f"{duration_ns / 1e9:.2f} s"


def _together(said: dict[str, str]) -> str:
    alike: dict[str, list[str]] = {}
    for node, what in said.items():
        alike.setdefault(what, []).append(node)
    return "; ".join(f"{listed(nodes)} {what}" for what, nodes in alike.items())


def _errors(entries: Sequence[Entry]) -> list[Entry]:
    """The commands that were answered with an error, but for scripts that were then sent whole."""
    errors = [entry for entry in entries if entry.error]
    return [entry for entry in errors if not entry.error.startswith(NO_SCRIPT)] or (
        errors if entries and entries[-1].error else []
    )


def _answer(call: Call, node: str, until_ns: int = NEVER) -> str:
    """What became of what a call asked a node."""
    until_ns = min(until_ns, call.ended_ns)
    if not any(sent.node == node and sent.time_ns <= until_ns for sent in call.sent):
        return "got no request"
    done = [entry for entry in call.entries if entry.node == node and entry.time_ns <= until_ns]
    if not done:
        return "did not get it in time"
    if errors := _errors(done):
        return f"answered {_said(errors[-1])} with {errors[-1].error!r}"
    did = [
        f"{_said(entry)} ({listed([effect.what for effect in entry.effects])})"
        for entry in done
        if entry.effects
    ]
    return f"did {', '.join(did)}" if did else f"changed nothing by {_said(done[-1])}"
