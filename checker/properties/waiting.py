"""How long clients had to wait for a lock that nobody held: what a pass on liveness rests on.

A *free period* of a key is a time in which no window of a grant covers it. A period is

* `shown` if a certain grant ends it whose try began within the limit of the period's begin, counted in the
  time in which a majority was up for any client;
* `open` if a try inside it failed for a client that a majority could serve, and no try succeeded within the
  limit of the first such failure: the lock was free and wanted, was not had, and no proof of a defect either;
* `idle` if it lasted longer than the limit and neither of both: nobody tried in time, which shows nothing.

Anything else (a period shorter than the limit in which nobody failed) could not have shown a defect.

Complexity: O(n log n) array operations; only periods longer than the limit, or with failures that no grant
followed, are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.history.arrays import Composite, longer, plus, running_max, sort_grouped
from checker.history.evidence import PAUSES, Evidence, Interval, derived
from checker.history.masks import count, positions
from checker.history.operations import I32, I64, NEVER, Bools, F, Index, Status
from checker.properties.availability import Availability, availability_of, covers, merged, total, within


@dataclass(frozen=True, slots=True)
class Tries:
    """All attempts to acquire, ordered by key, then call; `end_ns` is when each was over, known or not."""

    row: Index
    key: I32
    call_ns: I64
    end_ns: I64

    def between(self, key: int, start_ns: int, end_ns: int) -> Index:
        """Positions of the tries at a key that were called within [start, end]."""
        low, high = np.searchsorted(self.key, [key, key + 1])
        calls = self.call_ns[low:high]
        left, right = np.searchsorted(calls, [start_ns, end_ns + 1])
        return np.arange(low + left, low + right)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times in which no window covers a key, per key code; shape (n,) each."""

    key: I32
    start_ns: I64
    end_ns: I64


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows between which a key is free: shape (n,) each.

    `called_ns` is when the try began that made the grant; `certain` whether the grant certainly happened.
    """

    key: I32
    start_ns: I64
    end_ns: I64
    called_ns: I64
    certain: Bools


@dataclass(frozen=True, slots=True)
class Wait:
    """A free period in which a client tried and failed (`rows`, operations), or in which none tried."""

    key: int
    start_ns: int
    end_ns: int
    rows: tuple[int, ...]
    lasted_ns: int
    """Open: from the first failure to the next grant or the end of the record; idle: the whole period."""


@dataclass(slots=True)
class Waiting:
    """What the free periods of all keys show: see the module's text.

    `again` counts shown periods that followed another grant, `longest_ns` is the longest that one of those
    took; `open` and `idle` are the longest of their kind, if there are any.
    """

    again: int = 0
    longest_ns: int = 0
    open: Wait | None = None
    idle: Wait | None = None


@derived
def tries_of(evidence: Evidence) -> Tries:
    """All attempts to acquire."""
    ops = evidence.ops
    rows = ops.rows(F.ACQUIRE)
    end = np.minimum(ops.return_ns[rows], ops.info_ns[rows])
    call = ops.call_ns[rows]
    order = sort_grouped(ops.key[rows], call)
    rows, end = rows[order], end[order]
    return Tries(rows, ops.key[rows], ops.call_ns[rows], np.minimum(end, evidence.history.end_ns))


@derived
def hold_ends(evidence: Evidence) -> I64:
    """When each grant, certain or not, was not held any more at the latest, for liveness; one per grant."""
    grants, extensions = evidence.grants, evidence.grants.extensions
    rho, epsilon = evidence.params.rho, evidence.params.epsilon_ns
    last = np.where(grants.returned, grants.acquired_ns, _executed_by(evidence, grants.row))
    end = plus(last, longer(grants.ttl_ns, rho))
    forgotten = ~grants.held & (grants.ttl_ns >= NEVER)
    end[forgotten] = last[forgotten]
    may = positions(extensions.status != Status.FAIL)
    if may.size:
        done = np.where(
            extensions.status[may] == Status.OK,
            extensions.return_ns[may],
            _executed_by(evidence, extensions.row[may]),
        )
        np.maximum.at(end, extensions.grant[may], plus(done, longer(extensions.ttl_ns[may], rho)))
    availability = availability_of(evidence)
    for code, client in enumerate(evidence.ops.names.client) if evidence.history.faults else ():
        for death in availability.dead(client):
            theirs = (grants.client == code) & (grants.called_ns <= death.start_ns)
            end[(end >= NEVER) & theirs] = death.start_ns
    end = np.where(end < NEVER, end + epsilon, NEVER)
    released = np.where(grants.returned, grants.release_return_ns, NEVER) + epsilon
    latest: I64 = np.minimum(end, released)
    return latest


def _executed_by(evidence: Evidence, rows: Index) -> I64:
    """When operations of unknown outcome were executed at the latest, if ever: see the module's text."""
    ops = evidence.ops
    end = np.minimum(ops.return_ns[rows], ops.info_ns[rows])
    unsure = positions(ops.status[rows] == Status.INFO)
    if not unsure.size:
        return end
    availability = availability_of(evidence)
    holding = [f for f in evidence.history.faults if f.heals is None and f.f not in PAUSES]
    for i in unsure.tolist():
        client = evidence.client(int(rows[i]))
        call = int(ops.call_ns[rows[i]])
        over = min(int(end[i]), availability.death_after(client, call))
        over = evidence.history.end_ns if over >= NEVER else over
        held_back = [
            f.until_ns
            for f in holding
            if client in f.targets and f.start_ns <= over and f.until_ns >= call and len(f.targets) > 1
        ]
        end[i] = max([over, *held_back])
    return end


