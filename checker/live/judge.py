"""Event after event: what is under way, what was granted, and where a violation has become possible.

Each rule here is a cheap necessary condition, wider than that of the offline check, which then decides on
the operations that are kept (`checker.live.confirm`). In a history without violations rules seldom apply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from math import ceil
from typing import Final

import msgspec

from checker.decide import plan_of
from checker.errors import HistoryError
from checker.history.events import CLOCK, GAP, LAB, NEMESIS, Event, Params
from checker.history.history import require_numbers, steps_begin
from checker.history.operations import F_NAMES, NEVER
from checker.history.pairing import client_of, is_client_event, unknown_kind
from checker.live.confirm import JUDGED, violations
from checker.live.doubts import Doubts
from checker.live.window import Grant, Key, Operation
from checker.properties.linearizable import REGISTER, WINDOWED
from checker.verdict import Finding, Property

OTHERS_MAX: Final = 2_000
"""Events of nodes that are kept, and as many of the nemesis and the lab: they explain findings."""

_UNKNOWN: Final = {
    "acquire": "acquires are of unknown outcome",
    "write": "writes are of unknown outcome",
}
AGAIN_MAX: Final = 100
"""How often a key on which a property is violated is looked at again for findings of another name."""


class Judge:
    """Takes the events of one history in order and answers each with the violations that it completes.

    Every finding is reported once per name and key. `judged` are the properties that can be judged at all
    with this header. `granted`, `leases`, `fences` and `writes` count what there was to judge;
    `recorded` tells whether an application recorded it, which need not write or have leases.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        self.doubts = Doubts()
        self.found: list[Finding] = []
        self.events = 0
        self.granted = self.leases = self.fences = self.writes = 0
        self.recorded = False
        model = params.model or "lease"
        self.judged = tuple(
            p
            for p in JUDGED
            if p in plan_of(model)
            and model != REGISTER
            and (model in WINDOWED or p is not Property.MUTUAL_EXCLUSION)
            and (p is not Property.FENCING or not model.startswith("reentrant"))
        )
        self._so_far: dict[str | None, list[Finding]] = {}
        self.withdrawn: list[Finding] = []
        """What `so_far` said and the next event took back; the caller empties it."""
        self._start_ns = 0
        self._now_ns = -NEVER
        self._pending: dict[str, Operation] = {}
        self._grants: dict[str, Grant] = {}
        self._keys: dict[str | None, Key] = {}
        self._suspects: dict[str | None, int] = {}
        self._others: deque[tuple[int, Event]] = deque(maxlen=OTHERS_MAX)
        self._nodes: deque[tuple[int, Event]] = deque(maxlen=OTHERS_MAX)
        self._reported: set[tuple[str, str | None]] = set()
        self._again: dict[tuple[Property, str | None], int] = {}

    def size(self) -> int:
        """How many operations and other events are kept."""
        grants = {id(g): g for key in self._keys.values() for g in key.grants()}
        kept = sum(len(g.operations()) for g in grants.values()) + sum(
            len(k.loose) for k in self._keys.values()
        )
        return kept + len(self._pending) + len(self._others) + len(self._nodes)

    def feed(self, event: Event) -> list[Finding]:
        """The violations that this event completes.

        Raises:
            HistoryError: an event that contradicts an earlier one.
        """
        at, self.events = self.events, self.events + 1
        if at == 0 or (event.process == LAB and steps_begin(event)):
            self._start_ns = event.time_ns
        if not is_client_event(event):
            (self._others if event.process in (NEMESIS, LAB) else self._nodes).append((at, event))
            self.doubts.look(event, at)
            if event.process == LAB and event.f == GAP:
                self._missed(event)
            self.recorded = self.recorded or (event.process == LAB and event.f == CLOCK)
            return []
        if event.f not in F_NAMES:
            raise unknown_kind(event.f, at)
        require_numbers(at, event)
        if event.time_ns < self._now_ns:
            self.doubts.disordered(at)
            return []
        self._now_ns = event.time_ns
        if self.doubts.out_of_order:
            return []
        before = self._due(event.time_ns)
        return before + (self._invoked(event, at) if event.type == "invoke" else self._completed(event, at))

    def so_far(self) -> list[Finding]:
        """The violations that the last event completed unless the next one carries the same stamp.

        Until a later stamp is read they are not certain, as a release may still be called at that instant;
        `feed` then returns them, or adds them to `withdrawn`. Each is given once.
        """
        fresh = []
        for key, when in self._suspects.items():
            if key not in self._so_far and not self.doubts.out_of_order:
                decided = self._decided(Property.MUTUAL_EXCLUSION, key, now_ns=when + 1)
                self._so_far[key] = [f for f in decided if (f.name, f.key) not in self._reported]
                fresh += self._so_far[key]
        return fresh

    def end(self) -> list[Finding]:
        """The violations that the end of the history completes: what is held stays held."""
        for operation in self._pending.values():
            if operation.call.f in ("acquire", "write"):
                self.doubts.count(_UNKNOWN[operation.call.f])
        if self.doubts.out_of_order:
            return []
        due, self._suspects = list(self._suspects), {}
        return [f for key in due for f in self._confirm(Property.MUTUAL_EXCLUSION, key, final=True)]

    # -- what happened ------------------------------------------------------------------------------------

    def _invoked(self, event: Event, at: int) -> list[Finding]:
        if event.process in self._pending:
            raise _misplaced(event, at, "this process invokes again before its completion")
        operation = self._pending[event.process] = Operation(event, at)
        if event.f not in ("release", "extend", "write"):
            return []
        grant = self._grants.get(event.grant_id or "")
        if grant is None:
            return self._unnamed(event)
        if event.f == "extend":
            grant.extensions.append(operation)
        elif event.f == "write":
            grant.writing.append(operation)
        elif grant.release is None:
            grant.release = operation
            due = grant.key in self._suspects
            found = self._confirm(Property.MUTUAL_EXCLUSION, grant.key) if due else []
            for key in grant.keys:
                self._forget(key.settle(grant))
            return found
        return []

    def _missed(self, gap: Event) -> None:
        """Events are missing: what clients held then, they may have released."""
        start_ns = gap.time_ns if gap.start_ns is None else gap.start_ns
        end_ns = start_ns + max(gap.duration_ns or 0, 0)
        for grant in self._grants.values():
            if grant.acquired_ns <= end_ns and (gap.targets is None or grant.client in gap.targets):
                grant.closed_ns = min(grant.closed_ns, start_ns)

    def _unnamed(self, event: Event) -> list[Finding]:
        """A release or an extension that does not say of what: any grant of its key may be the one.

        A release that names a grant which is not known may be of any grant of its client.
        """
        if event.f == "write" or (event.f == "extend" and event.grant_id is not None):
            return []
        self.doubts.count("releases or extensions do not name a grant that is known")
        for name in list(self._keys) if event.key is None else [event.key]:
            key = self._key(name)
            key.unnamed_ns = event.time_ns
            key.late += 1
            if event.f == "extend":
                self._forget(key.clear())
                continue
            for grant in key.held.values():
                if event.grant_id is None or client_of(event.process, event.client) == grant.client:
                    grant.closed_ns = min(grant.closed_ns, event.time_ns)
        return []

    def _completed(self, event: Event, at: int) -> list[Finding]:
        operation = self._pending.pop(event.process, None)
        if operation is None:
            raise _misplaced(event, at, "this process completes what it never invoked")
        if operation.call.f != event.f:
            raise _misplaced(event, at, "the completion is of another f")
        operation.done, operation.done_at = event, at
        name = operation.get("grant_id")
        grant = self._grants.get(name or "")
        if event.f == "write":
            return self._written(operation, grant)
        if event.f == "acquire":
            return self._acquired(operation, name)
        if grant is not None and event.f == "extend" and operation not in grant.extensions:
            grant.extensions.append(operation)  # named by its completion only
        if grant is None and event.type != "info" and event.f in ("release", "extend"):
            for key in self._keys.values() if event.key is None else [self._key(event.key)]:
                key.late = max(key.late - 1, 0)
        if grant is None or not operation.ok or event.f == "release":
            return []
        if event.f == "extend":
            return self._extended(operation, grant)
        return self._answered(operation, grant) if event.f == "held" else []

    def _acquired(self, operation: Operation, name: str | None) -> list[Finding]:
        if not operation.ok:
            if operation.done is not None and operation.done.type == "info":
                self.doubts.count(_UNKNOWN["acquire"])
            return []
        self.granted += 1
        if name is None and self._is_lease(operation):
            name = f"grant of event {operation.called_at}"
            operation.call = msgspec.structs.replace(operation.call, grant_id=name)
        if name is None or name in self._grants:
            self.doubts.count("grants have no id of their own")
            return []
        self.leases += operation.get("ttl_ns") is not None
        grant = self._granted(operation, name)
        key = self._key(grant.key)
        found: list[Finding] = []
        fence = operation.get("fence")
        if fence is not None:
            self.fences += 1
            if key.fence is not None and fence <= key.fence:
                found += self._confirm(Property.FENCING, grant.key)
            else:
                key.fence, key.fenced = fence, grant
        self._suspect(key, grant)
        key.called_ns = max(key.called_ns, grant.called_ns)
        if self._too_long(operation, grant.called_ns):
            found += self._confirm(Property.LEASE_HONESTY, grant.key, [grant])
        return found

    def _is_lease(self, operation: Operation) -> bool:
        """Whether a grant without an id is its client's, so that it can be told from others by its event.

        Releases that name none may be of any grant of the key (`_unnamed`), so nothing depends on whose they
        are.
        """
        if self.params.model is None:
            return operation.get("ttl_ns") is not None
        return self.params.model in WINDOWED

    def _granted(self, operation: Operation, name: str) -> Grant:
        key = operation.get("key")
        grant = Grant(
            name, key, operation, operation.call.time_ns, self._now_ns, self._over(operation, self._now_ns)
        )
        self._grants[name] = grant
        state = self._key(key)
        grant.closed_ns = state.open_from(grant)
        self._join(state, grant)
        return grant

    def _extended(self, operation: Operation, grant: Grant) -> list[Finding]:
        grant.over_ns = max(grant.over_ns, self._over(operation, self._now_ns, grant))
        if grant.trim():
            self.doubts.count("operations of long grants are forgotten")
        key, found = self._key(grant.key), []
        self._suspect(key, grant)
        if key.called_ns > grant.acquired_ns:
            found += self._confirm(Property.MUTUAL_EXCLUSION, grant.key)
        if self._too_long(operation, operation.call.time_ns, grant):
            found += self._confirm(Property.LEASE_HONESTY, grant.key, [grant])
        return found

    def _answered(self, operation: Operation, grant: Grant) -> list[Finding]:
        claim = operation.get("claimed_ns")
        if claim is None or operation.call.time_ns + claim <= grant.over_ns:
            return []
        return self._confirm(Property.LEASE_HONESTY, grant.key, [grant], [operation])

    def _written(self, operation: Operation, grant: Grant | None) -> list[Finding]:
        done = operation.done
        if grant is not None and done is not None and done.type != "info" and operation in grant.writing:
            grant.writing.remove(operation)
        if not operation.ok:
            if done is not None and done.type == "info":
                self.doubts.count(_UNKNOWN["write"])
            deferred = self._key(operation.get("key")).deferred and not (grant and grant.writing)
            return self._confirm(Property.RESOURCE, operation.get("key")) if deferred else []
        self.writes += 1
        name = operation.get("key")
        key = self._key(name)
        if grant is None:
            key.loose.append(operation)
            if operation.get("grant_id") is not None:
                self.doubts.count("writes name a grant that is not known any more")
        else:
            grant.writes.append(operation)
            self._join(key, grant)
            if grant.trim():
                self.doubts.count("operations of long grants are forgotten")
        found = self._confirm(Property.FENCING, name) if self._late(key, operation, grant) else []
        if key.deferred or self._twice(key, operation, grant):
            found += self._confirm(Property.RESOURCE, name)
        self._remember(key, operation, grant)
        return found

    # -- what has become possible -------------------------------------------------------------------------

    def _suspect(self, key: Key, grant: Grant) -> None:
        """Look at the guaranteed windows of a key again when this one, which began just now, is not empty."""
        now = self._now_ns
        if any(other is not grant and other.held and other.over_ns > now for other in key.held.values()):
            self._suspects[grant.key] = now + 2 * self.params.epsilon_ns

    def _due(self, now_ns: int) -> list[Finding]:
        due = [key for key, when in self._suspects.items() if now_ns > when]
        for key in due:
            del self._suspects[key]
        found = [f for key in due for f in self._confirm(Property.MUTUAL_EXCLUSION, key)]
        certain = {(f.name, f.key) for f in found}
        for key in due:
            told = self._so_far.pop(key, ())
            self.withdrawn += [f for f in told if (f.name, f.key) not in certain]
        return found

    def _too_long(self, operation: Operation, called_ns: int, grant: Grant | None = None) -> bool:
        """Whether more may have been claimed than the lease that an acquire or extension asked for."""
        over = self._over(operation, called_ns, grant)
        deadline = operation.get("deadline_ns")
        claim = operation.get("claimed_ns") or 0
        return over < NEVER and max(self._now_ns + max(claim, 0), deadline or 0) > over

    def _late(self, key: Key, operation: Operation, grant: Grant | None) -> bool:
        """Whether a write may come after one that should have been the later one, or before such a one."""
        fence, version = operation.get("fence"), operation.get("version_written")
        if grant is not None and key.began_ns > grant.acquired_ns:
            return True
        if fence is not None and key.written_fence is not None and fence < key.written_fence:
            return True
        return version is not None and key.version is not None and version < key.version

    def _twice(self, key: Key, operation: Operation, grant: Grant | None) -> bool:
        """Whether a write may be based on the same version as an earlier one."""
        based = _based_on(operation, grant)
        return based is not None and key.based is not None and based <= key.based

    def _remember(self, key: Key, operation: Operation, grant: Grant | None) -> None:
        fence, version = operation.get("fence"), operation.get("version_written")
        read = operation.get("version_read")
        if read is not None:
            key.based = _largest(key.based, read if grant is None else _largest(read, grant.last_version))
        key.version = _largest(key.version, version)
        key.written_fence = _largest(key.written_fence, fence)
        if grant is not None:
            grant.last_version = _largest(grant.last_version, version if read is not None else None)
            if grant.called_ns > key.began_ns:
                key.began_ns, key.newest = grant.called_ns, grant

    def _confirm(
        self,
        property: Property,
        key: str | None,
        grants: Iterable[Grant] | None = None,
        loose: Iterable[Operation] | None = None,
        *,
        final: bool = False,
    ) -> list[Finding]:
        """What the offline check finds among the operations kept of a key, but for what was told before."""
        again = self._again.get((property, key), 0)
        if property not in self.judged or again > AGAIN_MAX:
            return []
        if property is Property.RESOURCE:
            state = self._key(key)
            state.deferred = any(grant.writing for grant in state.grants())
        now_ns = None if final else self._now_ns
        decide = partial(self._decided, property, key, grants, loose, now_ns=now_ns)
        found = decide()
        if property is Property.LEASE_HONESTY and not found and decide(excused=False):
            self.doubts.count("claims were too long, unless a stall explains them")
        fresh = []
        for finding in found:
            if (finding.name, finding.key) not in self._reported:
                self._reported.add((finding.name, finding.key))
                fresh.append(finding)
        if again or fresh:
            self._again[property, key] = again + 1
        self.found += fresh
        return fresh

    def _decided(
        self,
        property: Property,
        key: str | None,
        grants: Iterable[Grant] | None = None,
        loose: Iterable[Operation] | None = None,
        *,
        now_ns: int | None,
        excused: bool = True,
    ) -> list[Finding]:
        """What the offline check finds among the operations kept of a key."""
        state = self._key(key)
        return violations(
            property,
            state.grants() if grants is None else list(grants),
            list(state.loose) if loose is None else list(loose),
            sorted([*self._others, *self._nodes], key=lambda pair: pair[0]),
            params=self.params,
            start_ns=self._start_ns,
            now_ns=now_ns,
            excused=excused,
        )

    # -- what is kept -------------------------------------------------------------------------------------

    def _key(self, name: str | None) -> Key:
        return self._keys.setdefault(name, Key())

    def _join(self, key: Key, grant: Grant) -> None:
        """Keep a grant among those of a key, and see to it that they do not become too many."""
        if not key.add(grant):
            return
        if not grant.held:
            self._forget(key.settle(grant))
        oldest = key.crowded()
        if oldest is not None:
            self._forget([oldest])
            self.doubts.count("grants that were not released are forgotten")

    def _forget(self, grants: Iterable[Grant]) -> None:
        for grant in grants:
            self._grants.pop(grant.id, None)

    def _over(self, operation: Operation, since_ns: int, grant: Grant | None = None) -> int:
        """When a lease counted from `since_ns` is over at the latest."""
        ttl = operation.get("ttl_ns")
        if ttl is None and grant is not None:
            ttl = grant.acquire.get("ttl_ns")
        return NEVER if ttl is None or ttl >= NEVER else since_ns + ttl + ceil(ttl * self.params.rho)


def _based_on(operation: Operation, grant: Grant | None) -> int | None:
    """The version that a write was based on at least: a client knows what it wrote itself just before."""
    read: int | None = operation.get("version_read")
    version: int | None = operation.get("version_written")
    if read is None or version is None or grant is None or grant.last_version is None:
        return read
    return max(read, grant.last_version) if version > grant.last_version and len(grant.keys) == 1 else read


def _largest(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else max(one, two)


def _misplaced(event: Event, at: int, problem: str) -> HistoryError:
    return HistoryError(
        f"{problem}: {event.process} {event.f} (event {at}), expected invoke, then ok, fail or info",
        field="process",
        hint="one operation at a time per process; after an info the client goes on under a new process name",
    )
