"""Running a trial with its ledger, and with repairs: what a rule forbids is undone while the trial runs.

A repair belongs to a kind of breach, not to one command: after the first one a replay goes another way. It
takes effects back and answers as if a guard had refused, or with an error where that is asked for, takes away
keys that nobody's lease owns, caps the life of keys, cuts claims down to what nodes keep, gives the key to
nodes that were not asked, or lets the clients' wall clocks show the true time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from lab.client_protocol import Mode
from lab.examine.ledger.book import (
    CALL,
    MS_NS,
    NEVER,
    Bits,
    Breach,
    Call,
    Claim,
    Entry,
    Lease,
    Ledger,
    Lies,
    Slot,
    State,
    is_counter,
)
from lab.examine.ledger.breaches import (
    CLAIMS,
    KEPT_TOO_LONG,
    PAST_CLAIM,
    READS_WALL_CLOCK,
    SKIPS_NODES,
    breach_of,
    residue_of,
)
from lab.examine.violations.evidence import ABOUT_CONNECTIONS
from lab.locks.base import Belief, Indeterminate, LeaseLost, Lock, NotAcquired
from lab.locks.base import Lease as Told
from lab.redis_model import ErrorReply, RedisModel
from lab.redis_model.keyspace import Hash, List, Set, SortedSet, Stream, copied
from lab.search.actor import capacity_in
from lab.search.cluster import TrialNode
from lab.search.guard import Failure, Guarded
from lab.search.origin import Origins
from lab.search.runner import Event, Outcome, TrialRun, Wire, on_either_wire
from lab.search.trial import Trial
from lab.search.watch import OF_THE_LAB, CommandLog, parts_of_stream

SPARE_NS: Final = 2 * MS_NS
"""By how much a claim is cut below what nodes keep."""
FOR_EVER_MS: Final = 1 << 50
REPAIRED: Final = 4
"""A key that an acquire leaves is a breach from a half of its lease on, and is taken away from a quarter on:
a half is also the wait that makes a finding, which such a repair could not end."""
T = TypeVar("T")
Repairs = frozenset[Breach]


@dataclass
class Kept:
    """What came of a trial with its ledger, and with these repairs."""

    outcome: Outcome
    ledger: Ledger
    repairs: Repairs = frozenset()


def keep(trial: Trial, repairs: Repairs = frozenset(), *, by_error: bool = False) -> Kept:
    """Run a trial with its ledger and repairs; only inside ``trials``. Raises what ``run_trial`` does.

    ``by_error``: what is undone is answered with an error.
    """

    def run(wire: Wire) -> Kept:
        playing = LedgerRun(trial, wire, repairs, by_error=by_error)
        return Kept(replace(playing.run(), watched=True), playing.ledger, repairs)

    return on_either_wire(run)


class LedgerRun(TrialRun):
    """A watched run of a trial that keeps a ledger, and repairs what it is told to.

    Args:
        trial: what is run.
        wire: how requests reach the nodes.
        repairs: the kinds of breaches that are repaired.
        by_error: whether what is undone is answered with an error.
    """

    def __init__(self, trial: Trial, wire: Wire, repairs: Repairs, *, by_error: bool = False) -> None:
        self._by_error = by_error
        self.ledger, self.repairs = (
            Ledger(
                trial.node_names,
                trial.majority,
                uses=0 if trial.replicated else trial.uses,
                reentrant=trial.reentrant,
                replicated=trial.replicated,
                capacity=capacity_in(trial),
            ),
            repairs,
        )
        self._calls: dict[int, Call | None] = {}
        self._capped: list[tuple[str, Slot, Lease, int]] = []
        """What is to go, on which node, when its lease is over and not before a time."""
        self._entry: Entry | None = None
        super().__init__(trial, wire, watch=True)
        for client in self._cluster.clients.values() if READS_WALL_CLOCK in repairs else ():
            _show_true_time(client.host.clock)

    def _origins_of(self, lock: str) -> Origins:
        return _OriginsByCall(self, lock)

    def _command_log(self, origins: Origins) -> CommandLog:
        return _LogOfLedger(self, origins)

    def _guarded(self, own: Lock, client: str, now_ns: Callable[[], int], failures: list[Failure]) -> Guarded:
        return Honest(own, client, now_ns, failures, self)

    def sent(self, client: str, sent: list[Any]) -> None:
        """A client sent these, from the code that runs now."""
        for each in sent:
            call = self._calls[id(each)] = CALL.get() or self.ledger.call_for(client, each.words)
            if call is not None:
                call.sent.append(each)

    def execute(
        self,
        name: str,
        model: RedisModel,
        run: Callable[[Any, list[bytes]], Any],
        session: Any,
        args: list[bytes],
    ) -> Any:
        """Let a node execute one command of a client."""
        log = self._log
        assert log is not None
        about_connection = args[0].decode(errors="replace").upper() in ABOUT_CONNECTIONS
        of_server = session.is_master or log.asker not in log.clients
        if about_connection or of_server or name not in self._cluster.nodes:
            return run(session, args)
        node = self._cluster.nodes[name]
        model.read_clock()
        self.ledger.look(name, self._state(node))
        if self._trial.replicated:
            self.ledger.take_over(name, self._state(node))
        self._sweep(node)
        words = tuple(word.decode(errors="replace") for word in args)
        entry = self._entry = Entry(self._now_ns(), name, log.asker, words, None, None)
        reply = run(session, args)
        if self._entry is entry:  # refused before it was performed
            self._entry = None
            entry.sent = log.origins.arrived(log.asker, name, words, log.message)
            self._note_entry(entry, {slot: own.lies for slot, own in self.ledger.owned[name].items()})
        entry.error = str(reply) if isinstance(reply, ErrorReply) else ""
        return reply

    def perform(self, model: RedisModel, run: Callable[..., Any], *arguments: Any) -> Any:
        """Perform a command of a client, with all that it calls, or one that another one called."""
        entry, self._entry = self._entry, None
        if entry is None:
            return run(*arguments)
        node, keys, log = self._cluster.nodes[entry.node], model.keys, self._log
        assert log is not None
        at, pending, owned = len(log.entries), len(model._pending), self.ledger.owned[entry.node]
        data, expires, before = {}, {}, {}
        if self.repairs:
            data = {key: copied(value) for key, value in keys.data.items()}
            expires, before = dict(keys.expires), {slot: copy(own) for slot, own in owned.items()}
        reply = run(*arguments)
        entry.sent = log.request
        log.end(entry.node, model)
        entry.inner = tuple(each for each in log.entries[at:] if each.in_script)
        for words in (entry.words, *(each.words for each in entry.inner)):
            self.ledger.note_bits(words)
        self._note_entry(entry, self._state(node))
        forbidden = self.repairs.intersection(each for each in entry.breaches if each is not None)
        if not forbidden:
            return reply
        entry.undone = True
        if any(each.effect == KEPT_TOO_LONG for each in forbidden):
            self._cap(node, entry)
        else:
            keys.data.clear()
            keys.data.update(data)
            keys.expires.clear()
            keys.expires.update(expires)
            del model._pending[pending:]  # what its file would be told of it
            self.ledger.owned[entry.node] = before
            # A script that answers with a list says more than yes or no: to its lock the node has failed.
            failed = ErrorReply("ERR the change was undone")
            refused = 0 if isinstance(reply, int) else None
            reply = failed if self._by_error or isinstance(reply, list) else refused
        log.set_state(at, model)
        return reply

    def _note_entry(self, entry: Entry, now: State) -> None:
        entry.call = self._calls.get(id(entry.sent)) if entry.sent is not None else None
        self.ledger.see(entry, now)
        entry.breaches = [breach_of(entry, effect, self.ledger) for effect in entry.effects]

    def _state(self, node: TrialNode) -> State:
        """What a node has now; what has expired is left out."""
        clock, keys, now_ns = node.host.clock, node.model.keys, self._now_ns()
        wall_ns = clock.wall_ns()
        state: State = {}

        def add(slot: Slot, value: bytes | str, until_ms: int | None, score: float = 0.0) -> None:
            text = value if isinstance(value, str) else value.decode(errors="replace")
            if until_ms is None:
                state[slot] = Lies(text, None, NEVER, score)
            elif until_ms * MS_NS > wall_ns:
                left_ns = (until_ms * MS_NS - wall_ns) * 10**6 // (10**6 + clock.ppm)
                state[slot] = Lies(text, until_ms, now_ns + left_ns, score)

        for key, value in keys.data.items():
            if key.startswith(OF_THE_LAB):
                continue
            name, until_ms = key.decode(errors="replace"), keys.expires.get(key)
            if isinstance(value, bytes) and name not in self.ledger.bits:
                add(Slot(name), value, until_ms)
            elif isinstance(value, Hash):
                for of, each in value.items():
                    ends = [ms for ms in (until_ms, value.ends.get(of)) if ms is not None]
                    add(Slot(name, of.decode(errors="replace")), each, min(ends, default=None))
            else:
                for part, text, score in self._parts(name, value):
                    add(part, text, until_ms, score)
        return state

    def _parts(self, name: str, value: Any) -> Iterator[tuple[Slot, bytes | str, float]]:
        """What lies in a string that is addressed by bits, in a stream, a list, a set or a sorted set."""
        if isinstance(value, bytes):
            for bits, number in self.ledger.bits[name].of(value):
                yield Slot(name, bits), number, 0.0
        elif isinstance(value, Stream):
            for entry in parts_of_stream(value):
                yield Slot(name, entry.group, entry.entry), entry.text, float(entry.since_ms)
        else:
            for each in value:
                score = value[each] if isinstance(value, SortedSet) else 0.0
                yield Slot(name, element=each.decode(errors="replace")), each, score

    def _sweep(self, node: TrialNode) -> None:
        """Take away what a breach left that is to be repaired."""
        now_ns = self._now_ns()
        for slot, own in list(self.ledger.owned[node.name].items()) if self.repairs else ():
            if not is_counter(own.lies) and residue_of(own, now_ns, REPAIRED) in self.repairs:
                _remove(node.model, slot)
                del self.ledger.owned[node.name][slot]
        for name, slot, lease, until_ns in self._capped:
            there = self.ledger.owned[name].get(slot) if name == node.name else None
            if there is not None and there.lease is lease and max(until_ns, lease.until_ns) <= now_ns:
                _remove(node.model, slot)
                del self.ledger.owned[name][slot]

    def _cap(self, node: TrialNode, entry: Entry) -> None:
        """Let what a command set live no longer than was asked for.

        A field or an element goes when its lease is over: others may have theirs under the same key.
        """
        for effect in entry.effects:
            if (
                effect.after is not None
                and entry.call is not None
                and (effect.slot.field or effect.slot.element)
            ):
                until_ns = entry.time_ns + entry.call.ttl_ns
                self._capped.append((node.name, effect.slot, entry.call.lease, until_ns))
            elif effect.after is not None and entry.call is not None:
                until_ms = (node.host.clock.wall_ns() + entry.call.ttl_ns) // MS_NS
                key = effect.slot.key.encode()
                node.model.keys.expires[key] = until_ms
                node.model._pending.append([b"pexpireat", key, b"%d" % until_ms])  # for its file
                until_ns = entry.time_ns + entry.call.ttl_ns
                effect.after.lies = effect.after.lies._replace(until_ms=until_ms, until_ns=until_ns)

    def _note(self, event: Event) -> None:
        call = self.ledger.hear(event)
        if call is not None and call.how == "ok" and call.f in ("acquire", "extend", "held"):
            if Breach(CLAIMS, call.f, SKIPS_NODES) in self.repairs:
                self._complete(call)
            now_ns, until_ns = event["time_ns"], call.lease.until_ns
            if call.f == "held":
                until_ns = now_ns + (event.get("claimed_ns") or 0) if event.get("value") == "yes" else 0
            kept_ns, there_ns = self.certain_ns(call), self.kept_ns(call.lease)
            nodes = tuple(sorted(self.ledger.nodes_of(call.lease, now_ns)))
            stated = event.get("claimed_ns") is not None
            self.ledger.claims.append(Claim(call, now_ns, until_ns, kept_ns, there_ns, nodes, stated))
        self._keep(event)

    def _complete(self, call: Call) -> None:
        """Give the key to the nodes that were not asked."""
        asked = {sent.node for sent in call.sent}
        made = [
            (effect.slot, effect.after)
            for entry in call.entries
            for effect in entry.effects
            if effect.after is not None and effect.after.lease is call.lease
            if not (effect.slot.field or effect.slot.element)
        ]
        for name, node in self._cluster.nodes.items() if made else ():
            (slot, own), there = made[-1], self.ledger.owned[name]
            is_free = slot not in there or there[slot].lease is call.lease
            if name not in asked and not node.host.down and is_free:
                node.model.keys.data[slot.key.encode()] = own.lies.value.encode()
                node.model.keys.expires[slot.key.encode()] = own.lies.until_ms or FOR_EVER_MS
                there[slot] = copy(own)

    def kept_ns(self, lease: Lease) -> int:
        """Until when a majority keeps a lease's key, as its nodes stand now; 0: none does."""
        for node in self._cluster.nodes.values():
            if node._model is not None and not node.host.down:
                self.ledger.look(node.name, self._state(node))
        return self.ledger.kept_until_ns(lease, self._now_ns())

    def certain_ns(self, call: Call) -> int:
        """Until when a majority keeps the key of a call's lease, as far as its client can know; 0: none does.

        The client knows that from when it sent what set or prolonged the key. What is gone by now, as a key
        that only asks what a node can do, tells nothing.
        """
        kept_ns, sent_ns, now_ns = self.kept_ns(call.lease), {}, self._now_ns()
        for entry in call.entries:
            if entry.sent is not None and any(
                effect.after is not None
                and effect.after.lease is call.lease
                and effect.after.lies.until_ns > now_ns
                for effect in entry.effects
            ):
                sent_ns[entry.node] = entry.sent.time_ns
        known_ns = min(sent_ns.values(), default=NEVER) + call.ttl_ns
        return min(kept_ns, max(known_ns, now_ns + 1)) if kept_ns else 0


