"""Which processes may go on for the client of another, and what that leaves open: against plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from checker import check
from checker.history.evidence import Evidence
from checker.history.grants import with_grants
from checker.history.history import History
from checker.history.identity import acquires_by_grant, unknown_grants
from checker.history.operations import MISSING, NEVER, NONE, F, Names, Operations, Status
from checker.history.renaming import Renaming, open_ends, renaming
from tests.unit.checker.builder import HistoryBuilder

PROCESSES = ("0", "1", "2", "worker-3", "worker-4", "alice", "alice/1")
CLIENTS = ("0", "1", "2", "worker-3", "worker-4", "alice")


def table(number: int) -> Operations:
    """A few operations on one or two locks, as processes with and without clients call them."""
    random = Random(number)
    n, keys, named = (
        random.choice((0, 2, 4, 7)),
        random.choice((1, 1, 2)),
        random.choice((0.0, 0.0, 0.5, 0.9)),
    )
    cast = random.sample(range(len(PROCESSES)), random.choice((1, 2, 3)))
    client = {p: random.choice((NONE, min(p, 5), random.randrange(6))) for p in cast}
    threads = [0, 1]
    if numbered := random.random() < 0.7:  # a process that ended with an unknown outcome gets the next number
        client = {p: random.choice((NONE, p)) for p in range(5)}
    rows: list[dict[str, Any]] = []
    for at in range(n):
        f = random.choice((F.ACQUIRE, F.ACQUIRE, F.RELEASE, F.RELEASE, F.EXTEND))
        status = random.choice((Status.OK, Status.OK, Status.FAIL, Status.INFO, Status.INFO))
        grant, process = at if f == F.ACQUIRE else random.randrange(n), random.choice(cast)
        if numbered:
            process = random.choice(threads)
            if status == Status.INFO and max(threads) < 4:
                threads[threads.index(process)] = max(threads) + 1
        done = status != Status.INFO or random.random() < 0.5
        rows.append(
            {
                "f": f,
                "status": status,
                "process": process,
                "client": client[process],
                "key": random.randrange(keys) if random.random() < 0.9 else NONE,
                "grant": grant if random.random() < named else NONE,
                "ttl_ns": random.choice((MISSING, MISSING, 5)),
                "call_ns": 2 * at + random.choice((0, 0, 2)),
                "call_index": 2 * at,
                "return_index": 2 * at + 1 if done else NONE,
            }
        )
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    names = Names(process=PROCESSES, client=CLIENTS, key=("k", "l"), grant=tuple(f"g{i}" for i in range(n)))
    return Operations.build(n, names, **columns)


@dataclass
class Loops:
    """What the module says, by loops: `begins` and `retired` by process name."""

    ops: Operations

    def rows(self, process: int) -> list[int]:
        return np.flatnonzero(self.ops.process == process).tolist()

    def is_stated(self, process: int) -> bool:
        """Whether the record says whose process it is."""
        client = int(self.ops.client[self.rows(process)[-1]])
        others = [p for p in self.used() if p != process and self.ops.client[self.rows(p)[-1]] == client]
        if client != NONE and others:
            return True
        name = PROCESSES[process]
        return not name[-1:].isdigit() or (client != NONE and CLIENTS[client] != name)

    def used(self) -> list[int]:
        return sorted(set(self.ops.process.tolist()))

    def begins(self, process: int) -> int:
        return NONE if self.is_stated(process) else int(self.ops.call_index[self.rows(process)[0]])

    def retired(self, process: int) -> int:
        last = self.rows(process)[-1]
        if self.is_stated(process) or self.ops.status[last] != Status.INFO:
            return NEVER
        back = int(self.ops.return_index[last])
        return int(self.ops.call_index[last]) if back == NONE else back

    def goes_on(self, later: int, earlier: int) -> bool:
        """Whether the process of a row may go on for that of another."""
        return self.begins(int(self.ops.process[later])) > self.retired(int(self.ops.process[earlier]))

    def anybody(self) -> bool:
        return any(self.begins(p) > self.retired(q) for p in self.used() for q in self.used())


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_who_goes_on_for_whom(first: int) -> None:
    for number in range(first, first + 100):
        ops = table(number)
        found, loops = renaming(ops), Loops(ops)
        assert (found is not None) == loops.anybody(), number
        for process in loops.used() if found else ():
            assert found is not None
            assert found.begins[process] == loops.begins(process), number
            assert found.retired[process] == loops.retired(process), number


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_from_when_on_a_grant_may_be_gone(first: int) -> None:
    for number in range(first, first + 100):
        raw = table(number)
        ops, loops = with_grants(raw), Loops(raw)
        acquires = ops.rows(F.ACQUIRE)
        ends, by = open_ends(raw, ops, acquires)
        for at, row in enumerate(acquires.tolist()):
            assert (ends[at], by[at]) == opened(raw, ops, loops, row), (number, row)


def opened(raw: Operations, ops: Operations, loops: Loops, acquire: int) -> tuple[int, int]:
    """When and by which row a grant may be undone, whoever its client is."""
    found = NEVER, NONE
    unknown = unknown_grants(raw)
    bare = [
        row
        for row in range(len(raw))
        if raw.f[row] in (F.RELEASE, F.EXTEND)
        and (raw.grant[row] == NONE or (raw.f[row] == F.RELEASE and unknown[row]))
    ]
    same = [row for row in bare if ops.key[row] == ops.key[acquire]]
    following = [row for row in same if loops.goes_on(row, acquire)]
    if following:
        first = min(following, key=lambda row: int(ops.call_ns[row]))
        found = int(ops.call_ns[first]), first
    for row in same:
        again = ops.client[row] == ops.client[acquire] and ops.call_index[acquire] > ops.call_index[row]
        if is_late(ops, row) and (again or loops.goes_on(acquire, row)):
            found = int(ops.call_ns[acquire]), row
    return found


def is_late(ops: Operations, row: int) -> bool:
    """Whether a release or an extension may take effect later than it was called."""
    if ops.status[row] != Status.INFO:
        return False
    taken = int(acquires_by_grant(ops)[ops.grant[row]])
    session = taken != NONE and ops.status[taken] == Status.OK and ops.ttl_ns[taken] == MISSING
    releases = [at for at in ops.rows(F.RELEASE).tolist() if ops.grant[at] == ops.grant[row]]
    return not (session and ops.f[row] == F.RELEASE and releases[0] == row)


def test_nobody_goes_on_where_processes_are_not_known() -> None:
    nobody = Operations.build(2, f=[F.ACQUIRE] * 2, status=[Status.INFO] * 2)
    assert renaming(nobody) is None
    assert renaming(Operations.build(0)) is None


def test_the_first_call_of_a_successor() -> None:
    """Operations of processes 1 and 2, which began at 5 and 9, and may go on for 0, which retired at 7."""
    renamed = Renaming(np.array([0, 5, 9]), np.array([7, NEVER, NEVER]))
    process, key, call_ns = [1, 2, 2, 2], [0, 0, 0, 1], [10, 30, 20, 15]
    ops = Operations.build(4, f=[F.RELEASE] * 4, process=process, key=key, call_ns=call_ns)
    earlier = Operations.build(3, f=[F.ACQUIRE] * 3, process=[0, 0, 1], key=[0, -1, 0])
    together = Operations.build(
        7,
        f=[*ops.f, *earlier.f],
        process=[*process, 0, 0, 1],
        key=[*key, 0, -1, 0],
        call_ns=[*call_ns, 0, 0, 0],
    )
    assert renamed.successors_ns(together, np.arange(4), np.arange(4, 7)).tolist() == [20, NEVER, NEVER]


HINT = "Record the client, or the grant_id, of every operation"


def numbered(builder: HistoryBuilder) -> History:
    """The history of a history whose processes are numbers, without clients and grants."""
    events = [replace(e, client=None, grant_id=None) for e in builder.events()]
    return History.from_events(events, builder.params)


def why(builder: HistoryBuilder) -> str | None:
    return Evidence(numbered(builder)).open_why()


def test_what_is_said_of_a_process_that_may_be_another() -> None:
    builder = HistoryBuilder().acquire("0", "", 10, 20).acquire("1", "", 30, 40, "info")
    assert why(builder) is None
    assert why(builder.extend("2", "", 50, 60)) == (
        "process 2 extended 'k' at 40 ms, and may be the client of process 1 under a new name: 1 used it "
        f"before, its last operation, at 20 ms, has an unknown outcome, and the record names neither clients "
        f"nor grants. {HINT}"
    )
    read = (
        HistoryBuilder()
        .acquire("0", "", 10, 20, key=None)
        .read("0", None, 25, 26, 1)
        .op("0", "held", 30, 40, "info")
    )
    read.op("1", "held", 45, 46).release("2", "", 50, 60, key=None)
    assert why(read) == (
        "process 2 released the lock at 40 ms, and may be the client of process 0 under a new name: 0 used "
        "it before, its last operation, at 20 ms, has an unknown outcome, and the record names neither "
        f"clients nor grants. {HINT}"
    )


def test_what_is_said_of_a_release_that_may_take_effect_late() -> None:
    builder = HistoryBuilder().release("alice", "", 10, 20, "info").acquire("alice/1", "", 30, 40)
    assert why(builder) == (
        "process alice released 'k' at 0.00 s without naming a grant and with an unknown outcome: that may "
        f"have ended any later grant of the same client. {HINT}"
    )


def test_a_grant_that_may_have_been_released_later_was_held_until_then() -> None:
    builder = HistoryBuilder(model="lease").acquire("0", "", 0, 10, ttl=None).op("0", "held", 20, 30, "info")
    builder.acquire("1", "", 40, 50, ttl=None).release("2", "", 60, 70)
    (finding,) = check(numbered(builder)).named("overlap")
    assert finding.evidence == (
        "0: guaranteed until 0.06 s (a release or an extension then may have been of it) · "
        "1: acquired at 0.05 s",
    )


def test_what_is_open_is_judged_by_the_model_that_was_asked_for() -> None:
    """Two readers and a writer, if process 2 is none of them; the header names no model."""
    builder = HistoryBuilder()
    for number, (call, value) in enumerate(((0, "read"), (40, "write"))):
        builder.op(str(number), "acquire", call, call + 10, asked={"value": value})
        builder.op(str(number), "held", call + 20, call + 25, "info")
    builder.release("2", "", 30, 35)
    verdict = check(numbered(builder), model="read-write-lock")["mutual_exclusion"]
    assert verdict.outcome == "unknown"
    assert "may be the client of process 0" in verdict.why
