"""Liveness: is the lock ever lost (deadlock-freedom), and is it served while a majority is up?

`leak`: nobody can hold the key any more, a majority answers, and for longer than TTL + grace it is still
refused. Two things prove it: tries one after the other (never more than the grace apart) that were all
refused for that long; or one try, with no other beside it, refused that long after the last possible holder.
A failed try was refused only if the record says that nodes refused it (`refused_by` of the event): one that
failed because nodes kept silent was not, and of a history without that field no leak is proven.
An acquire of unknown outcome may be the holder, but not for ever: it was executed, if at all, by its
completion (or its client's death), or by the healing of a fault that held its messages back, and then lasts
its TTL.

`unavailable`: a majority was up and reachable, a client asked, and for longer than the scenario's bound
nobody was granted the key though no certain grant held it.

For a semaphore the time counts in which nobody was granted a permit although enough permits were left for
the largest number that anybody asks for (`checker.properties.counting.taken`).

Time in which the asking client or the lab itself stood still does not count.

A pass says what was shown (`checker.properties.waiting`). Deadlock-freedom is `ok` if the key, free after a
grant, was acquired by a try that began within TTL + grace; or if it was never free for longer than that, and
no client tried in vain, so that nothing can have gone wrong. It is unknown if clients tried a free key in
vain without proof of a leak, or if none tried for longer than TTL + grace whenever it was free. Fault
tolerance is `ok` if the lock was granted while a majority was up and every client that asked for a free key
got it within the bound of its first try; it is unknown if one did not and nothing more is proven. Without a
bound (a history whose header has none) it says that the lock was granted, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checker.history.arrays import longer
from checker.history.evidence import LISTED_MAX, Evidence, Interval, derived, limited
from checker.history.masks import positions, some
from checker.history.operations import I64, MISSING, NEVER, F, Status
from checker.properties.availability import Availability, availability_of, covers, merged, total, within
from checker.properties.counting import taken
from checker.properties.waiting import Tries, Wait, Windows, gaps, hold_ends, tries_of, waiting
from checker.properties.waits import deadlocks
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge
from checker.words import in_words, listed

DEADLOCK = Property.DEADLOCK_FREEDOM
TOLERANCE = Property.FAULT_TOLERANCE


def check_deadlock_freedom(evidence: Evidence) -> PropertyVerdict:
    """The verdict on deadlock-freedom: see the module's text."""
    tries = tries_of(evidence)
    if not tries.row.size:
        return judge(DEADLOCK, [], otherwise=Outcome.UNKNOWN, why="no client ever asked for the lock")
    findings = [*leaks(evidence, tries), *deadlocks(evidence)]
    grants = evidence.grants
    windows = Windows(grants.key, grants.called_ns, hold_ends(evidence), grants.called_ns, grants.held)
    limits = _longest_ttls(evidence) + evidence.params.grace_ns
    seen = waiting(evidence, tries, availability_of(evidence), windows, limits)
    if seen.open is not None:
        return judge(DEADLOCK, findings, otherwise=Outcome.UNKNOWN, why=_not_had(evidence, seen.open))
    if seen.again:
        times = "once" if seen.again == 1 else f"{seen.again} times"
        why = (
            f"after no client could hold it any more, the lock was acquired again {times}, by tries that "
            f"began within {in_words(seen.longest_ns)}"
        )
        return judge(DEADLOCK, findings, why=why)
    if seen.idle is not None:
        why = (
            f"no client tried for {in_words(seen.idle.lasted_ns)} while {evidence.key(seen.idle.key)!r} "
            f"was free (from {evidence.at(seen.idle.start_ns)}): whether it could be acquired again in time "
            "was not shown"
        )
        return judge(DEADLOCK, findings, otherwise=Outcome.UNKNOWN, why=why)
    why = "the lock was never free while a client asked for it in vain, so it cannot have been lost"
    return judge(DEADLOCK, findings, why=why)


def check_fault_tolerance(evidence: Evidence) -> PropertyVerdict:
    """The verdict on fault tolerance: see the module's text."""
    tries, availability = tries_of(evidence), availability_of(evidence)
    findings = unavailabilities(evidence, tries, availability)
    if not _any_while_up(evidence, tries, availability, only_grants=False):
        why = "no client asked for the lock while a majority was up"
        return judge(TOLERANCE, findings, otherwise=Outcome.UNKNOWN, why=why)
    if not _any_while_up(evidence, tries, availability, only_grants=True):
        why = "no client was granted the lock while a majority was up"
        return judge(TOLERANCE, findings, otherwise=Outcome.UNKNOWN, why=why)
    bound, grants = evidence.params.unavailable_ns, evidence.grants
    granted = f"the lock was granted while {_up(evidence)}"
    if bound is None:
        return judge(TOLERANCE, findings, why=f"{granted}; the record sets no bound on a wait for it")
    held = positions(grants.held)
    windows = Windows(
        grants.key[held],
        grants.acquired_ns[held],
        hold_ends(evidence)[held],
        grants.called_ns[held],
        np.ones(held.size, np.bool_),
    )
    limits = np.full(len(evidence.ops.names.key) + 1, bound, np.int64)
    seen = waiting(evidence, tries, availability, windows, limits)
    if seen.open is not None:
        return judge(TOLERANCE, findings, otherwise=Outcome.UNKNOWN, why=_not_had(evidence, seen.open))
    return judge(TOLERANCE, findings, why=f"{granted}, and no client waited longer than {in_words(bound)}")