@derived
def _wanted(evidence: Evidence) -> Index:
    """The keys that anybody asked for, as codes."""
    return positions(np.bincount(evidence.ops.key[evidence.ops.f == F.ACQUIRE] + 1)) - 1


def gaps(key: I32, start_ns: I64, end_ns: I64, evidence: Evidence, minimum_ns: int) -> Gaps:
    """Times longer than `minimum_ns` in which no window covers the key, from first to last event."""
    first, last = evidence.history.start_ns, evidence.history.end_ns
    keys = _wanted(evidence)
    key = np.concatenate([keys, key, keys])
    start = np.concatenate([np.full(keys.size, first), start_ns, np.full(keys.size, last)])
    end = np.concatenate([np.full(keys.size, first), np.minimum(end_ns, last), np.full(keys.size, last)])
    order = sort_grouped(key, start)
    key, start, end = key[order], start[order], end[order]
    reach = running_max(end, key)
    free = (key[1:] == key[:-1]) & (start[1:] - reach[:-1] > minimum_ns)
    return Gaps(key[1:][free], reach[:-1][free], start[1:][free])


def waiting(
    evidence: Evidence, tries: Tries, availability: Availability, windows: Windows, limit_ns: I64
) -> Waiting:
    """Classify the free periods of every key; `limit_ns` is the limit per key code."""
    free = _free(evidence, windows)
    found = Waiting()
    lasted = free.end_ns - free.start_ns
    delay = free.called_ns - free.start_ns
    prompt = free.granted & (delay <= limit_ns[free.key])
    again = prompt & ~free.first
    found.again = count(again)
    found.longest_ns = max(0, int(delay[again].max(initial=0)))
    unsuccessful = positions(evidence.ops.status[tries.row] != Status.OK)
    failed = Tries(*(getattr(tries, name)[unsuccessful] for name in tries.__slots__))
    tried = _counts(failed, free, limit_ns.size) > 0
    looked_at = ~prompt & (tried | ((lasted > limit_ns[free.key]) & ~free.first))
    up = merged(i for client in evidence.client_names for i in availability.served(client))
    for at in positions(looked_at).tolist():
        _classify(evidence, failed, availability, free, at, int(limit_ns[free.key[at]]), up, found)
    return found


@dataclass(frozen=True, slots=True)
class _Free:
    """Free periods: `granted` ones end with a certain grant called at `called_ns`.

    `first` ones begin with the record.
    """

    key: I32
    start_ns: I64
    end_ns: I64
    called_ns: I64
    granted: Bools
    first: Bools


def _free(evidence: Evidence, windows: Windows) -> _Free:
    begin, last = evidence.history.start_ns, evidence.history.end_ns
    keys = _wanted(evidence)
    edge = np.full(keys.size, begin), np.full(keys.size, last)
    none = np.zeros(keys.size, np.bool_)
    key = np.concatenate([keys, windows.key, keys])
    start = np.concatenate([edge[0], windows.start_ns, edge[1]])
    end = np.concatenate([edge[0], np.minimum(windows.end_ns, last), edge[1]])
    called = np.concatenate([edge[0], windows.called_ns, edge[1]])
    certain = np.concatenate([none, windows.certain, none])
    order = sort_grouped(key, start)
    key, start, end, called, certain = (column[order] for column in (key, start, end, called, certain))
    reach = running_max(end, key)
    free = (key[1:] == key[:-1]) & (start[1:] > reach[:-1])
    opens = np.concatenate([[True], key[1:] != key[:-1]])[:-1]
    return _Free(
        key[1:][free],
        reach[:-1][free],
        start[1:][free],
        called[1:][free],
        certain[1:][free],
        opens[free],
    )


def _counts(failed: Tries, free: _Free, keys: int) -> I64:
    """How many of the failed tries were called inside each period; there are so many codes of keys."""
    if not failed.row.size or not free.key.size:
        return np.zeros(free.key.size, np.int64)
    code = Composite(failed.key, failed.call_ns)
    calls = code.encode(failed.key, failed.call_ns)
    known = np.zeros(keys, np.bool_)
    known[failed.key] = True
    low = np.searchsorted(calls, code.encode(free.key, free.start_ns))
    high = np.searchsorted(calls, code.encode(free.key, free.end_ns))
    return np.where(known[free.key], high - low, 0)


def _classify(
    evidence: Evidence,
    failed: Tries,
    availability: Availability,
    free: _Free,
    at: int,
    limit: int,
    up: list[Interval],
    found: Waiting,
) -> None:
    key, start, end = int(free.key[at]), int(free.start_ns[at]), int(free.end_ns[at])
    granted, first = bool(free.granted[at]), bool(free.first[at])
    until = int(free.called_ns[at]) if granted else end
    delay = total(within(start, until, up)) if until > start else 0
    if granted and delay <= limit:
        if not first:
            found.again += 1
            found.longest_ns = max(found.longest_ns, delay)
        return
    rows = [
        int(failed.row[t])
        for t in failed.between(key, start, until - 1).tolist()
        if covers(
            int(failed.call_ns[t]),
            int(failed.end_ns[t]),
            availability.served(evidence.client(int(failed.row[t]))),
        )
    ]
    asked = total(within(int(evidence.ops.call_ns[rows[0]]), until, up)) if rows else 0
    if rows and not (granted and asked <= limit):
        wait = Wait(key, start, end, tuple(rows), until - int(evidence.ops.call_ns[rows[0]]))
        found.open = _longer(found.open, wait)
    elif delay > limit and not first:
        found.idle = _longer(found.idle, Wait(key, start, end, (), until - start))


def _longer(one: Wait | None, other: Wait) -> Wait:
    return other if one is None or other.lasted_ns > one.lasted_ns else one
