"""The writes that reached the store, in the order in which it accepted them."""

from __future__ import annotations

from checker.evidence import Evidence
from checker.operations import I64, MISSING, NEVER, F, Status
from lab.report.timeline.findings import Accused
from lab.report.timeline.model import StoreWrite
from lab.report.timeline.words import MS_NS, clean


def store_writes(evidence: Evidence, rows: I64, accused: Accused) -> list[StoreWrite]:
    """Accepted writes (as the checker counts them) in version order, then rejected ones.

    The store does not stamp its writes with the recorder's clock: each is drawn in the middle of call and
    return, moved only as far as the version order demands.
    """
    ops, shown = evidence.ops, set(rows.tolist())
    writes: list[StoreWrite] = []
    last: dict[int, int] = {}
    table = evidence.writes
    columns = (table.row.tolist(), table.version_written.tolist(), table.done_ns.tolist())
    accepted = [entry for entry in zip(*columns, strict=True) if entry[0] in shown]
    accepted.sort(key=lambda entry: (entry[1] == MISSING, entry[1], int(ops.call_ns[entry[0]])))
    for row, version, done_ns in accepted:
        call = int(ops.call_ns[row])
        sure = ops.status[row] == Status.OK
        middle = (call + done_ns) // 2 if sure else min(call + MS_NS, done_ns)
        key = int(ops.key[row])
        at = min(max(middle, last.get(key, middle)), done_ns)
        last[key] = at
        writes.append(_write(evidence, row, at, None if version == MISSING else version, accused))
    for row in rows.tolist():
        if ops.f[row] in (F.WRITE, F.CAS) and ops.status[row] == Status.FAIL:
            call, back = int(ops.call_ns[row]), int(ops.return_ns[row])
            at = (call + back) // 2 if back < NEVER else call
            writes.append(_write(evidence, row, at, None, accused))
    return writes


def _write(evidence: Evidence, row: int, at_ns: int, version: int | None, accused: Accused) -> StoreWrite:
    ops, start_ns = evidence.ops, evidence.history.start_ns
    fence = int(ops.fence[row])
    error = ops.name("error", row)
    return StoreWrite(
        client=clean(evidence.client(row), 40),
        asked_ns=int(ops.call_ns[row]) - start_ns,
        at_ns=at_ns - start_ns,
        version=version,
        accepted=ops.status[row] != Status.FAIL,
        fence=None if fence == MISSING else fence,
        guilty=accused.guilty.get(row, ()),
        index=int(ops.call_index[row]),
        error=clean(error, 60) if error else None,
    )