def _up(evidence: Evidence) -> str:
    """That nodes could serve, as far as the record tells."""
    return "a majority was up" if evidence.params.nodes is not None else "no recorded fault kept nodes away"


def _not_had(evidence: Evidence, wait: Wait) -> str:
    """Why a free period with failed tries is neither a pass nor a violation."""
    ops, rows = evidence.ops, list(wait.rows)
    clients = listed(dict.fromkeys(evidence.client(row) for row in rows))
    times = "once" if len(rows) == 1 else f"{len(rows)} times"
    refused = int((ops.refused_by[rows] > 0).sum())
    answers = "nodes refused it each time" if refused == len(rows) else f"nodes refused it {refused} of them"
    if not refused:
        answers = "the record does not show that nodes refused it"
    calls = ops.call_ns[rows]
    ends = np.minimum(np.minimum(ops.return_ns[rows], ops.info_ns[rows]), evidence.history.end_ns)
    quiet = np.append(calls[1:], wait.end_ns) - ends
    longest = int(quiet.max())
    return (
        f"{clients} asked for {evidence.key(wait.key)!r} {times} from {evidence.at(calls[0])} on, when no "
        "client "
        f"could hold it, and did not get it ({answers}); no client tried for {in_words(longest)} of that "
        "time, so "
        "whether it could be acquired in time was not shown"
    )


def leaks(evidence: Evidence, tries: Tries) -> list[Finding]:
    """`leak`: refused for longer than TTL + grace though nobody can hold the key and a majority is up."""
    grants, params = evidence.grants, evidence.params
    if evidence.history.gaps or not some(evidence.ops.status[tries.row] == Status.FAIL):
        return []  # in a gap anybody may have been granted it
    every = np.arange(len(grants))
    free = gaps(*taken(evidence, every, grants.called_ns, hold_ends(evidence)), evidence, params.grace_ns)
    availability, ttls = availability_of(evidence), _longest_ttls(evidence)
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


@derived
def _longest_ttls(evidence: Evidence) -> I64:
    """The longest lease that anybody asked for, per key code, on a slow clock; 0 without expiry."""
    ops = evidence.ops
    ttl = np.zeros(len(ops.names.key) + 1, np.int64)
    asked = positions((ops.ttl_ns != MISSING) & ((ops.f == F.ACQUIRE) | (ops.f == F.EXTEND)))
    np.maximum.at(ttl, ops.key[asked], ops.ttl_ns[asked])
    return longer(ttl, evidence.params.rho)


def _leak_proof(
    evidence: Evidence, tries: Tries, availability: Availability, gap: tuple[int, int, int], limit: int
) -> tuple[list[int], int] | None:
    """The refused tries (rows) that prove a leak in a gap, and for how long; None if nothing does."""
    key, start, end = gap
    grace, ops = evidence.params.grace_ns, evidence.ops
    inside = tries.between(key, start, end)
    refused = [
        int(t)
        for t in inside.tolist()
        if ops.status[tries.row[t]] == Status.FAIL
        and ops.refused_by[tries.row[t]] > 0
        and tries.end_ns[t] <= end
        and covers(
            int(tries.call_ns[t]),
            int(tries.end_ns[t]),
            availability.served(evidence.client(int(tries.row[t]))),
        )
    ]
    run: list[int] = []
    reach = start
    for t in refused:
        call = int(tries.call_ns[t])
        if run and (call > reach + grace or not _served_since(evidence, availability, tries, run[0], t)):
            run, reach = [], call
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
    who = listed(dict.fromkeys(clients))
    tried = (
        "tried once and was refused" if len(rows) == 1 else f"tried {len(rows)} times and was always refused"
    )
    name, until = evidence.key(key), evidence.at(evidence.ops.return_ns[last])
    evidence_lines = (
        f"no client can have held it since {evidence.at(start)} · {_up(evidence)}",
        f"{who} {tried} by nodes, at last at {until} · more than TTL and grace ({in_words(limit)})",
    )
    return evidence.finding(
        "leak",
        DEADLOCK,
        Severity.VIOLATION,
        headline=f"{name!r} could not be acquired for {in_words(lasted)} though no client held it",
        evidence=evidence_lines,
        key=key,
        witnesses=(
            evidence.invocation(first),
            evidence.completion(first),
            evidence.invocation(last),
            evidence.completion(last),
        ),
        clients=clients,
        refused_ns=lasted,
        limit_ns=limit,
        free_since_offset_ns=start - evidence.history.zero_ns,
    )


