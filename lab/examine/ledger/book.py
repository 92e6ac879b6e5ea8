"""The ledger: per node and key who owns the key, until when, and which command of which call made it so.

The owner of a key is the lease whose call created it last, whatever value lies there: a token that is used
twice does not deceive the ledger. Of a hash each field has an owner, of a list each element, of a set each
member, of a stream each entry and each that a consumer of a group has, and of a string that commands address
by bits each field that they do. A higher score prolongs a member, a lower one shortens it, and a later
delivery what a consumer has. A list, a stream or a sorted set may be a queue:
as long as an acquire goes on, what it has put there may be a place, and what others take of that is not
judged. Only an acquire puts something of its lease there; anything else may be a message.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lab.examine.violations.evidence import TOKEN_MIN
from lab.locks.capacity import ONE_HOLDER, Capacity
from lab.search.origin import Sent
from lab.search.runner import is_unattended
from lab.search.watch import Executed

MS_NS: Final = 1_000_000
NEVER: Final = 1 << 62
ROUNDED_NS: Final = 3 * MS_NS
"""Nodes keep keys for whole milliseconds."""
GRACE_NS: Final = 30 * MS_NS
"""How long after the end of a call its keys may still be on their way out."""
CREATE: Final = frozenset(("SET", "SETNX", "SETEX", "PSETEX", "HSET", "HSETNX"))
"""Commands that create a key, so that they belong to an acquire if one is under way."""
PASS_ON: Final = "pass on"
"""The effect on a stream's entry that is delivered to another lease."""
RENEWS: Final = "/renewal of "
"""How the process is named that says of a grant that it is renewed."""
LOCK_CALLS: Final = ("acquire", "extend", "release", "held")
OTHERS, ANOTHER, OWN, OVER = "others", "another lease's", "own", " over"
"""Whose key it was: another client's; the same client's of another lease; the lease's own. ``OVER`` follows
where that lease was over already."""


class Slot(NamedTuple):
    """Where a value lies on a node: a key, and the field of a hash, or the element of a list or a set."""

    key: str
    field: str = ""
    element: str = ""


_BIT_FIELD: Final = re.compile(r"[iu](\d+)")


@dataclass(slots=True)
class Bits:
    """The parts of a string that commands address by bits: where each begins, and how many bits it has."""

    parts: set[tuple[int, int]] = field(default_factory=set)

    def of(self, value: bytes) -> Iterator[tuple[str, str]]:
        """The parts that are not 0: which, and a bit as "set", a field of several as its number."""
        whole, size = int.from_bytes(value, "big"), 8 * len(value)
        for at, bits in self.parts:
            left = size - at - bits
            number = (whole >> left if left >= 0 else whole << -left) & ((1 << bits) - 1)
            if number:
                yield f"bits {at}+{bits}", "set" if bits == 1 else str(number)

    @staticmethod
    def without(value: bytes, part: str) -> bytes:
        """The string with a part that is 0."""
        at, bits = map(int, part.removeprefix("bits ").split("+"))
        left = max(8 * len(value) - at - bits, 0)
        whole = int.from_bytes(value, "big") & ~(((1 << bits) - 1) << left)
        return whole.to_bytes(len(value), "big")