class _OriginsByCall(Origins):
    """Notes for which call each command was sent."""

    def __init__(self, run: LedgerRun, lock: str) -> None:
        super().__init__(lock, run._now_ns)
        self._run = run

    def note(self, client: str, node: str, connection: Any, message: object) -> None:
        before = len(self._sent)
        super().note(client, node, connection, message)
        self._run.sent(client, self._sent[before:])


class _LogOfLedger(CommandLog):
    """Lets the ledger see what nodes execute."""

    def __init__(self, run: LedgerRun, origins: Origins) -> None:
        super().__init__(run._now_ns, origins, run._trial.clients)
        self._run = run

    def begin(self, node: str, model: RedisModel) -> None:
        super().begin(node, model)
        execute, perform, run = model.execute, model.perform, self._run
        hooks: dict[str, Any] = {
            "execute": lambda session, args: run.execute(node, model, execute, session, args),
            "perform": lambda *arguments: run.perform(model, perform, *arguments),
        }
        vars(model).update(hooks)


class Honest(Guarded):
    """The lock as its client calls it: each call is known to what it starts, and claims can be cut down."""

    def __init__(
        self, own: Lock, client: str, now_ns: Callable[[], int], failures: list[Failure], run: LedgerRun
    ) -> None:
        super().__init__(own, client, now_ns, failures)
        self._run = run

    async def acquire(self, key: str, ttl_ns: int, *mode: Mode) -> Told:
        """As the lock does, or a refusal where the nodes keep nothing and that is to be repaired."""
        call, lease = await self._as_call(super().acquire(key, ttl_ns, *mode))
        cut = self._cut(lease, call)
        if cut is None:
            with contextlib.suppress(LeaseLost, Indeterminate):
                await super().release(lease)
            raise NotAcquired("the claim was more than the nodes keep", [lease.token], refused_by=0)
        return cut

    async def extend(self, lease: Told, ttl_ns: int) -> Told:
        """As the lock does, or a refusal where the nodes keep nothing and that is to be repaired."""
        call, extended = await self._as_call(super().extend(lease, ttl_ns))
        cut = self._cut(extended, call)
        if cut is None:
            raise LeaseLost("the claim was more than the nodes keep")
        return cut

    async def release(self, lease: Told) -> None:
        """As the lock does."""
        await self._as_call(super().release(lease))

    def believes(self, lease: Told) -> bool:
        """As the lock does; not beyond its claim if no majority has the key and that is to be repaired."""
        return super().believes(lease) and self._may_believe(lease)

    async def held(self, lease: Told) -> Belief:
        """The same, of a lock that asks its nodes, or its process."""
        _, belief = await self._as_call(self._lock.held(lease))  # type: ignore[attr-defined]
        return belief if not belief.held or self._may_believe(lease) else Belief(held=False)

    def _may_believe(self, lease: Told) -> bool:
        """Whether a lease is not over, or kept; always if a belief in one that is need not be repaired.

        Of a lock that never says for how long it has a lease, what it believes is all that it claims.
        """
        call, now_ns = self._run.ledger.begun(self._client), self._now_ns()
        is_claim = lease.claim(now_ns).get("claimed_ns") is None and any(
            Breach(CLAIMS, f, "claims") in self._run.repairs for f in ("acquire", "extend")
        )
        if call is None or not (is_claim or PAST_CLAIM in self._run.repairs):
            return True
        is_over = is_claim or now_ns >= call.lease.until_ns
        return not is_over or self._run.kept_ns(call.lease) > now_ns

    async def _as_call(self, work: Awaitable[T]) -> tuple[Call | None, T]:
        call = self._run.ledger.begun(self._client)
        token = CALL.set(call)
        try:
            return call, await work
        finally:
            CALL.reset(token)

    def _cut(self, lease: Told, call: Call | None) -> Told | None:
        """A lease that claims no more than nodes keep, if that is to be repaired; None: they keep nothing."""
        if call is None or Breach(CLAIMS, call.f, "claims") not in self._run.repairs:
            return lease
        now_ns, kept_ns = self._now_ns(), self._run.certain_ns(call)
        if kept_ns <= now_ns:
            return None
        left_ns, claimed_ns = kept_ns - now_ns - SPARE_NS, lease.claim(now_ns).get("claimed_ns")
        ttl_ns = min(lease.ttl_ns, max(MS_NS, kept_ns - call.called_ns - SPARE_NS))
        if claimed_ns is None:  # then it is believed for a TTL
            claimed_ns, left_ns = lease.ttl_ns, ttl_ns
        if claimed_ns <= left_ns:
            return lease
        return replace(lease, deadline_ns=lease.deadline_ns - (claimed_ns - left_ns), ttl_ns=ttl_ns)


