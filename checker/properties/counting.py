"""Semaphores and read-write locks: may more have been held at one time than the lock has?

Both are one rule. A lock has a capacity, a grant weighs something, and at every instant the weights of all
grants that are held add up to at most the capacity. A semaphore has `permits`, and a grant weighs as many as
its acquire asked for (`value`, 1 if absent). A read-write lock has room for any number of readers (`value`
"read", weight 1) or for one writer (`value` "write", or absent), who fills it.

Each grant counts in its guaranteed window (`checker.history.windows`): from the return of its acquire to the
call of its release, but not longer than its lease. What acquires without a `grant_id` took is given back in
order by the releases of the same client: of `a` acquires returned and `r` releases called, `a - r` grants are
held at least, whichever release gave back which.

**Sound.** Inside its guaranteed window a grant is held in every order of the operations, so a sum above the
capacity contradicts them all.

**Exact** for sessions (no TTL) whose acquires all have a known outcome, and without refusals: let every grant
take effect just before its acquire returns and end just after its release is called. Then exactly the
guaranteed windows are held, and if no sum exceeds the capacity, this is an order that the lock allows. (An
acquire of unknown outcome may be left out; a release of unknown outcome ends the window at its call.)

Refused tries (failed acquires with an error of the header's `refusals`) are sound only: one is impossible if
the grants that may have been held during it leave room at every instant of it. A reader, or a writer, may
also be refused because another writer waits.

O(n log n), no search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from checker.errors import HistoryError
from checker.history.arrays import both, group_starts, plus, shorter
from checker.history.evidence import LISTED_MAX, Evidence, limited
from checker.history.masks import positions
from checker.history.operations import I32, I64, MISSING, NEVER, NONE, Bools, F, Index, Operations, Status
from checker.history.windows import possible, promised
from checker.properties.mutual_exclusion import unless_open
from checker.verdict import Finding, Property, PropertyVerdict, Severity, judge
from checker.words import in_words

SEMAPHORE: Final = "semaphore"
READ_WRITE: Final = "read-write-lock"
MODELS: Final = frozenset((SEMAPHORE, READ_WRITE))
ROOM: Final = 2**31
"""The capacity of a read-write lock, and the weight of a writer: more than there can be readers."""
READ: Final = "read"
WRITE: Final = "write"
EXCLUSION: Final = Property.MUTUAL_EXCLUSION


@dataclass(frozen=True, slots=True)
class Holds:
    """Windows of grants: the row of the acquire, its key, its weight, and from when to when; shape (n,)."""

    row: Index
    key: Index
    weight: I64
    start_ns: I64
    end_ns: I64

    def proper(self) -> Holds:
        """Those that are not empty."""
        kept = self.start_ns < self.end_ns
        return Holds(*(getattr(self, name)[kept] for name in self.__slots__))


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on mutual exclusion of a semaphore or a read-write lock.

    Raises:
        HistoryError: the number of permits is missing, or an acquire asks for something else than permits.
    """
    capacity = _capacity(evidence)
    weight = weights(evidence)
    findings = over_capacity(evidence, weight, capacity)
    if evidence.open_why() is None:
        findings += refused_with_room(evidence, weight, capacity)
    held = int((evidence.ops.status[evidence.ops.rows(F.ACQUIRE)] == Status.OK).sum())
    what = "readers and writers" if evidence.model == READ_WRITE else f"more than {capacity} permits"
    why = f"{held} grants, and {what} of one key can never have been held at the same time"
    verdict = judge(EXCLUSION, findings, why=why)
    return unless_open(evidence, verdict, lambda by_process: bool(check(by_process).violations))


def _capacity(evidence: Evidence) -> int:
    if evidence.model == READ_WRITE:
        return ROOM
    permits = evidence.params.permits
    if permits is None or not 1 <= permits < ROOM:
        seen = "no number of permits" if permits is None else f"{permits} permits"
        raise HistoryError(
            f"saw {seen}, expected a positive number", field="params.permits", hint="a semaphore has permits"
        )
    return permits


def weights(evidence: Evidence) -> I64:
    """What each operation asks for; shape (n,), 1 where it says nothing (`ROOM` in a read-write lock).

    Raises:
        HistoryError: the `value` of an acquire is no positive number, or neither "read" nor "write".
    """
    ops = evidence.ops
    shared = evidence.model == READ_WRITE
    weight = np.full(len(ops), ROOM if shared else 1, np.int64)
    asked = positions((ops.f == F.ACQUIRE) & (ops.value != NONE))
    meant: dict[int, int] = {}
    for code in np.unique(ops.value[asked]).tolist():
        value = ops.names.value[code]
        meant[code] = _weight(value, shared)
        if not 0 < meant[code] <= ROOM:
            at = int(asked[ops.value[asked] == code][0])
            expected = '"read" or "write"' if shared else "a positive number of permits"
            raise HistoryError(
                f"saw {value!r}, expected {expected} (event {int(ops.call_index[at])})", field="value"
            )
    if meant:
        table = np.zeros(max(meant) + 1, np.int64)
        table[list(meant)] = list(meant.values())
        weight[asked] = table[ops.value[asked]]
    return weight


