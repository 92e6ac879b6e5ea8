"""Liveness in numbers, from the history alone: how soon, how often, in how many attempts a lock is acquired.

The checker decides whether liveness was violated; these are figures for comparing locks. An attempt is one
acquire of a client, with all retries of the lock in it (with `retry_count: 1` there are none). All times are
integer nanoseconds of the history's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checker.history.evidence import Evidence, Interval
from checker.history.history import Fault, History
from checker.history.operations import I64, NEVER, NONE, Bools, F, Index, Status
from checker.properties.availability import Availability, merged, total, within

WINDOW_NS: Final = 500_000_000
"""The length of the windows in which availability is counted."""
LISTED_MAX: Final = 200
"""How many heals and penalties are listed one by one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of some numbers: median, 99th percentile, largest, mean."""

    p50: float
    p99: float
    max: float
    mean: float

    def scaled(self, by: float) -> dict[str, float]:
        """The JSON form, in another unit."""
        return {name: round(getattr(self, name) / by, 3) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Heal:
    """The end of one fault, and how long after it any client, and the client that was hit, acquired the lock.

    None: none did before the run was over.
    """

    fault: Fault
    any_client_ns: int | None
    hit_client_ns: int | None


@dataclass(frozen=True, slots=True)
class Penalty:
    """A grant that could not be released because of a fault, and the time until the next one.

    Claim: a partition costs the rest of the TTL, so `from_grant_ns` should be about `ttl_ns`.
    """

    fault: Fault
    client: str
    ttl_ns: int
    from_grant_ns: int
    from_fault_ns: int


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures. `windows` has one character per window: # a grant, . demand without one, - no demand."""

    attempts: int
    grants: int
    refused: int
    unknown: int
    acquire_ns: Spread | None
    tries: Spread | None
    windows: str
    longest_gap_ns: int
    heals: tuple[Heal, ...]
    penalties: tuple[Penalty, ...]
    handover_ns: Spread | None = None
    """The time from a grant that was released to the next one, for comparison with penalties."""
    held_share: float | None = None
    """The share of the time in which clients asked for a lock or held one, in which one was held.

    A grant counts up to its release, or for its TTL. None: no client asked.
    """

    @property
    def available(self) -> float | None:
        """The share of the windows with demand that have a grant; None without demand."""
        demand = len(self.windows) - self.windows.count("-")
        return self.windows.count("#") / demand if demand else None

    @property
    def after_heal_ns(self) -> Spread | None:
        """The time from a heal until any client acquired the lock."""
        return spread([heal.any_client_ns for heal in self.heals if heal.any_client_ns is not None])

    @property
    def hit_after_heal_ns(self) -> Spread | None:
        """The time from a heal until the client that was hit acquired the lock."""
        return spread([heal.hit_client_ns for heal in self.heals if heal.hit_client_ns is not None])

    @property
    def penalty_ns(self) -> Spread | None:
        """The time from a grant that could not be released to the next one."""
        return spread([penalty.from_grant_ns for penalty in self.penalties])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as it stands in verdict.json; times in milliseconds."""
        share = self.available
        return {
            "attempts": self.attempts,
            "grants": self.grants,
            "refused": self.refused,
            "unknown": self.unknown,
            "acquire_ms": _ms(self.acquire_ns),
            "attempts_until_grant": self.tries.scaled(1) if self.tries else None,
            "availability": {
                "window_ms": WINDOW_NS / 1e6,
                "share": None if share is None else round(share, 4),
                "windows": self.windows,
            },
            "held_share": None if self.held_share is None else round(self.held_share, 4),
            "longest_gap_ms": round(self.longest_gap_ns / 1e6, 3),
            "after_heal_ms": _ms(self.after_heal_ns),
            "hit_client_after_heal_ms": _ms(self.hit_after_heal_ns),
            "heals": [_heal(heal) for heal in self.heals[:LISTED_MAX]],
            "handover_ms": _ms(self.handover_ns),
            "penalty_ms": _ms(self.penalty_ns),
            "penalties": [_penalty(penalty) for penalty in self.penalties[:LISTED_MAX]],
        }


def measure(history: History) -> Measures:
    """All measures of a history; empty ones if there is nothing to measure."""
    evidence = Evidence(history)
    ops = evidence.ops
    rows = ops.rows(F.ACQUIRE)
    status = ops.status[rows]
    call = ops.call_ns[rows]
    end = np.minimum(np.minimum(ops.return_ns[rows], ops.info_ns[rows]), history.end_ns)
    granted = status == Status.OK
    return Measures(
        attempts=int(rows.size),
        grants=int(granted.sum()),
        refused=int((status == Status.FAIL).sum()),
        unknown=int((status == Status.INFO).sum()),
        acquire_ns=spread((end - call)[granted]),
        tries=spread(attempts_until_grant(ops.client[rows], call, granted)),
        windows=windows(call, end, granted),
        longest_gap_ns=longest_gap_ns(evidence, rows, end),
        heals=heals(evidence),
        penalties=penalties(evidence),
        handover_ns=spread(handovers_ns(evidence)),
        held_share=held_share(evidence, call, end),
    )


def spread(values: I64 | list[int]) -> Spread | None:
    """The distribution of some numbers; None of none."""
    numbers = np.asarray(values, np.float64)
    if not numbers.size:
        return None
    p50, p99 = np.percentile(numbers, [50, 99])
    return Spread(float(p50), float(p99), float(numbers.max()), float(numbers.mean()))


def attempts_until_grant(client: np.ndarray, call_ns: I64, granted: Bools) -> I64:
    """For every grant, how many attempts its client made since its last one, the granted one included."""
    order = np.lexsort((call_ns, client))
    hits = np.flatnonzero(granted[order])
    clients = client[order]
    first = np.searchsorted(clients, clients[hits])
    before = np.concatenate([[-1], hits[:-1]])[: hits.size]
    return np.asarray(hits - np.maximum(before, first - 1), np.int64)


def windows(
    call_ns: I64, end_ns: I64, granted: Bools, *, start_ns: int | None = None, window_ns: int = WINDOW_NS
) -> str:
    """One character per window, as in `Measures`, from `start_ns` (default: first call) to the last end."""
    if not call_ns.size:
        return ""
    start = int(call_ns.min()) if start_ns is None else start_ns
    count = (int(end_ns.max()) - start) // window_ns + 1
    first, last = (call_ns - start) // window_ns, (end_ns - start) // window_ns
    change = np.bincount(first, minlength=count + 1) - np.bincount(last + 1, minlength=count + 1)[: count + 1]
    demand = np.cumsum(change)[:count] > 0
    grant = np.bincount(last[granted], minlength=count) > 0
    return "".join(np.where(grant, "#", np.where(demand, ".", "-")).tolist())


def longest_gap_ns(evidence: Evidence, rows: Index, end_ns: I64) -> int:
    """The longest time of a key without a new grant; only time with a majority reachable for a client counts.

    Gaps are from the first call to the first grant, from one grant to the next, and from the last one to the
    end of the last attempt.
    """
    if not rows.size:
        return 0
    ops = evidence.ops
    availability = Availability(evidence)
    served = merged(i for client in evidence.client_names for i in availability.served(client))
    longest = 0
    for key in np.unique(ops.key[rows]).tolist():
        mine = ops.key[rows] == key
        ends = end_ns[mine]
        grants = np.sort(ends[ops.status[rows[mine]] == Status.OK])
        marks = np.concatenate([[ops.call_ns[rows[mine]].min()], grants, [ends.max()]])
        gaps = np.diff(marks)
        for at in np.argsort(-gaps, kind="stable").tolist():
            if gaps[at] <= longest:
                break
            longest = max(longest, total(within(int(marks[at]), int(marks[at + 1]), served)))
    return longest


def held_share(evidence: Evidence, call_ns: I64, end_ns: I64) -> float | None:
    """`Measures.held_share`, of attempts from ``call_ns`` to ``end_ns``."""
    demand = merged(map(Interval, call_ns.tolist(), end_ns.tolist()))
    if not total(demand):
        return None
    grants = evidence.grants
    given = grants.returned
    begun, back = grants.acquired_ns[given], grants.release_call_ns[given]
    over = np.where(back < NEVER, back, begun + np.minimum(grants.ttl_ns[given], evidence.history.end_ns))
    held = merged(map(Interval, begun.tolist(), np.minimum(over, evidence.history.end_ns).tolist()))
    return total(held) / total(merged([*demand, *held]))


def heals(evidence: Evidence) -> tuple[Heal, ...]:
    """For every fault that was ended: the time until a lock was granted again."""
    grants = evidence.grants
    held = np.flatnonzero(grants.returned)
    order = held[np.argsort(grants.acquired_ns[held], kind="stable")]
    times, clients = grants.acquired_ns[order], grants.client[order]
    found = []
    for fault in _injections(evidence):
        if fault.until_ns >= NEVER:
            continue
        codes = [c for c, name in enumerate(evidence.ops.names.client) if name in fault.targets]
        theirs = times[np.isin(clients, codes)]
        found.append(Heal(fault, _after(times, fault.until_ns), _after(theirs, fault.until_ns)))
    return tuple(found)


def _after(times: I64, since_ns: int) -> int | None:
    at = int(np.searchsorted(times, since_ns))
    return int(times[at]) - since_ns if at < times.size else None


def handovers_ns(evidence: Evidence) -> I64:
    """From each grant that was released to the next grant of its key."""
    grants = evidence.grants
    earlier, following = _successive(evidence)
    released = _released(evidence)[earlier]
    return np.asarray((grants.acquired_ns[following] - grants.acquired_ns[earlier])[released], np.int64)


def penalties(evidence: Evidence) -> tuple[Penalty, ...]:
    """Grants that were never released because their client was hit, and the time until the next grant."""
    grants = evidence.grants
    faults = [f for f in _injections(evidence) if evidence.client_names & set(f.targets)]
    if not faults:
        return ()
    released = _released(evidence)
    found = []
    for grant, following in zip(*(rows.tolist() for rows in _successive(evidence)), strict=True):
        if released[grant]:
            continue
        granted, next_ns = int(grants.acquired_ns[grant]), int(grants.acquired_ns[following])
        span = Interval(granted, min(next_ns, int(grants.release_call_ns[grant])))
        client = evidence.holder(grant)
        fault = next((f for f in faults if client in f.targets and _meets(f, span)), None)
        if fault is not None:
            since_ns = max(fault.start_ns, granted)
            ttl_ns = int(grants.ttl_ns[grant])
            found.append(Penalty(fault, client, ttl_ns, next_ns - granted, next_ns - since_ns))
    return tuple(found)


def _successive(evidence: Evidence) -> tuple[Index, Index]:
    """Grants of leases, and for each the next one of its key; the last of each key is left out."""
    grants = evidence.grants
    held = np.flatnonzero(grants.returned & (grants.ttl_ns < NEVER))
    order = held[np.lexsort((grants.acquired_ns[held], grants.key[held]))]
    same = grants.key[order[:-1]] == grants.key[order[1:]]
    return order[:-1][same], order[1:][same]


def _released(evidence: Evidence) -> Bools:
    """Which grants were certainly released."""
    grants = evidence.grants
    released = evidence.ops.status[grants.release_row] == Status.OK
    return np.asarray((grants.release_row != NONE) & released)


def _meets(fault: Fault, span: Interval) -> bool:
    return fault.start_ns <= span.end_ns and fault.until_ns >= span.start_ns


def _injections(evidence: Evidence) -> list[Fault]:
    return [f for f in evidence.history.faults if f.heals is None and f.confirmed]


def _ms(spread: Spread | None) -> dict[str, float] | None:
    return spread.scaled(1e6) if spread else None


def _heal(heal: Heal) -> dict[str, Any]:
    return {
        "fault_id": heal.fault.fault_id,
        "f": heal.fault.f,
        "target": heal.fault.target,
        "after_ms": _or_none(heal.any_client_ns),
        "hit_client_after_ms": _or_none(heal.hit_client_ns),
    }


def _penalty(penalty: Penalty) -> dict[str, Any]:
    return {
        "fault_id": penalty.fault.fault_id,
        "f": penalty.fault.f,
        "client": penalty.client,
        "ttl_ms": penalty.ttl_ns / 1e6,
        "from_grant_ms": round(penalty.from_grant_ns / 1e6, 3),
        "from_fault_ms": round(penalty.from_fault_ns / 1e6, 3),
    }


def _or_none(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / 1e6, 3)