def _show_true_time(clock: Any) -> None:
    shown_ns = clock.wall_ns
    clock.wall_ns = lambda: shown_ns() - clock.shift_ns()
    clock.wall_ppm = lambda: 0  # a real process is told the rate, and counts by itself


def _remove_entry(stream: Stream, slot: Slot) -> None:
    """Take an entry out of a stream, or out of what a group's consumers have."""
    ms, _, number = slot.element.partition("-")
    entry = int(ms), int(number)
    if slot.field:
        stream.groups[slot.field.encode()].pending.pop(entry, None)
    else:
        stream.pop(entry, None)


def _remove(model: RedisModel, slot: Slot) -> None:
    key, value = slot.key.encode(), model.keys.data.get(slot.key.encode())
    if isinstance(value, Hash):
        value.pop(slot.field.encode(), None)
    elif isinstance(value, List):
        with contextlib.suppress(ValueError):
            value.remove(slot.element.encode())
    elif isinstance(value, Stream):
        _remove_entry(value, slot)
        return
    elif isinstance(value, Set | SortedSet):
        value.pop(slot.element.encode(), None)
    elif isinstance(value, bytes) and slot.field:
        model.keys.data[key] = Bits.without(value, slot.field)
        return
    if not isinstance(value, bytes) and value:
        return
    model.keys.data.pop(key, None)
    model.keys.expires.pop(key, None)