def _weight(value: object, shared: bool) -> int:
    if shared:
        return {READ: 1, WRITE: ROOM}.get(value, 0) if isinstance(value, str) else 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def guaranteed_holds(evidence: Evidence, weight: I64) -> Holds:
    """The guaranteed windows of all grants, named or not."""
    segments, grants = evidence.guaranteed, evidence.grants
    row = grants.row[segments.grant]
    named = evidence.history.ops.grant[row] != NONE
    row = row[named]
    key = evidence.ops.key[row].astype(np.int64)
    holds = Holds(row, key, weight[row], segments.start_ns[named], segments.end_ns[named])
    return _joined(holds, _bare_holds(evidence, weight))


def _joined(one: Holds, other: Holds) -> Holds:
    return Holds(*(np.concatenate([getattr(one, n), getattr(other, n)]) for n in Holds.__slots__)).proper()


def _bare_holds(evidence: Evidence, weight: I64) -> Holds:
    """Windows of what acquires without a grant id took; the first is given back first, by its client."""
    ops, params = evidence.history.ops, evidence.params
    bare = ops.grant == NONE
    taken = positions(bare & (ops.f == F.ACQUIRE) & (ops.status == Status.OK))
    back = positions(bare & (ops.f == F.RELEASE) & (ops.status != Status.FAIL))
    group, order = _grouped(ops, taken, ops.return_ns[taken])
    taken = taken[order]
    released, order = _grouped(ops, back, ops.call_ns[back])
    ended = _matched(group, released, ops.call_ns[back[order]])
    deadline = plus(ops.call_ns[taken], _lease(ops, taken, params.rho, params.delta_ns))
    deadline = np.minimum(deadline, promised(ops.return_ns[taken], ops.claimed_ns[taken], params.rho))
    end = np.minimum(np.minimum(ended, deadline), evidence.open_ends(taken)[0])
    sessions = ops.ttl_ns[taken] == MISSING
    for code, death_ns in evidence.killed:  # a session ends with its client, a lease does not
        dead = sessions & (ops.client[taken] == code) & (ops.call_ns[taken] <= death_ns)
        end[dead] = np.minimum(end[dead], death_ns)
    end -= params.epsilon_ns
    start = ops.return_ns[taken] + params.epsilon_ns
    turns = (ended[:-1] <= ops.call_ns[taken[1:]]) | (group[1:] != group[:-1])
    turns = np.append(turns, True) & (ended >= ops.return_ns[taken])
    unsure = positions(bare & (ops.f == F.ACQUIRE) & (ops.status == Status.INFO))
    doubtful = np.isin(group, group[~turns]) | np.isin(group, _grouped(ops, unsure, ops.call_ns[unsure])[0])
    certain = np.where(doubtful, _least(group, weight[taken]), weight[taken])
    return Holds(taken, ops.key[taken].astype(np.int64), certain, start, end)


def _grouped(ops: Operations, rows: Index, time_ns: I64) -> tuple[I64, Index]:
    """One number per client and key, sorted, and the order of the rows by it and time."""
    group = both(ops.client, ops.key)[rows]
    order = np.lexsort((time_ns, group))
    return group[order], order


def _matched(group: I64, released: I64, called_ns: I64) -> I64:
    """When the k-th grant of each group was given back: the k-th release of the group; `NEVER` if none."""
    ended = np.full(group.size, NEVER, np.int64)
    if not group.size:
        return ended
    starts = group_starts(group)
    rank = np.arange(group.size) - np.repeat(starts, np.diff(np.append(starts, group.size)))
    at = np.searchsorted(released, group) + rank
    found = at < released.size
    found[found] = released[at[found]] == group[found]
    ended[found] = called_ns[at[found]]
    return ended


def _least(group: I64, weight: I64) -> I64:
    """The smallest weight of each group: a client that holds several does not say which it gave back."""
    if not group.size:
        return weight
    starts = group_starts(group)
    return np.repeat(np.minimum.reduceat(weight, starts), np.diff(np.append(starts, group.size)))