def unavailabilities(evidence: Evidence, tries: Tries, availability: Availability) -> list[Finding]:
    """`unavailable`: demand, a majority up, no certain holder, and no grant for longer than the bound."""
    bound = evidence.params.unavailable_ns
    if bound is None or not tries.row.size or evidence.history.gaps:
        return []
    grants = evidence.grants
    held = positions(grants.held)
    ends = hold_ends(evidence)[held]
    free = gaps(*taken(evidence, held, grants.acquired_ns[held], ends), evidence, bound)
    longest = int((tries.end_ns - tries.call_ns).max())
    findings = []
    for gap in zip(free.key.tolist(), free.start_ns.tolist(), free.end_ns.tolist(), strict=True):
        rows, waits = _waits(evidence, tries, availability, gap, longest)
        findings += [
            _unavailable(evidence, gap[0], wait, lasted, bound, rows)
            for wait, lasted in waits
            if lasted > bound
        ]
    reported = {finding.key for finding in findings}
    refused = [
        _unavailable(evidence, key, span, lasted, bound, rows)
        for key, span, lasted, rows in _refused_spans(evidence, tries, availability, bound)
        if evidence.key(key) not in reported
    ]
    return limited((findings + refused)[:LISTED_MAX], len(findings) + len(refused))


def _refused_spans(
    evidence: Evidence, tries: Tries, availability: Availability, bound: int
) -> Iterator[tuple[int, Interval, int, list[int]]]:
    """Series of refusals by nodes longer than the bound in which no client can have held the key.

    Each of them was alone: no other try within the grace before it or beside it, whose keys might explain it.
    Between two of them no client need have asked: a key that is there at both is no lock that was free.
    """
    grants, ops, grace = evidence.grants, evidence.ops, evidence.params.grace_ns
    if not some(ops.refused_by[tries.row] > 0):
        return
    every = np.arange(len(grants))
    free = gaps(*taken(evidence, every, grants.called_ns, hold_ends(evidence)), evidence, bound)
    for key, start, end in zip(free.key.tolist(), free.start_ns.tolist(), free.end_ns.tolist(), strict=True):
        run: list[int] = []
        reach = start - grace
        inside = tries.between(key, start, end)
        calls = [*tries.call_ns[inside].tolist(), NEVER]
        for t, following in zip(inside.tolist(), calls[1:], strict=True):
            call, over, row = int(tries.call_ns[t]), int(tries.end_ns[t]), int(tries.row[t])
            client = evidence.client(row)
            alone = reach + grace < call or (
                bool(run) and evidence.client(run[-1]) == client and reach <= call
            )
            refused = alone and over < following and over <= end and ops.refused_by[row] > 0
            served = covers(int(ops.call_ns[run[0]]) if run else call, over, availability.served(client))
            if not refused or not served:
                if run:
                    yield from _span(evidence, availability, key, run, bound)
                run = []
            if refused and served:
                run.append(row)
            reach = max(reach, over)
        if run:
            yield from _span(evidence, availability, key, run, bound)


def _span(
    evidence: Evidence, availability: Availability, key: int, rows: list[int], bound: int
) -> Iterator[tuple[int, Interval, int, list[int]]]:
    begin, over = int(evidence.ops.call_ns[rows[0]]), int(evidence.ops.return_ns[rows[-1]])
    still = merged(i for client in {evidence.client(r) for r in rows} for i in availability.still(client))
    lasted = over - begin - total(within(begin, over, still))
    if lasted > bound:
        yield key, Interval(begin, over), lasted, rows


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
    return evidence.finding(
        "unavailable",
        TOLERANCE,
        Severity.VIOLATION,
        headline=(
            f"{listed(dict.fromkeys(clients))} could not get {evidence.key(key)!r} for {in_words(lasted)} "
            "while "
            f"{_up(evidence)}"
        ),
        evidence=(
            f"asked from {evidence.at(wait.start_ns)} to {evidence.at(wait.end_ns)}, and no client was "
            "granted it "
            f"· the scenario allows {in_words(bound)}",
        ),
        key=key,
        witnesses=(evidence.invocation(inside[0]), evidence.completion(inside[-1])),
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
        for interval in availability.served(client) if some(mine) else ():
            if some(mine & (begin <= interval.end_ns) & (end >= interval.start_ns)):
                return True
    return False
