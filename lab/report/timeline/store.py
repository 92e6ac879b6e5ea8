"""Executions of the store: accepted writes by version, rejected ones, announcements.

A history has the time of each execution (event ``executed``, see `lab.run.final_reads`). In older ones, call
and return of the write and the order of the versions bound it; the bounds are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checker.history.evidence import Evidence
from checker.history.operations import I64, MISSING, NEVER, F, Status
from lab.report.timeline.excerpt import Excerpt
from lab.report.timeline.findings import Accused
from lab.report.timeline.model import Announcement, Span, StoreWrite
from lab.report.timeline.nodes import Owners, owner_of
from lab.report.timeline.words import MS_NS, clean

Executions = list[tuple[str | None, Mapping[str, Any]]]
"""Key, and the store's record of one execution."""


def executions(evidence: Evidence) -> Executions:
    """All executions in the store's order; empty if the history has none."""
    return [
        (record.key, one)
        for record in evidence.history.lab
        if record.f == "executed" and isinstance(record.value, list)
        for one in record.value
        if isinstance(one, Mapping) and _bounds(one) is not None
    ]


def _bounds(execution: Mapping[str, Any]) -> tuple[int, int] | None:
    ran = execution.get("ran_ns")
    if not isinstance(ran, list) or len(ran) != 2 or not all(type(at) is int for at in ran):
        return None
    return (ran[0], ran[1]) if ran[0] <= ran[1] else None


@dataclass(slots=True)
class _Placed:
    """A write with bounds: it was executed after the first and before the second instant."""

    row: int
    version: int | None
    first_ns: int
    last_ns: int
    stamped: bool = False


def store_writes(evidence: Evidence, rows: I64, accused: Accused, ran: Executions) -> list[StoreWrite]:
    """Accepted writes (as the checker counts them) in version order, then rejected ones."""
    stamps = {
        (key, one.get("grant_id"), one.get("value")): _bounds(one) for key, one in ran if one["f"] == "write"
    }
    ops, shown, table = evidence.ops, set(rows.tolist()), evidence.writes
    accepted = [
        _Placed(row, None if version == MISSING else version, int(ops.call_ns[row]), done_ns)
        for row, version, done_ns in zip(
            table.row.tolist(), table.version_written.tolist(), table.done_ns.tolist(), strict=True
        )
        if row in shown
    ]
    rejected = [
        _Placed(row, None, int(ops.call_ns[row]), int(ops.return_ns[row]))
        for row in rows.tolist()
        if ops.f[row] in (F.WRITE, F.CAS) and ops.status[row] == Status.FAIL and ops.return_ns[row] < NEVER
    ]
    for write in (*accepted, *rejected):
        place = (ops.name("key", write.row), ops.name("grant", write.row), ops.name("value", write.row))
        _stamp(write, stamps.get(place), evidence.params.epsilon_ns)
    accepted.sort(key=lambda w: (w.version is None, w.version or 0, w.first_ns))
    _in_order(evidence, accepted)
    return [_write(evidence, write, accused) for write in (*accepted, *rejected)]


def _stamp(write: _Placed, ran: tuple[int, int] | None, epsilon_ns: int) -> None:
    """Use the store's stamp unless call and return contradict it (its clock was not this machine's)."""
    if ran is None or ran[0] > write.last_ns + epsilon_ns or ran[1] < write.first_ns - epsilon_ns:
        return
    first_ns = min(max(ran[0], write.first_ns), write.last_ns)
    write.first_ns, write.last_ns = first_ns, max(min(ran[1], write.last_ns), first_ns)
    write.stamped = True


def _in_order(evidence: Evidence, writes: list[_Placed]) -> None:
    """Versions of one key were written in their order: none before an earlier or after a later one."""
    numbered = [write for write in writes if write.version is not None]
    for ordered, later in ((numbered, True), (numbered[::-1], False)):
        bound: dict[int, int] = {}
        for write in ordered:
            key = int(evidence.ops.key[write.row])
            if later:
                write.first_ns = min(max(write.first_ns, bound.get(key, write.first_ns)), write.last_ns)
                bound[key] = write.first_ns
            else:
                write.last_ns = max(min(write.last_ns, bound.get(key, write.last_ns)), write.first_ns)
                bound[key] = write.last_ns


def _write(evidence: Evidence, write: _Placed, accused: Accused) -> StoreWrite:
    ops, start_ns, row = evidence.ops, evidence.history.zero_ns, write.row
    fence, error = int(ops.fence[row]), ops.name("error", row)
    if write.stamped:
        at_ns = (write.first_ns + write.last_ns) // 2
    elif ops.status[row] == Status.INFO:  # the client gave up; the upper bound may be the end of the run
        at_ns = min(write.first_ns + MS_NS, write.last_ns)
    else:
        at_ns = write.last_ns
    between = None if write.stamped else Span(write.first_ns - start_ns, write.last_ns - start_ns)
    return StoreWrite(
        client=clean(evidence.client(row), 40),
        asked_ns=int(ops.call_ns[row]) - start_ns,
        at_ns=at_ns - start_ns,
        version=write.version,
        accepted=ops.status[row] != Status.FAIL,
        fence=None if fence == MISSING else fence,
        guilty=accused.guilty.get(row, ()),
        error=clean(error, 140) if error else None,
        between=between,
    )


def announcements(
    evidence: Evidence, key: str | None, excerpt: Excerpt, owners: Owners, ran: Executions
) -> list[Announcement]:
    """Tokens that clients announced to the store, on the key shown."""
    found = []
    for its_key, one in ran:
        bounds = _bounds(one)
        if one["f"] != "announce" or (key is not None and its_key != key) or bounds is None:
            continue
        at_ns = sum(bounds) // 2 - evidence.history.zero_ns
        owner = owner_of(owners, str(one.get("token")), at_ns)
        if excerpt.shows(at_ns, at_ns):
            found.append(Announcement(None if owner is None else owner.client, at_ns))
    return found
