"""Grants, their owners, and the threads of clients, against plain loops; and tables built by hand."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from checker.errors import HistoryError
from checker.history.arrays import both
from checker.history.events import Event
from checker.history.grants import grants_of, unnamed_releases, with_grants
from checker.history.history import History
from checker.history.identity import acquires_by_grant, origins, owners, threaded, unknown_grants
from checker.history.operations import COLUMNS, MISSING, NEVER, NONE, F, Names, Operations, Status
from checker.history.pairing import _each, client_of, unknown_kind
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.checker.test_renaming import table

EACH_HUNDRED = pytest.mark.parametrize("first", range(0, 200, 100))


@EACH_HUNDRED
def test_whose_an_operation_is(first: int) -> None:
    for ops in map(table, range(first, first + 100)):
        made = acquires_by_grant(ops).tolist()
        unknown, origin, owner = (f(ops).tolist() for f in (unknown_grants, origins, owners))
        for row in range(len(ops)):
            grant = int(ops.grant[row])
            asked = [a for a in ops.rows(F.ACQUIRE).tolist() if grant != NONE and ops.grant[a] == grant]
            granted = [a for a in asked if ops.status[a] != Status.FAIL]
            assert made[grant] == (granted[0] if granted else NONE)
            assert unknown[row] == (grant != NONE and not asked)
            first_row = granted[0] if granted else asked[-1] if asked else row
            assert origin[row] == first_row
            client = int(ops.client[first_row])
            assert owner[row] == (
                client if client != NONE else len(ops.names.client) + ops.process[first_row]
            )
        assert owners(ops).dtype == np.int32


@EACH_HUNDRED
def test_which_clients_have_several_threads(first: int) -> None:
    for ops in map(table, range(first, first + 100)):
        found = threaded(ops)
        for client in set(ops.client.tolist()):
            mine = ops.process[ops.client == client].tolist()
            turns = [one for at, one in enumerate(mine) if at == 0 or mine[at - 1] != one]
            assert bool(found[client]) == (client != NONE and len(turns) > len(set(turns))) or client == NONE


@EACH_HUNDRED
def test_what_is_about_the_last_acquire_of_its_process_or_client(first: int) -> None:
    for number in range(first, first + 100):
        ops = table(number)
        named = with_grants(ops)
        acquires = [r for r in ops.rows(F.ACQUIRE).tolist() if ops.status[r] != Status.FAIL]
        fresh = [r for r in acquires if ops.grant[r] == NONE]
        threads = threaded(ops)
        for row in range(len(ops)):
            if ops.grant[row] != NONE:
                assert named.grant[row] == ops.grant[row]
                continue
            if row in fresh:
                assert named.names.grant[named.grant[row]] == f"grant {fresh.index(row) + 1}"
                continue
            last = [NONE]
            if ops.f[row] != F.ACQUIRE:
                before = [a for a in acquires if a < row and ops.key[a] == ops.key[row]]
                last += [a for a in before if ops.process[a] == ops.process[row]]
                if last == [NONE] and ops.client[row] != NONE and not threads[ops.client[row]]:
                    last += [a for a in before if ops.client[a] == ops.client[row]]
            assert named.grant[row] == (NONE if last[-1] == NONE else named.grant[last[-1]]), (number, row)


@EACH_HUNDRED
def test_a_release_of_no_known_grant_may_end_all_of_its_client(first: int) -> None:
    for ops in map(table, range(first, first + 100)):
        unnamed, named = unnamed_releases(ops), with_grants(ops)
        unknown = unknown_grants(ops)
        assert unnamed.tolist() == [
            r for r in ops.rows(F.RELEASE).tolist() if ops.grant[r] == NONE or unknown[r]
        ]
        grants, without = grants_of(named, unnamed), grants_of(named)
        for g, row in enumerate(grants.row.tolist()):
            calls = [
                int(ops.call_ns[r])
                for r in unnamed.tolist()
                if ops.client[r] == ops.client[row] != NONE
                and ops.key[r] == ops.key[row]
                and ops.call_ns[r] > ops.call_ns[row]
            ]
            assert grants.release_call_ns[g] == min([*calls, int(without.release_call_ns[g])])


def test_two_codes_as_one_number() -> None:
    one, other = np.array([0, 0, 1, 1, 2, -1, 0]), np.array([-1, 0, -1, 1, 0, 1, -1], np.int32)
    numbers = both(one, other).tolist()
    pairs = list(zip(one.tolist(), other.tolist(), strict=True))
    assert [numbers.index(n) for n in numbers] == [pairs.index(p) for p in pairs]
    assert both(one[:0], other[:0]).tolist() == []
    large = np.array([2**31 - 1], np.int32)
    assert both(large, large - 1).tolist() == [2**62 - 1]


# -- tables built by hand ------------------------------------------------------------------------------------


def test_the_columns_are_the_fields_of_the_table() -> None:
    assert list(COLUMNS) == [field.name for field in fields(Operations) if field.name != "names"]


def test_what_a_table_says_where_nothing_is_given() -> None:
    ops = Operations.build(2)
    codes = dict.fromkeys(("process", "client", "key", "grant", "token", "value", "error"), NONE)
    numbers = dict.fromkeys(
        ("fence", "ttl_ns", "claimed_ns", "attempt_ns", "deadline_ns", "wait_ns", "refused_by"), MISSING
    )
    versions = {"version_read": MISSING, "version_written": MISSING}
    stamps = {"call_ns": 0, "return_ns": NEVER, "info_ns": NEVER, "return_index": NONE}
    absent = {"f": 0, "status": 0, **codes, **numbers, **versions, **stamps}
    assert {name: getattr(ops, name).tolist() for name in COLUMNS} == {
        **{name: [value] * 2 for name, value in absent.items()},
        "call_index": [0, 2],
    }
    types = {name: getattr(ops, name).dtype for name in COLUMNS}
    assert types == {
        name: np.int8 if name in ("f", "status") else np.int32 if name in codes else np.int64
        for name in COLUMNS
    }
    assert ops.names == Names()
    assert ops.name("key", 0) is None


def test_rows_of_a_kind() -> None:
    ops = Operations.build(3, f=[F.READ, F.WRITE, F.READ], status=[Status.OK, Status.OK, Status.INFO])
    assert ops.rows(F.READ).tolist() == [0, 2]
    assert ops.rows(F.READ, Status.OK).tolist() == [0]
    assert ops.take(np.array([2, 0])).f.tolist() == [F.READ] * 2


# -- pairing -------------------------------------------------------------------------------------------------


def test_the_client_of_a_process() -> None:
    assert [client_of("alice"), client_of("alice/2"), client_of("a/b/2"), client_of("7", "bob")] == [
        *("alice", "alice", "a", "bob")
    ]
    history = HistoryBuilder().acquire("alice", "g", 0, 1, "info").history()
    assert history.ops.name("client", 0) == "alice"


@pytest.mark.parametrize("rows", [10, 200_000, 200_001])
def test_work_on_columns_by_one_thread_or_two(rows: int) -> None:
    assert _each(str.upper, ["a", "b", "c"], rows) == ["A", "B", "C"]
    with pytest.raises(ZeroDivisionError):
        _each(lambda name: 1 // len(name), ["a", "", "c"], rows)


def test_an_unknown_kind_is_named_with_the_nearest() -> None:
    assert str(unknown_kind("aquire", 3)) == (
        "field 'f': saw 'aquire', expected one of acquire, extend, release, held, read, write, cas or stall "
        "(event 3)\nhint: did you mean 'acquire'?"
    )
    assert unknown_kind("xyz", 3).hint is None
    assert unknown_kind("stal", 3).hint == "did you mean 'stall'?"


def test_a_grant_that_is_made_twice_or_thrice_is_named_with_its_first_acquire() -> None:
    builder = HistoryBuilder().acquire("alice", "f", 0, 1)
    for at, who in enumerate(("alice", "bob", "carol"), 1):
        builder.acquire(who, "g", 10 * at, 10 * at + 1)
    with pytest.raises(HistoryError) as caught:
        builder.history()
    assert str(caught.value) == (
        "field 'grant_id': saw 'g' again, the grant of the acquire in event 2: bob acquire (event 4)\n"
        "hint: give every acquire a grant_id of its own, and repeat it on what is done with that grant"
    )


def test_a_grant_of_another_key_is_named_with_both() -> None:
    builder = HistoryBuilder().acquire("alice", "f", 0, 1, key="j").acquire("alice", "g", 10, 11, key="l")
    builder.acquire("bob", "h", 12, 13, key="k").release("alice", "g", 20, 21, key="k")
    with pytest.raises(HistoryError) as caught:
        builder.release("carol", "f", 30, 31, key="k").history()
    assert caught.value.problem == (
        "this grant is of another key: saw 'k', its acquire is of 'l': alice release (event 6)"
    )


def test_only_what_is_done_with_a_lock_needs_its_key() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 1).release("alice", "g", 2, 3, key=None)
    builder.op("bob", "release", 4, 5, "fail", key=None)
    builder.read("bob", None, 6, 7, 0).op("bob", "read", 8, 9, key=None)
    assert builder.history().ops.key.tolist() == [0, 0, NONE, 0, NONE]
    with pytest.raises(HistoryError, match="is absent, as is grant_id"):
        builder.op("bob", "release", 10, 11, key=None).history()


def test_no_stall_is_an_operation() -> None:
    stall = Event(time_ns=1, process="alice", type="info", f="stall")
    assert len(History.from_events([stall]).ops) == 0