def bits_in(words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Which bits of its key a command addresses: where they begin, and how many they are."""
    if words[0].upper() == "SETBIT" and len(words) > 2 and words[2].isdigit():
        yield int(words[2]), 1
    for at, word in enumerate(words[:-1] if words[0].upper() == "BITFIELD" else ()):
        kind, offset = _BIT_FIELD.fullmatch(word.lower()), words[at + 1]
        if kind is not None and offset.lstrip("#").isdigit():
            bits = int(kind[1])
            yield int(offset.lstrip("#")) * (bits if offset.startswith("#") else 1), bits


class Lies(NamedTuple):
    """A value that lies on a node: until when by the node's clock, in milliseconds, and by the history's.

    ``score``: of a member of a sorted set.
    """

    value: str
    until_ms: int | None
    until_ns: int
    score: float = 0.0


State = dict[Slot, Lies]


@dataclass(eq=False, slots=True)
class Lease:
    """One acquire of a client, and what comes of it.

    ``state`` is asked, held, refused, unknown (also of a cancelled one), releasing or released. Until
    ``until_ns`` its client was told to count on it; since ``over_ns`` nobody may. ``weight``: what it takes
    of the lock, see ``Capacity``. ``renews``: whether its lock renews it, as it says, until its release.
    """

    client: str
    grant_id: str
    resource: str
    ttl_ns: int
    asked_ns: int
    reentrant: bool = False
    weight: int = 1
    token: str | None = None
    renews: bool = False
    state: str = "asked"
    until_ns: int = 0
    over_ns: int = NEVER
    has_keys: bool = False
    """Whether it has had a key, or a field, of its own that lasted until its grant, not only elements."""

    def is_live(self, now_ns: int) -> bool:
        """Whether its client may have it."""
        return self.state == "asked" or (self.state == "held" and now_ns < self.until_ns)

    def has(self, owner: Lease | None, now_ns: int) -> bool:
        """Whether a key of this owner is this lease's: its own, or that of a lease that it renews."""
        if owner is self or owner is None or (owner.client, owner.resource) != (self.client, self.resource):
            return owner is self
        if self.state == "asked":
            return False
        return owner.token == self.token is not None or (self.reentrant and owner.is_live(now_ns))

    def is_nested_in(self, owner: Lease | None, now_ns: int) -> bool:
        """Whether its client has taken it, or asks for it, while it has that one."""
        if owner is None or not self.reentrant or owner is self:
            return False
        of_one = (owner.client, owner.resource) == (self.client, self.resource)
        return of_one and owner.state == "held" and owner.is_live(now_ns)


@dataclass(eq=False, slots=True)
class Call:
    """One call of a client's: what was sent for it, and what nodes executed of that.

    ``how`` is ok, fail, info, or open until it has ended.
    """

    client: str
    f: str
    lease: Lease
    called_ns: int
    ttl_ns: int
    event: dict[str, Any]
    ended_ns: int = NEVER
    how: str = "open"
    entries: list[Entry] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)


CALL: ContextVar[Call | None] = ContextVar("call", default=None)
"""The call that the running code belongs to. Tasks inherit it: a watchdog's commands belong to one, too."""


@dataclass(slots=True)
class Own:
    """A value on a node: whose it is, and what made it so."""

    lies: Lies
    lease: Lease | None
    made_by: Entry | None


class Breach(NamedTuple):
    """A kind of breach: the rule, the call that did it, what it did, and whose key that was."""

    rule: str
    call: str
    effect: str
    whose: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a command did to a value: create, replace, prolong, shorten, delete, count it, or pass it on."""

    what: str
    slot: Slot
    before: Own | None
    after: Own | None


@dataclass(eq=False, slots=True)
class Entry:
    """A command that a node executed: for which call, with which effects, and which rule each of them broke.

    ``inner`` is what a script called. ``undone``: an intervention took its effects back.
    """

    time_ns: int
    node: str
    client: str
    words: tuple[str, ...]
    call: Call | None
    sent: Sent | None
    inner: tuple[Executed, ...] = ()
    error: str = ""
    effects: list[Effect] = field(default_factory=list)
    breaches: list[Breach | None] = field(default_factory=list)
    undone: bool = False

    @property
    def name(self) -> str:
        """The command, in capitals."""
        return self.words[0].upper()


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client was told when a call succeeded: until when, while a majority kept the key until when.

    ``kept_ns`` is that as far as its client could know, ``there_ns`` as it was. ``stated``: the lock said
    until when; else that is a TTL after the call.
    """

    call: Call
    at_ns: int
    until_ns: int
    kept_ns: int
    there_ns: int
    nodes: tuple[str, ...]
    stated: bool = True


