"""Liveness: is the lock ever lost (deadlock-freedom), and is it served while a majority is up?

`leak`: nobody can hold the key any more, a majority answers, and for longer than TTL + grace it is still
refused. Two things prove it: tries one after the other (never more than the grace apart) that were all
refused for that long; or one try, with no other beside it, refused that long after the last possible holder.
A try that failed because nodes kept silent was not refused: that happens on a busy machine.
An acquire of unknown outcome may be the holder, but not for ever: it was executed, if at all, by its
completion (or its client's death), or by the healing of a fault that held its messages back, and then lasts
its TTL.

`unavailable`: a majority was up and reachable, a client asked, and for longer than the scenario's bound
nobody was granted the key though no certain grant held it.

Time in which the asking client or the lab itself stood still does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.arrays import Composite, longer, plus, running_max
from checker.availability import Availability, covers, merged, total, within
from checker.evidence import LISTED_MAX, PAUSES, Evidence, Interval, limited, ms
from checker.operations import I32, I64, MISSING, NEVER, F, Index, Status
from checker.properties.waits import deadlocks
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge

NOBODY_REFUSED = "nobody refused: "
"""How the error of a failed acquire begins if no answer ruled it out: silence is no sign of a holder."""
DEADLOCK = Property.DEADLOCK_FREEDOM
TOLERANCE = Property.FAULT_TOLERANCE


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times in which no window covers a key, per key code; shape (n,) each."""

    key: I32
    start_ns: I64
    end_ns: I64


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


def check_deadlock_freedom(evidence: Evidence) -> PropertyVerdict:
    """The verdict on deadlock-freedom; unknown if nobody ever asked."""
    tries = tries_of(evidence)
    if not tries.row.size:
        return judge(DEADLOCK, [], otherwise=Outcome.UNKNOWN, why="nobody ever asked for the lock")
    why = "whenever nobody held the lock and a majority was up, it could be acquired again in time"
    return judge(DEADLOCK, [*leaks(evidence, tries), *deadlocks(evidence)], why=why)


def check_fault_tolerance(evidence: Evidence) -> PropertyVerdict:
    """The verdict on fault tolerance; unknown if nobody asked while a majority was up."""
    tries, availability = tries_of(evidence), Availability(evidence)
    findings = unavailabilities(evidence, tries, availability)
    if not _any_while_up(evidence, tries, availability, only_grants=False):
        why = "nobody asked for the lock while a majority was up"
        return judge(TOLERANCE, findings, otherwise=Outcome.UNKNOWN, why=why)
    if not _any_while_up(evidence, tries, availability, only_grants=True):
        why = "nobody was granted the lock while a majority was up"
        return judge(TOLERANCE, findings, otherwise=Outcome.UNKNOWN, why=why)
    return judge(TOLERANCE, findings, why="the lock was granted while a majority was up")


def tries_of(evidence: Evidence) -> Tries:
    """All attempts to acquire."""
    ops = evidence.ops
    rows = ops.rows(F.ACQUIRE)
    end = np.minimum(ops.return_ns[rows], ops.info_ns[rows])
    call = ops.call_ns[rows]
    order = np.argsort(Composite(ops.key[rows], call).encode(ops.key[rows], call), kind="stable")
    rows, end = rows[order], end[order]
    return Tries(rows, ops.key[rows], ops.call_ns[rows], np.minimum(end, evidence.history.end_ns))


def hold_ends(evidence: Evidence) -> I64:
    """When each grant, certain or not, was not held any more at the latest, for liveness; one per grant."""
    grants, extensions = evidence.grants, evidence.grants.extensions
    rho, epsilon = evidence.params.rho, evidence.params.epsilon_ns
    last = np.where(grants.returned, grants.acquired_ns, _executed_by(evidence, grants.row))
    end = plus(last, np.where(grants.ttl_ns < NEVER, longer(grants.ttl_ns, rho), NEVER))
    forgotten = ~grants.held & (grants.ttl_ns >= NEVER)
    end[forgotten] = last[forgotten]
    may = np.flatnonzero(extensions.status != Status.FAIL)
    if may.size:
        done = np.where(
            extensions.status[may] == Status.OK,
            extensions.return_ns[may],
            _executed_by(evidence, extensions.row[may]),
        )
        np.maximum.at(end, extensions.grant[may], plus(done, longer(extensions.ttl_ns[may], rho)))
    availability = Availability(evidence)
    for code, client in enumerate(evidence.ops.names.client) if evidence.history.faults else ():
        for death in availability.dead(client):
            theirs = (grants.client == code) & (grants.called_ns <= death.start_ns)
            end[(end >= NEVER) & theirs] = death.start_ns
    end = np.where(end < NEVER, end + epsilon, NEVER)
    released = np.where(grants.returned, grants.release_return_ns, NEVER) + epsilon
    return np.asarray(np.minimum(end, released))


def _executed_by(evidence: Evidence, rows: Index) -> I64:
    """When operations of unknown outcome were executed at the latest, if ever: see the module's text."""
    ops = evidence.ops
    end = np.minimum(ops.return_ns[rows], ops.info_ns[rows])
    unsure = np.flatnonzero(ops.status[rows] == Status.INFO)
    if not unsure.size:
        return end
    availability = Availability(evidence)
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


