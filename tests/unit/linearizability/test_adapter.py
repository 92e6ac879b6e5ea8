"""From the table of operations to what algorithms read, and what a lease is good for: against plain loops."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from checker.history.operations import MISSING, NEVER, NONE, F, Names, Operations, Status
from checker.linearizability.adapter import lock_columns, register_ops, without_empty_cores
from checker.linearizability.columns import ACQUIRE, REFUSED, RELEASE, OpColumns
from checker.linearizability.lease import may_end_by_itself
from checker.linearizability.model import Op
from tests.unit.checker.builder import HistoryBuilder

NAMES = Names(process=("a", "b", "c"), key=("k", "l"), error=("held", "mismatch", "late"), value=(1, (1, 2)))


def table(number: int, kinds: tuple[F, ...] = tuple(F)) -> Operations:
    """A few operations of any kind and outcome, each after the call of the one before."""
    random = Random(number)
    rows: list[dict[str, Any]] = []
    for at in range(random.choice((0, 1, 2, 5, 9))):
        status = random.choice(tuple(Status))
        call = 10 * at
        back = call + random.choice((1, 4, 12, 25))
        rows.append(
            {
                "f": random.choice(kinds),
                "status": status,
                "process": random.randrange(3),
                "key": random.choice((0, 0, 1, NONE)),
                "error": random.choice((NONE, 0, 1, 2)),
                "value": random.choice((NONE, 0, 1)),
                "call_ns": call,
                "return_ns": NEVER if status == Status.INFO else back,
                "call_index": 2 * at,
                "return_index": NONE if status == Status.INFO else 2 * at + 1,
                "fence": random.choice((MISSING, 3, 4)),
                "ttl_ns": random.choice((MISSING, 20, 30)),
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    return Operations.build(len(rows), NAMES, **columns)


def listed(columns: OpColumns) -> list[tuple[int, ...]]:
    assert [str(column.dtype) for column in (columns.kind, columns.process, columns.key)] == [
        *("int8", "int32", "int32")
    ]
    assert columns.call_index is not None
    assert columns.return_index is not None
    fields = (columns.row, columns.kind, columns.process, columns.key, columns.called, columns.returned)
    more = (columns.fence, columns.call_index, columns.return_index)
    assert {field.dtype for field in (columns.row, columns.called, columns.returned, *more)} == {
        np.dtype(np.int64)
    }
    return list(zip(*(field.tolist() for field in (*fields, *more)), strict=True))


@pytest.mark.parametrize("epsilon", [0, 3])
@pytest.mark.parametrize("kinds", [tuple(F), (F.ACQUIRE, F.RELEASE)])
def test_acquires_and_releases_of_a_table(kinds: tuple[F, ...], epsilon: int) -> None:
    for number in range(150):
        ops = table(number, kinds)
        expected = []
        for row in range(len(ops)):
            f, status = ops.f[row], ops.status[row]
            refused = status == Status.FAIL and f == F.ACQUIRE and ops.name("error", row) in ("held", "late")
            if f not in (F.ACQUIRE, F.RELEASE) or (status == Status.FAIL and not refused):
                continue
            kind = REFUSED if refused else ACQUIRE if f == F.ACQUIRE else RELEASE
            known = status != Status.INFO
            back = int(ops.return_ns[row]) + (epsilon + 1 if epsilon else 0) if known else NEVER
            fence = int(ops.fence[row]) if known else MISSING
            key = 2 if ops.key[row] == NONE else int(ops.key[row])
            call, index = int(ops.call_ns[row]) - epsilon, int(ops.call_index[row])
            expected.append(
                (row, kind, int(ops.process[row]), key, call, back, fence, index, int(ops.return_index[row]))
            )
        assert listed(lock_columns(ops, ("held", "late"), epsilon)) == expected, number
        without = [one for one in expected if one[1] != REFUSED]
        assert listed(lock_columns(ops, epsilon_ns=epsilon)) == without, number


def test_what_a_register_was_asked() -> None:
    for number in range(200):
        ops = table(number)
        rows = np.flatnonzero(ops.key == 0)
        stamps = sorted(
            [(int(ops.call_ns[r]), int(ops.call_index[r])) for r in rows]
            + [(int(ops.return_ns[r]), int(ops.return_index[r])) for r in rows if ops.return_ns[r] != NEVER]
        )
        found = register_ops(ops, rows)
        expected = []
        for row in rows.tolist():
            f, status = F(int(ops.f[row])), Status(int(ops.status[row]))
            name = f.name.lower()
            if status == Status.FAIL:
                name = "refused cas" if f == F.CAS and ops.name("error", row) == "mismatch" else ""
            if f not in (F.READ, F.WRITE, F.CAS) or (f == F.READ and status == Status.INFO) or not name:
                continue
            expected.append((row, name, int(ops.process[row]), ops.name("value", row)))
        assert [(op.row, op.f, op.process, op.value) for op in found] == expected, number
        assert all(isinstance(op, Op) for op in found)
        ends = sorted(
            end
            for op in found
            for end in ((op.called, "call", op.row), (op.returned, "return", op.row))
            if end[0] != NEVER
        )
        by_time = [
            (int(ops.call_ns[r] if what == "call" else ops.return_ns[r]), what, r) for _, what, r in ends
        ]
        index = {
            (what, r): int(ops.call_index[r] if what == "call" else ops.return_index[r])
            for _, what, r in ends
        }
        assert [stamps.index((time_ns, index[what, r])) for time_ns, what, r in by_time] == sorted(
            stamps.index((time_ns, index[what, r])) for time_ns, what, r in by_time
        ), number


def sure(ops: Operations, row: int, delta: int) -> bool:
    """Whether the lease of an acquire was surely released before it could end by itself (TTL/3 may err)."""
    if ops.status[row] != Status.OK or ops.ttl_ns[row] == MISSING:
        return False
    mine = [
        r
        for r in range(row + 1, len(ops))
        if ops.f[r] in (F.ACQUIRE, F.RELEASE, F.EXTEND)
        and (ops.f[r] != F.ACQUIRE or ops.status[r] != Status.FAIL)
        and ops.process[r] == ops.process[row]
        and ops.key[r] == ops.key[row]
    ]
    if not mine or ops.f[mine[0]] != F.RELEASE or ops.status[mine[0]] == Status.FAIL:
        return False
    lasts = int(ops.ttl_ns[row]) // 2 - delta  # TTL⁻ with ρ = 1/3
    return bool(ops.call_ns[mine[0]] <= ops.call_ns[row] + lasts)


@pytest.mark.parametrize("delta", [0, 5])
def test_which_leases_may_end_by_themselves(delta: int) -> None:
    seen = set()
    for number in range(400):
        ops = table(number, (F.ACQUIRE, F.ACQUIRE, F.RELEASE, F.RELEASE, F.EXTEND, F.HELD))
        found = may_end_by_itself(ops, 3, 1 / 3, delta)
        expected = [False] * 3
        for row in ops.rows(F.ACQUIRE).tolist():
            if ops.status[row] != Status.FAIL and not sure(ops, row, delta):
                expected[int(ops.key[row])] = True  # the code of an absent key is the last
        assert found.tolist() == expected, number
        seen.add(tuple(expected))
    assert len(seen) == 8


@pytest.mark.parametrize(("epsilon", "left"), [(0, 2), (4, 2), (5, 0), (6, 0)])
def test_a_session_within_the_uncertainty_claims_nothing(epsilon: int, left: int) -> None:
    builder = HistoryBuilder(model="owner-mutex")
    builder.op("a", "acquire", 0, 10e-6).op("a", "release", 20e-6, 30e-6)
    ops = builder.history().ops
    assert len(without_empty_cores(lock_columns(ops, (), epsilon), ops, epsilon)) == left


def test_what_a_session_without_an_instant_takes_with_it() -> None:
    """The refusals on its key, and in the next round the session that it parted."""
    builder = HistoryBuilder(model="owner-mutex", refusals=["held"])
    for key in "kl":
        builder.op(f"b{key}", "acquire", 1e-6, 5e-6, "fail", error="held", key=key)
    builder.op("a", "acquire", 10e-6, 20e-6, "info", key="k").op("c", "acquire", 40e-6, 50e-6, key="k")
    builder.op("c", "release", 51e-6, 60e-6, key="k").op("a", "release", 70e-6, 80e-6, key="l")
    ops = builder.history().ops
    kept = without_empty_cores(lock_columns(ops, ("held",), 2), ops, 2)
    assert kept.call_index is None
    assert [(ops.name("process", r), ops.name("key", r)) for r in kept.row.tolist()] == [
        ("bl", "l"),
        ("a", "k"),
        ("a", "l"),
    ]