class Ledger:
    """All of a trial's calls, leases and commands, and who owns what now.

    Args:
        nodes: their names.
        majority: how many of them make a grant.
        uses: how many of them the lock uses for one key; 0: all.
        reentrant: whether a client may have several grants of one lock.
        replicated: whether they are a master and its replicas: the lock uses the one that is the master.
        capacity: how many may have the lock at once.
    """

    def __init__(
        self,
        nodes: tuple[str, ...],
        majority: int,
        *,
        uses: int = 0,
        reentrant: bool = False,
        replicated: bool = False,
        capacity: Capacity = ONE_HOLDER,
    ) -> None:
        self.capacity = capacity
        self.replicated = replicated
        self.nodes, self.majority, self.uses, self.reentrant = nodes, majority, uses or len(nodes), reentrant
        self.calls: list[Call] = []
        self.leases: dict[str, Lease] = {}
        self.entries: list[Entry] = []
        self.claims: list[Claim] = []
        self.owned: dict[str, dict[Slot, Own]] = {node: {} for node in nodes}
        self.bits: dict[str, Bits] = {}
        """By key: what commands address by bits."""
        self._may_live: dict[int, Lease] = {}
        """By identity: the leases that are asked for, or were granted and not given back."""
        self._past: tuple[int, list[int], list[dict[tuple[str, Slot], Own]]] = (0, [], [])
        """What lay on the nodes after each of so many entries, and when those were."""
        self._gone: tuple[int, dict[int, int]] = (0, {})
        """When what each command has made is over, of so many entries."""
        self._last: dict[str, Call] = {}
        self._open: dict[tuple[str, str], Call] = {}

    def call_for(self, client: str, words: tuple[str, ...]) -> Call | None:
        """The call that a command belongs to, if the code that sent it does not tell.

        That is the last one of the lease whose token it names, or of the client at all. A token that several
        leases of the client have had names none of them; nor does one that a new acquire sets again. What
        takes a key is of no release and no check: a library may go on with an acquire in the background.
        """
        last = self._last.get(client)
        named = [
            each
            for each in self.leases.values()
            if each.client == client and each.token is not None and each.token in words
        ]
        if last is None or len(named) != 1:
            return last
        takes = words[0].upper() in CREATE
        is_under_way = last.lease is not named[0] and last.f == "acquire" and last.how == "open"
        if takes and is_under_way and named[0].state != "held":
            return last
        of_lease = [each for each in self.calls if each.lease is named[0]]
        taking = (each for each in reversed(of_lease) if not takes or each.f in ("acquire", "extend"))
        return next(taking, of_lease[-1])

    def is_full(self, leases: Iterable[Lease | None], lease: Lease) -> bool:
        """Whether these leave no room for another one; whose a lease is that nobody knows may be a writer."""
        held = sum(self.capacity.weight(None) if each is None else each.weight for each in leases)
        return held + lease.weight > self.capacity.room

    def live_leases(self, now_ns: int) -> Iterator[Lease]:
        """The leases whose clients may have them."""
        return (each for each in self._may_live.values() if each.is_live(now_ns))

    def nodes_for(self, call: Call) -> frozenset[str]:
        """The nodes that the lock uses for what a call is about: all, or those that any such call asked."""
        asked = self._asked_for(call.lease)
        return asked if len(asked) >= self.uses else frozenset(self.nodes)

    def majority_for(self, lease: Lease) -> int:
        """How many nodes make a grant: more than half of those that the lock uses for what a lease is about.

        One that turns to other nodes where its own do not answer uses more of them than it means to.
        """
        return self.majority if self.replicated else max(self.majority, len(self._asked_for(lease)) // 2 + 1)

    def _asked_for(self, lease: Lease) -> frozenset[str]:
        """The nodes that were asked so far for what a lease is about; all, if the lock uses all."""
        if self.uses == len(self.nodes):
            return frozenset(self.nodes)
        about = (each for each in self.calls if each.lease.resource == lease.resource)
        return frozenset(sent.node for each in about for sent in each.sent)

    def begun(self, client: str) -> Call | None:
        """The call that a client has begun last."""
        return self._last.get(client)

    def hear(self, event: dict[str, Any]) -> Call | None:
        """Take in an event of a client: a call begins or ends. Returns the call that ended, if one did."""
        f, client, grant_id = event["f"], event.get("client"), event.get("grant_id") or ""
        if client is None or f not in LOCK_CALLS or is_unattended(event):
            if RENEWS in event["process"] and grant_id in self.leases:
                self.leases[grant_id].renews = True
            return None
        now_ns = event["time_ns"]
        if event["type"] == "invoke":
            if f == "acquire" or grant_id not in self.leases:
                self.leases[grant_id] = Lease(
                    client,
                    grant_id,
                    event["key"],
                    event.get("ttl_ns") or 0,
                    now_ns,
                    self.reentrant,
                    self.capacity.weight(event.get("value")),
                )
                self._may_live[id(self.leases[grant_id])] = self.leases[grant_id]
            lease = self.leases[grant_id]
            call = Call(client, f, lease, now_ns, event.get("ttl_ns") or lease.ttl_ns, event)
            self.calls.append(call)
            self._open[grant_id, f] = self._last[client] = call
            if f == "release":
                lease.state, lease.over_ns = "releasing", now_ns
                self._may_live.pop(id(lease), None)
            return None
        ended = self._open.pop((grant_id, f), None)
        if ended is not None:
            ended.ended_ns, ended.how, ended.event = now_ns, event["type"], event
            _end(ended, now_ns)
            if ended.f == "acquire" and ended.how != "ok":
                self._may_live.pop(id(ended.lease), None)
            if ended.f == "acquire" and ended.how == "ok":
                if event.get("claimed_ns") is None:
                    ended.lease.until_ns = self._nested_until_ns(ended.lease, now_ns)
                ended.lease.has_keys = self._has_keys(ended.lease, now_ns)
        return ended

    def _nested_until_ns(self, lease: Lease, now_ns: int) -> int:
        """Until when a lease is good of which nothing is said: as the one that its client has already."""
        outer = (each.until_ns for each in self.leases.values() if lease.is_nested_in(each, now_ns))
        return max(outer, default=lease.until_ns)

    def _has_keys(self, lease: Lease, now_ns: int) -> bool:
        """Whether a key of a lease, or a field, lasts: one that only asked what a node can do does not."""
        return any(
            own.lease is lease
            and own.lies.until_ns > now_ns
            and not slot.element
            and not is_counter(own.lies)
            for owned in self.owned.values()
            for slot, own in owned.items()
        )

    def look(self, node: str, now: State) -> None:
        """Take in what a node has before a command: what is gone has expired, or was forgotten."""
        owned = self.owned[node]
        for slot in [slot for slot in owned if slot not in now]:
            del owned[slot]
        for slot, own in owned.items():
            own.lies = own.lies._replace(until_ns=now[slot].until_ns)  # its clock may run at another rate now

    def take_over(self, node: str, now: State) -> None:
        """Take in what a node has from its master: whose that is, what was executed there tells."""
        owned = self.owned[node]
        for slot, lies in now.items():
            if slot not in owned or owned[slot].lies.value != lies.value:
                effects = (effect for entry in reversed(self.entries) for effect in entry.effects)
                there = (
                    effect.after for effect in effects if effect.slot == slot and effect.after is not None
                )
                same = next((own for own in there if own.lies.value == lies.value), Own(lies, None, None))
                owned[slot] = Own(lies, same.lease, same.made_by)

    def note_bits(self, words: tuple[str, ...]) -> None:
        """Note which bits of a string a command addresses: from then on it is looked at in such parts."""
        for part in bits_in(words):
            self.bits.setdefault(words[1], Bits()).parts.add(part)
            for owned in self.owned.values():
                owned.pop(Slot(words[1]), None)

    def see(self, entry: Entry, now: State) -> None:
        """Take in a command that a node executed, after which this is what it has."""
        owned = self.owned[entry.node]
        lease = entry.call.lease if entry.call is not None else None
        for slot in {**owned, **now}:
            before, lies = owned.get(slot), now.get(slot)
            what = _effect(slot, before, lies)
            if not what:
                continue
            own = None
            if lies is None:
                del owned[slot]
            elif before is None or what in ("create", "replace"):
                # An element that a call adds beside its own is what others wait for, or pass on.
                f = entry.call.f if entry.call is not None else ""
                is_again = f == "extend" and lease is not None and slot.element == lease.token
                is_own = not slot.element or f == "acquire" or is_again
                owner = (self._handed_to(entry, lies) or lease) if is_own else None
                own = owned[slot] = Own(lies, owner, entry)
                # What a lease without a key of its own sets later asks what a node can do, and holds nothing.
                if owner is not None and owner.state == "asked" and not slot.element:
                    owner.has_keys = owner.has_keys or not is_counter(lies)
            else:
                own = owned[slot] = Own(lies, before.lease, before.made_by)
            entry.effects.append(Effect(what, slot, before, own))
        entry.effects += self._delivered(entry)
        self.entries.append(entry)
        if entry.call is not None:
            entry.call.entries.append(entry)

    def _delivered(self, entry: Entry) -> list[Effect]:
        """The entries of streams that a command delivered to another lease than the one whose they were.

        From then on they are nobody's: the lock passes them on to whoever comes next, and nobody leaves them.
        """
        owned, found = self.owned[entry.node], []
        for effect in entry.effects:
            delivery, own = effect.slot, effect.after
            slot = Slot(delivery.key, element=delivery.element)
            there = owned.get(slot) if delivery.field and delivery.element else None
            if there is None or there.lease is None or own is None or own.lease in (None, there.lease):
                continue
            owned[slot] = Own(there.lies, None, there.made_by)
            found.append(Effect(PASS_ON, slot, there, owned[slot]))
        return found

    def _handed_to(self, entry: Entry, lies: Lies) -> Lease | None:
        """The lease that a call gives a key to: one not granted so far, whose token the call did not send."""
        if len(lies.value) < TOKEN_MIN or entry.call is None or entry.call.f == "acquire":
            return None
        if any(lies.value in sent.words for sent in entry.call.sent):
            return None
        waits = (each for each in reversed(self.calls) if each.f == "acquire" and each.how != "ok")
        return next(
            (each.lease for each in waits if any(lies.value in sent.words for sent in each.sent)), None
        )

    def nodes_of(self, lease: Lease, now_ns: int) -> dict[str, int]:
        """The nodes that keep a lease's key, and until when."""
        return {
            node: max(ends)
            for node, owned in self.owned.items()
            if (
                ends := [own.lies.until_ns for slot, own in owned.items() if _keeps(slot, own, lease, now_ns)]
            )
        }

    def kept_until_ns(self, lease: Lease, now_ns: int) -> int:
        """Until when a majority keeps the key of a lease, as it stands now; 0: no majority has it."""
        ends, majority = sorted(self.nodes_of(lease, now_ns).values(), reverse=True), self.majority_for(lease)
        return ends[majority - 1] if len(ends) >= majority else 0

    def at(self, time_ns: int) -> Iterator[tuple[str, Slot, Own]]:
        """What lay on the nodes at a time, but for what counts something."""
        if self._past[0] != len(self.entries):
            self._past = (len(self.entries), *self._states())
        _, times_ns, states = self._past
        place = bisect_right(times_ns, time_ns)
        for (node, slot), own in states[place - 1].items() if place else ():
            if own.lies.until_ns > time_ns and not is_counter(own.lies):
                yield node, slot, own

    def _states(self) -> tuple[list[int], list[dict[tuple[str, Slot], Own]]]:
        times_ns, states = list[int](), list[dict[tuple[str, Slot], Own]]()
        there = dict[tuple[str, Slot], Own]()
        for entry in self.entries:
            if entry.effects and not entry.undone:
                there = dict(there)
                for effect in entry.effects:
                    there.pop((entry.node, effect.slot), None)
                    if effect.after is not None:
                        there[entry.node, effect.slot] = effect.after
            times_ns.append(entry.time_ns)
            states.append(there)
        return times_ns, states

    def gone_ns(self, made: Entry) -> int:
        """When all that a command has made is over, however often it was prolonged."""
        if self._gone[0] != len(self.entries):
            ends = dict[int, int]()
            for entry in self.entries:
                for own in (each.after for each in entry.effects if each.after is not None):
                    if own.made_by is not None and own.made_by.node == entry.node:
                        ends[id(own.made_by)] = max(ends.get(id(own.made_by), 0), own.lies.until_ns)
            self._gone = len(self.entries), ends
        return self._gone[1].get(id(made), NEVER)

    def kept_at(self, lease: Lease, at_ns: int, least_ns: int = 0) -> int:
        """How many nodes kept a lease's key at a time, for so long yet at least."""
        there = ((node, own) for node, _, own in self.at(at_ns) if own.lease is lease)
        return len({node for node, own in there if own.lies.until_ns - at_ns >= least_ns})


def is_counter(lies: Lies) -> bool:
    """Whether a value counts something, and is no lock: a number without an end."""
    return lies.until_ms is None and lies.value.lstrip("-").isdigit()


def _keeps(slot: Slot, own: Own, lease: Lease, now_ns: int) -> bool:
    """Whether a value is a lease's, or that of an earlier try of its client, which it has taken over."""
    owner = own.lease
    taken_over = (
        owner is not None
        and (owner.client, owner.state) == (lease.client, "unknown")
        and own.lies.value == lease.token
    )
    lasts = own.lies.until_ns > now_ns and not (slot.element and lease.has_keys)
    return lasts and (taken_over or lease.has(owner, now_ns) or lease.is_nested_in(owner, now_ns))


def _end(call: Call, now_ns: int) -> None:
    """What the end of a call makes of its lease."""
    lease, event = call.lease, call.event
    if call.f == "acquire":
        lease.token = event.get("token")
        lease.state = {"ok": "held", "fail": "refused", "info": "unknown"}[call.how]
        lease.over_ns = NEVER if call.how == "ok" else now_ns
    elif call.f == "release":
        lease.state, lease.over_ns = "released", now_ns
    elif call.f == "extend" and call.how in ("fail", "info") and event.get("value") == "no":
        lease.until_ns = min(lease.until_ns, now_ns)
    if call.f in ("acquire", "extend") and call.how == "ok":
        claimed_ns = event.get("claimed_ns")
        lease.until_ns = call.called_ns + call.ttl_ns if claimed_ns is None else now_ns + claimed_ns


def _effect(slot: Slot, before: Own | None, lies: Lies | None) -> str:
    if lies is None:
        return "" if before is None else "delete"
    if is_counter(lies):
        return "" if before is not None and before.lies.value == lies.value else "count"
    if before is None:
        return "create"
    if before.lies.value != lies.value:
        counts = slot.field and before.lies.value.isdigit() and lies.value.isdigit()
        return "count" if counts else "replace"
    lasted, lasts = ((each.score, each.until_ms or NEVER) for each in (before.lies, lies))
    if lasted == lasts:
        return ""
    return "prolong" if lasts > lasted else "shorten"