def _lease(ops: Operations, rows: Index, rho: float, delta_ns: int) -> I64:
    ttl = np.where(ops.ttl_ns[rows] == MISSING, NEVER, ops.ttl_ns[rows])
    return np.where(ttl < NEVER, shorter(ttl, rho) - delta_ns, NEVER)


def levels(holds: Holds) -> tuple[Index, I64, I64]:
    """Key, time and weight held from then on, at every begin and end of a window, in order.

    Windows are open: what ends at the instant at which another begins does not meet it.
    """
    key = np.concatenate([holds.key, holds.key])
    time_ns = np.concatenate([holds.start_ns, holds.end_ns])
    change = np.concatenate([holds.weight, -holds.weight])
    order = np.lexsort((change, time_ns, key))
    return key[order], time_ns[order], np.cumsum(change[order])  # every key's changes add up to nothing


def taken(evidence: Evidence, grant: Index, start_ns: I64, end_ns: I64) -> tuple[I32, I64, I64]:
    """The key, begin and end of times in which somebody could not be granted it, for liveness.

    `start_ns` and `end_ns` are the windows of the grants at these places, and for most locks they are the
    answer. A semaphore is taken while fewer permits are left than the largest number that anybody asks for.
    Each instant at which a grant begins counts as well: between two of them nobody was granted a permit.
    """
    key = evidence.grants.key[grant]
    if evidence.model != SEMAPHORE:
        return key, start_ns, end_ns
    capacity, weight = _capacity(evidence), weights(evidence)
    row = evidence.grants.row[grant]
    holds = Holds(row, key.astype(np.int64), weight[row], start_ns, end_ns).proper()
    asked = weight[evidence.ops.rows(F.ACQUIRE)]
    of, time_ns, level = levels(holds)
    full = positions(level + int(asked.max(initial=1)) > capacity)  # no key's last level is full
    return (
        np.concatenate([of[full].astype(np.int32), key]),
        np.concatenate([time_ns[full], start_ns]),
        np.concatenate([time_ns[np.minimum(full + 1, time_ns.size - 1)], start_ns]),
    )


def over_capacity(evidence: Evidence, weight: I64, capacity: int) -> list[Finding]:
    """`over-capacity`: more was held at one time than the lock has; the first instant of each key."""
    holds = guaranteed_holds(evidence, weight)
    key, time_ns, level = levels(holds)
    above = positions(level > capacity)
    _, first = np.unique(key[above], return_index=True)
    findings = []
    for at in above[np.sort(first)][:LISTED_MAX].tolist():
        now, until = int(time_ns[at]), int(time_ns[at + 1])
        same = positions((holds.key == key[at]) & (holds.start_ns <= now) & (now < holds.end_ns))
        findings.append(_over(evidence, holds, same, (now, until), capacity))
    return limited(findings, int(np.unique(key[above]).size))


def _over(evidence: Evidence, holds: Holds, same: Index, span: tuple[int, int], capacity: int) -> Finding:
    rows = holds.row[same].tolist()
    clients = [evidence.client(row) for row in rows]
    key = int(holds.key[same[0]])
    held = int(holds.weight[same].sum())
    lasted = f"for at least {in_words(span[1] - span[0])} from {evidence.at(span[0])}"
    who = " and ".join(dict.fromkeys(clients))
    if evidence.model == READ_WRITE:
        writers = [c for c, w in zip(clients, holds.weight[same].tolist(), strict=True) if w == ROOM]
        others = [c for c, w in zip(clients, holds.weight[same].tolist(), strict=True) if w != ROOM]
        with_whom = f"while {' and '.join(others)} held it for reading" if others else "both for writing"
        why = f"{' and '.join(writers)} held the lock on {evidence.key(key)!r} {with_whom}, {lasted}"
    else:
        why = (
            f"{who} held {held} permits of {evidence.key(key)!r} at once, {lasted}, "
            f"and the semaphore has {capacity}"
        )
    return evidence.finding(
        "over-capacity",
        EXCLUSION,
        Severity.VIOLATION,
        why,
        key=key,
        witnesses=[evidence.completion(row) for row in rows],
        clients=clients,
        held=None if evidence.model == READ_WRITE else held,
        capacity=None if evidence.model == READ_WRITE else capacity,
        overlap_ns=span[1] - span[0],
        start_offset_ns=span[0] - evidence.history.zero_ns,
    )


