"""Reads and writes in the order of versions, and what contradicts it: against plain loops."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from checker.history.accesses import Accesses, accesses_of, contradictions
from checker.history.evidence import Evidence
from checker.history.operations import MISSING
from tests.unit.checker.builder import MS, HistoryBuilder

Pair = tuple[int, int, str]


def drawn(number: int) -> Accesses:
    """A few accesses of one or two keys, in the order of versions; many of their times are equal."""
    random = Random(number)
    rows = []
    for row in range(random.choice((0, 1, 3, 6, 9))):
        write, call, version = random.random() < 0.7, random.randrange(12), random.randrange(1, 5)
        based = random.choice((MISSING, version - 1, version - 1, version, random.randrange(6)))
        key, done = random.randrange(random.choice((1, 2))), call + random.randrange(4)
        rows.append(
            (key, 2 * version + (not write), row, call, done, write, version, based if write else MISSING)
        )
    rows.sort()
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [
        np.empty(0, np.int64)
    ] * 8
    keys, _, row_, call_ns, done_ns, writes, versions, bases = columns
    return Accesses(row_, keys.astype(np.int32), call_ns, done_ns, writes != 0, versions, bases)


def by_loops(a: Accesses, epsilon: int, explained: np.ndarray) -> list[Pair]:
    """All contradictions: real time, what was replaced, what was based on a later version."""
    n, place = range(len(a)), a.position.tolist()
    late: list[tuple[int, Pair]] = []
    for x in n:
        before = [
            y
            for y in n
            if a.key[y] == a.key[x] and a.done_ns[y] < a.call_ns[x] - 2 * epsilon and place[y] > place[x]
        ]
        if before and not explained[x]:
            worst = max(before, key=lambda y: (place[y], -y))
            late.append((place[worst] - place[x], (worst, x, "real-time")))
    writes = [x for x in n if a.write[x]]
    replaced = [
        (x, y, "rw")
        for y, x in pairwise(writes)
        if a.key[x] == a.key[y] and MISSING < a.based_on[x] < a.version[y] and not explained[[x, y]].any()
    ]
    ahead = []
    for x in writes:
        origin = [y for y in writes if a.key[y] == a.key[x] and a.version[y] == a.based_on[x]]
        if origin and a.based_on[x] > a.version[x] and not explained[[origin[0], x]].any():
            ahead.append((origin[0], x, "wr"))
    return [pair for _, pair in sorted(late, key=lambda one: one[0])] + replaced + ahead


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_contradictions_against_loops(first: int) -> None:
    for number in range(first, first + 200):
        accesses, random = drawn(number), Random(number)
        explained = np.array([random.random() < 0.2 for _ in range(len(accesses))], np.bool_)
        for epsilon in (0, 1):
            for mask in (explained, None):
                known = mask if mask is not None else np.zeros(len(accesses), np.bool_)
                wanted = by_loops(accesses, epsilon, known)
                for limit in (100, 1, 2):
                    found = contradictions(accesses, epsilon, limit, mask)
                    pairs = zip(found.first.tolist(), found.second.tolist(), found.kind, strict=True)
                    assert list(pairs) == wanted[:limit], number
                    assert found.count == len(wanted)


def test_which_accesses_count() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 1)
    builder.write("alice", "g", 2, 3, 0, 1).write("alice", "g", 4, 5, None, None)
    builder.write("alice/1", "g", 6, 7, 5, 9, "fail").write(
        "alice/2", "g", 8, 9, 5, 9, "info", value="unseen"
    )
    builder.write("alice/3", "g", 10, 11, 1, None, "info", value="seen")
    builder.read("bob", None, 12, 13, 2, value="seen").op("bob", "read", 14, 15)
    builder.op("bob", "read", 16, 17, "fail", version_read=7).op(
        "bob", "read", 18, 19, "info", version_read=7
    )
    found = accesses_of(Evidence(builder.history()))
    rows = zip(
        *(getattr(found, name).tolist() for name in ("row", "write", "version", "based_on")),
        (found.call_ns // MS).tolist(),
        (found.done_ns // MS).tolist(),
        strict=True,
    )
    assert list(rows) == [(1, True, 1, 0, 2, 3), (5, True, 2, 1, 10, 13), (6, False, 2, MISSING, 12, 13)]
    assert found.position.tolist() == [2, 4, 5]


def test_a_client_knows_its_own_earlier_writes_under_the_same_grant() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g", 0, 1)
        .acquire("bob", "h", 0, 1, key="l")
        .acquire("carol", "i", 0, 1)
    )
    builder.write("alice", "g", 2, 3, 0, 4).write("alice", "g", 4, 5, 0, 5).write("alice", "g", 6, 7, 9, 10)
    builder.write("alice", "g", 8, 9, None, 11).write("carol", "i", 8, 9, 0, 6).write(
        "dave", None, 9, 10, 0, 7
    )
    builder.write("dave", None, 11, 12, 0, 8).write("bob", "h", 13, 14, 0, 12, key="l")
    builder.write("bob", "h", 15, 16, 0, 12, key="l")
    evidence = Evidence(builder.history())
    assert evidence.based_on.tolist() == [0, 4, 9, MISSING, 0, 0, 0, 0, 12]


def test_a_log_of_the_store_shows_that_an_unsure_grant_was_made() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g", 0, 1)
        .acquire("bob", "h", 10, 20, "info")
        .acquire("carol", "i", 11, 21, "info")
    )
    entries = [(1, "x", "g", None), (2, "y", "i", None), (3, "z", None, None), (4, "z", "other", None)]
    grants = Evidence(builder.lab("log", 40, key="k", entries=entries).history()).grants
    assert (grants.held.tolist(), grants.returned.tolist()) == ([True, False, True], [True, False, False])
    assert grants.acquired_ns[[0, 2]].tolist() == [MS, 40 * MS]


def test_a_write_shows_that_an_unsure_grant_was_made_and_moves_no_other() -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g", 0, 50, token="a")
        .acquire("bob", "h", 10, 20, "info", token="b")
    )
    builder.acquire("carol", "i", 11, 21, "info", token="c").acquire(
        "dave", "j", 12, 22, "info", key="l", token="d"
    )
    builder.write("alice/1", "g", 30, 31, None, 1, token="a")  # before her acquire returned
    builder.write("bob/1", "h", 32, 33, None, 2, token="b").write("bob/1", "h", 34, 35, None, 3, token="b")
    builder.write("eve", None, 36, 37, None, 4, token="c").write("eve", None, 38, 39, None, 5, token="d")
    builder.write("eve", None, 40, 41, None, 6)
    grants = Evidence(builder.history()).grants
    assert grants.held.tolist() == [True, True, True, False]
    assert grants.acquired_ns[:3].tolist() == [50 * MS, 33 * MS, 37 * MS]


@pytest.mark.parametrize("version", [None, 7])
def test_a_write_of_unknown_outcome_counts_from_when_it_was_first_seen(version: int | None) -> None:
    builder = (
        HistoryBuilder()
        .acquire("alice", "g", 0, 1)
        .write("alice", "g", 2, 3, None, version, "info", value="x")
    )
    builder.write("bob", None, 2, 3, None, None, "info", value="x", key="l")
    assert not len(Evidence(builder.history()).writes)
    builder.read("carol", None, 20, 30, 4, value="x").read("dave", None, 5, 25, 3, value="x")
    builder.lab("read", 27, key="k", version_read=5, value="x").lab("read", 28, key="l", value="y")
    builder.lab("log", 29, key="k", entries=[(6, "x", "g", None), (9, "w", "g", None)])
    builder.lab("phase", 1, key="k", value="x").lab("log", 31, key="k", entries=[(2, ["x"], "g", None)])
    (done,) = Evidence(builder.history()).writes.done_ns.tolist()
    assert done == 25 * MS
    (number,) = Evidence(builder.history()).writes.version_written.tolist()
    assert number == (version or 6)