def gaps(key: I32, start_ns: I64, end_ns: I64, evidence: Evidence, minimum_ns: int) -> Gaps:
    """Times longer than `minimum_ns` in which no window covers the key, from first to last event."""
    first, last = evidence.history.start_ns, evidence.history.end_ns
    keys = np.unique(evidence.ops.key[evidence.ops.f == F.ACQUIRE])
    key = np.concatenate([keys, key, keys])
    start = np.concatenate([np.full(keys.size, first), start_ns, np.full(keys.size, last)])
    end = np.concatenate([np.full(keys.size, first), np.minimum(end_ns, last), np.full(keys.size, last)])
    order = np.argsort(Composite(key, start).encode(key, start), kind="stable")
    key, start, end = key[order], start[order], end[order]
    reach = running_max(end, key)
    free = (key[1:] == key[:-1]) & (start[1:] - reach[:-1] > minimum_ns)
    return Gaps(key[1:][free], reach[:-1][free], start[1:][free])


def leaks(evidence: Evidence, tries: Tries) -> list[Finding]:
    """`leak`: refused for longer than TTL + grace though nobody can hold the key and a majority is up."""
    grants, params = evidence.grants, evidence.params
    free = gaps(grants.key, grants.called_ns, hold_ends(evidence), evidence, params.grace_ns)
    if not free.key.size or not bool((evidence.ops.status[tries.row] == Status.FAIL).any()):
        return []
    availability, ttls = Availability(evidence), _longest_ttls(evidence)
    findings = []
    for key, start, end in zip(free.key.tolist(), free.start_ns.tolist(), free.end_ns.tolist(), strict=True):
        limit = int(ttls[key]) + params.grace_ns
        proof = (
            _leak_proof(evidence, tries, availability, (key, start, end), limit)
            if end - start > limit
            else None
        )
        if proof is not None:
            findings.append(_leak(evidence, key, start, limit, *proof))
    return limited(findings[:LISTED_MAX], len(findings))


def _longest_ttls(evidence: Evidence) -> I64:
    """The longest lease that anybody asked for, per key code, on a slow clock; 0 without expiry."""
    ops = evidence.ops
    ttl = np.zeros(len(ops.names.key) + 1, np.int64)
    asked = np.flatnonzero((ops.ttl_ns != MISSING) & ((ops.f == F.ACQUIRE) | (ops.f == F.EXTEND)))
    np.maximum.at(ttl, ops.key[asked], ops.ttl_ns[asked])
    return longer(ttl, evidence.params.rho)


def _leak_proof(
    evidence: Evidence, tries: Tries, availability: Availability, gap: tuple[int, int, int], limit: int
) -> tuple[list[int], int] | None:
    """The refused tries (rows) that prove a leak in a gap, and for how long; None if nothing does."""
    key, start, end = gap
    grace, ops = evidence.params.grace_ns, evidence.ops
    silent = {code for code, error in enumerate(ops.names.error) if str(error).startswith(NOBODY_REFUSED)}
    inside = tries.between(key, start, end)
    refused = [
        int(t)
        for t in inside.tolist()
        if ops.status[tries.row[t]] == Status.FAIL
        and int(ops.error[tries.row[t]]) not in silent
        and tries.end_ns[t] <= end
        and covers(
            int(tries.call_ns[t]),
            int(tries.end_ns[t]),
            availability.served(evidence.client(int(tries.row[t]))),
        )
    ]
    run: list[int] = []
    reach = 0
    for t in refused:
        call = int(tries.call_ns[t])
        if run and (call > reach + grace or not _served_since(evidence, availability, tries, run[0], t)):
            run, reach = [], 0
        run.append(t)
        reach = max(reach, int(tries.end_ns[t]))
        began = int(tries.call_ns[run[0]])
        still = availability.still(evidence.client(int(tries.row[t])))
        lasted = reach - began - total(within(began, reach, still))
        if lasted > limit:
            return [int(tries.row[x]) for x in run], lasted
    return _lone_refusal(evidence, tries, availability, refused, start, limit)


def _served_since(
    evidence: Evidence, availability: Availability, tries: Tries, first: int, last: int
) -> bool:
    return all(
        covers(int(tries.call_ns[first]), int(tries.end_ns[last]), availability.served(client))
        for client in {evidence.client(int(tries.row[t])) for t in (first, last)}
    )


def _lone_refusal(
    evidence: Evidence, tries: Tries, availability: Availability, refused: list[int], start: int, limit: int
) -> tuple[list[int], int] | None:
    grace = evidence.params.grace_ns
    for t in refused:
        call, end = int(tries.call_ns[t]), int(tries.end_ns[t])
        client = evidence.client(int(tries.row[t]))
        free = call - start - total(within(start, call, availability.still(client)))
        if free <= limit or not covers(
            max(call - grace, availability.start_ns), end, availability.served(client)
        ):
            continue
        key = int(tries.key[t])
        near = tries.between(key, start, end)
        beside = near[(tries.end_ns[near] > call - grace) & (near != t)]
        if not beside.size and not within(call, end, availability.still(client)):
            return [int(tries.row[t])], free
    return None