def refused_with_room(evidence: Evidence, weight: I64, capacity: int) -> list[Finding]:
    """`refused-with-room`: a try was refused although there was room for it during the whole of it."""
    ops, epsilon = evidence.ops, evidence.params.epsilon_ns
    codes = [c for c, error in enumerate(ops.names.error) if error in set(evidence.params.refusals)]
    tries = positions((ops.f == F.ACQUIRE) & (ops.status == Status.FAIL) & np.isin(ops.error, codes))
    if not tries.size:
        return []
    key, time_ns, level = levels(_possible_holds(evidence, weight))
    waited = _beside_waiting_writers(evidence, weight, tries)
    findings = []
    for row in tries[~waited].tolist():
        low, high = np.searchsorted(key, [ops.key[row], ops.key[row] + 1])
        times = time_ns[low:high]
        # From the last change before the call (an open window that ends then may still count) to the return.
        first = max(int(np.searchsorted(times, ops.call_ns[row] - epsilon)) - 1, 0)
        last = int(np.searchsorted(times, ops.return_ns[row] + epsilon, side="right"))
        most = int(level[low:high][first:last].max(initial=0))
        if most + int(weight[row]) <= capacity:
            findings.append(_refused(evidence, row, most, capacity, writes=bool(weight[row] == ROOM)))
    return limited(findings[:LISTED_MAX], len(findings))


def _possible_holds(evidence: Evidence, weight: I64) -> Holds:
    """All that may have been held, or waited for with success."""
    ops, grants = evidence.ops, evidence.grants
    named = evidence.history.ops.grant[grants.row] != NONE
    segments = possible(grants, evidence.params)
    # Which release gave back which is not known of bare grants: they may be held until the end.
    end = np.where(named, segments.end_ns, _bare_ends(evidence, weight))
    row = grants.row
    return Holds(row, ops.key[row].astype(np.int64), weight[row], segments.start_ns, end).proper()


def _beside_waiting_writers(evidence: Evidence, weight: I64, tries: Index) -> Bools:
    """Which tries met another try of a writer, refused as well; shape (tries,), none for a semaphore.

    A try is no reason for its own refusal.
    """
    ops, epsilon = evidence.ops, evidence.params.epsilon_ns
    met = np.zeros(tries.size, np.bool_)
    if evidence.model != READ_WRITE:
        return met
    for key in np.unique(ops.key[tries]).tolist():
        here = ops.key[tries] == key
        writes = here & (weight[tries] == ROOM)
        begun = np.sort(ops.call_ns[tries[writes]] - epsilon)
        ended = np.sort(ops.return_ns[tries[writes]] + epsilon)
        begin, end = ops.call_ns[tries[here]] - epsilon, ops.return_ns[tries[here]] + epsilon
        meeting = np.searchsorted(begun, end, side="right") - np.searchsorted(ended, begin)
        met[here] = meeting > writes[here]
    return met


def _bare_ends(evidence: Evidence, weight: I64) -> I64:
    """When a grant without a name was given back at the latest, as far as that is certain; shape (grants,).

    The k-th successful release of a client gives back its k-th grant, if all its acquires have a known
    outcome and one weight, and no release came before what it gives back; else nothing is known.
    """
    ops, grants = evidence.ops, evidence.grants
    bare = evidence.history.ops.grant == NONE
    ends = np.full(len(ops), NEVER, np.int64)
    asked = positions(bare & (ops.f == F.ACQUIRE) & (ops.status != Status.FAIL))
    back = positions(bare & (ops.f == F.RELEASE) & (ops.status == Status.OK))
    group, order = _grouped(ops, asked, ops.call_ns[asked])
    asked = asked[order]
    released, order = _grouped(ops, back, ops.return_ns[back])
    ended = _matched(group, released, ops.return_ns[back[order]])
    unsure = (ops.status[asked] != Status.OK) | (ended < ops.return_ns[asked])
    unsure |= weight[asked] != _least(group, weight[asked])
    doubtful = np.isin(group, group[unsure])
    ends[asked] = np.where(doubtful | (ended >= NEVER), NEVER, ended + evidence.params.epsilon_ns)
    return ends[grants.row]


def _refused(evidence: Evidence, row: int, most: int, capacity: int, *, writes: bool) -> Finding:
    key = int(evidence.ops.key[row])
    who = evidence.client(row)
    room = (
        f"no {'other client' if writes else 'writer'} can have held it, or waited for it"
        if evidence.model == READ_WRITE
        else f"at most {most} of {capacity} permits can have been taken"
    )
    why = (
        f"{who} was refused {evidence.key(key)!r} at {evidence.at(evidence.ops.return_ns[row])}, "
        f"although {room} at any time since {evidence.at(evidence.ops.call_ns[row])}, when it asked"
    )
    return evidence.finding(
        "refused-with-room",
        EXCLUSION,
        Severity.VIOLATION,
        why,
        key=key,
        witnesses=(evidence.invocation(row), evidence.completion(row)),
        clients=(who,),
    )