def _leak(evidence: Evidence, key: int, start: int, limit: int, rows: list[int], lasted: int) -> Finding:
    first, last = rows[0], rows[-1]
    clients = [evidence.client(row) for row in rows]
    who = " and ".join(dict.fromkeys(clients))
    tried = "tried once and was" if len(rows) == 1 else f"tried {len(rows)} times and was always"
    why = (
        f"the lock on {evidence.key(key)!r} leaked: nobody can have held it since {evidence.at(start)} and a "
        f"majority was up, yet {who} {tried} refused, at last at "
        f"{evidence.at(evidence.ops.return_ns[last])}: {ms(lasted)}, more than TTL and grace ({ms(limit)})"
    )
    return evidence.finding(
        "leak",
        DEADLOCK,
        Severity.VIOLATION,
        why,
        key=key,
        witnesses=(evidence.called(first), evidence.told(first), evidence.called(last), evidence.told(last)),
        clients=clients,
        refused_ns=lasted,
        limit_ns=limit,
        free_since_offset_ns=start - evidence.history.start_ns,
    )


def unavailabilities(evidence: Evidence, tries: Tries, availability: Availability) -> list[Finding]:
    """`unavailable`: demand, a majority up, no certain holder, and no grant for longer than the bound."""
    bound = evidence.params.unavailable_ns
    if bound is None or not tries.row.size:
        return []
    grants = evidence.grants
    held = np.flatnonzero(grants.held)
    ends = hold_ends(evidence)[held]
    free = gaps(grants.key[held], grants.acquired_ns[held], ends, evidence, bound)
    longest = int((tries.end_ns - tries.call_ns).max())
    findings = []
    for gap in zip(free.key.tolist(), free.start_ns.tolist(), free.end_ns.tolist(), strict=True):
        rows, waits = _waits(evidence, tries, availability, gap, longest)
        findings += [
            _unavailable(evidence, gap[0], wait, lasted, bound, rows)
            for wait, lasted in waits
            if lasted > bound
        ]
    return limited(findings[:LISTED_MAX], len(findings))


def _waits(
    evidence: Evidence, tries: Tries, availability: Availability, gap: tuple[int, int, int], longest: int
) -> tuple[list[int], list[tuple[Interval, int]]]:
    """The tries (rows) that fall into a gap, and when there was demand without a break, and for how long."""
    key, start, end = gap
    demand: list[Interval] = []
    rows: list[int] = []
    clients: set[str] = set()
    for t in tries.between(key, start - longest, end).tolist():
        client = evidence.client(int(tries.row[t]))
        call, over = max(int(tries.call_ns[t]), start), min(int(tries.end_ns[t]), end)
        if over <= call:
            continue  # it ended before the gap began, or began after its end: nobody waited in the gap
        asked = within(call, over, availability.served(client))
        if asked:
            demand += asked
            rows.append(int(tries.row[t]))
            clients.add(client)
    still = merged(i for client in clients for i in availability.still(client))
    served = merged(i for client in clients for i in availability.served(client))
    whole = [
        part
        for wait in merged(demand, evidence.params.grace_ns)
        for part in within(wait.start_ns, wait.end_ns, served)
    ]
    return rows, [(w, w.end_ns - w.start_ns - total(within(w.start_ns, w.end_ns, still))) for w in whole]


def _unavailable(
    evidence: Evidence, key: int, wait: Interval, lasted: int, bound: int, rows: list[int]
) -> Finding:
    ops = evidence.ops
    inside = [r for r in rows if wait.start_ns <= ops.call_ns[r] <= wait.end_ns] or rows
    clients = [evidence.client(row) for row in inside]
    why = (
        f"{' and '.join(dict.fromkeys(clients))} asked for {evidence.key(key)!r} while a majority was up, "
        f"and nobody was granted it from {evidence.at(wait.start_ns)} to {evidence.at(wait.end_ns)}: "
        f"{ms(lasted)}, more than the {ms(bound)} that the scenario allows"
    )
    return evidence.finding(
        "unavailable",
        TOLERANCE,
        Severity.VIOLATION,
        why,
        key=key,
        witnesses=(evidence.called(inside[0]), evidence.told(inside[-1])),
        clients=clients,
        waited_ns=lasted,
        bound_ns=bound,
    )


def _any_while_up(evidence: Evidence, tries: Tries, availability: Availability, *, only_grants: bool) -> bool:
    """Whether any try (or any certain grant) falls into a time in which its client was served."""
    ops = evidence.ops
    rows, begin, end = tries.row, tries.call_ns, tries.end_ns
    if only_grants:
        held = evidence.grants.held
        rows, begin = evidence.grants.row[held], evidence.grants.called_ns[held]
        end = evidence.grants.acquired_ns[held]
    for code, client in enumerate(ops.names.client):
        mine = ops.client[rows] == code
        for interval in availability.served(client) if mine.any() else ():
            if bool((mine & (begin <= interval.end_ns) & (end >= interval.start_ns)).any()):
                return True
    return False
