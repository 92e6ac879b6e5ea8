"""The test on whole arrays: what it accepts the scans accept, and sessions that take turns it does accept."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checker.history.operations import NEVER
from checker.linearizability import check_linearizability, owned, unowned
from checker.linearizability.columns import ACQUIRE, NO_FENCE, RELEASE, OpColumns
from checker.linearizability.model import owner_mutex
from checker.linearizability.owned import check_owned, keeps_identity, scan_owned
from checker.linearizability.turns import in_turns
from checker.linearizability.unowned import check_unowned, scan_unowned
from tests.fuzz.generator import Shape, draw
from tests.fuzz.linearizability import mutex
from tests.op_columns import op_columns
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.linearizability.pictures import picture
from tests.unit.linearizability.test_linearizability_owned import ACCEPTED, REJECTED

IN_TURNS = frozenset((
    "turns",
    "the next acquire returns after the release was called",
    "an acquire of unknown outcome is left out",
    "a release of unknown outcome ends the core at its call",
    "an acquire without a fence says nothing",
    "the fence of an unknown outcome says nothing",
    "fences grow",
    "fences are not compared unless asked",
))  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts_what_takes_turns_and_leaves_the_rest_undecided(name: str) -> None:
    _, fenced, drawing = ACCEPTED[name]
    assert in_turns(picture(drawing), fenced=fenced).tolist() == [name in IN_TURNS]


@pytest.mark.parametrize("name", REJECTED)
def test_accepts_no_violation(name: str) -> None:
    _, fenced, *_, drawing = REJECTED[name]
    assert in_turns(picture(drawing), fenced=fenced).tolist() == [False]


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_answers_as_the_scan_of_owners_on_drawn_histories(depth: int, fenced: bool) -> None:
    random = Random(f"turns/{depth}/{fenced}")
    accepted = 0
    for _ in range(1_000):
        columns = draw(random, owner_mutex(depth, fenced=fenced), Shape(ops=8, fenced=fenced, release=0.6))
        if not len(columns):
            continue
        scanned = scan_owned(columns, depth=depth, fenced=fenced)
        assert check_owned(columns, depth=depth, fenced=fenced) == scanned, columns
        accepted += bool(in_turns(columns, fenced=fenced).all())
    assert accepted > 30


def test_answers_as_the_scan_without_owners_on_drawn_histories() -> None:
    random = Random("turns/unowned")
    accepted = 0
    for _ in range(1_000):
        columns = draw(random, mutex(), Shape(owned=False))
        if not len(columns):
            continue
        assert check_unowned(columns) == scan_unowned(columns), columns
        accepted += bool(in_turns(columns, owners=False).all())
    assert accepted > 30


@pytest.mark.full
def test_keys_together_are_judged_as_each_alone() -> None:
    random = Random("turns/keys")
    seen = set()
    for _ in range(300):
        shape = Shape(ops=6, fenced=True, release=0.7)
        some = [draw(random, owner_mutex(1, fenced=True), shape) for _ in range(3)]
        some = [_falling(columns, random) for columns in some if len(columns)]
        if not some:
            continue
        whole = together(some)
        found = in_turns(whole, fenced=True).tolist()
        assert found == [bool(in_turns(columns, fenced=True)[0]) for columns in some], some
        reasons = [(v.key, v.reason) for v in check_owned(whole, depth=1, fenced=True)]
        alone = [scan_owned(columns, depth=1, fenced=True) for columns in some]
        assert sorted(reasons) == [(key, v.reason) for key, them in enumerate(alone) for v in them], some
        seen.add(tuple(found))
    assert len(seen) == 8


def _falling(columns: OpColumns, random: Random) -> OpColumns:
    """One in three with fences that fall where they grew."""
    falls = (columns.fence != NO_FENCE) & (random.random() < 1 / 3)
    return replace(columns, fence=np.where(falls, -columns.fence, columns.fence))


def together(some: list[OpColumns]) -> OpColumns:
    """Locks of one key each, as those of several keys at the same time."""
    parts = [
        replace(
            columns,
            key=columns.key + key,
            called=columns.called * len(some) + key,
            returned=np.where(columns.certain, columns.returned * len(some) + key, NEVER),
        )
        for key, columns in enumerate(some)
    ]
    names = ("kind", "process", "key", "called", "returned", "fence")
    return op_columns(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def test_what_takes_turns_is_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((owned, "scan_owned"), (unowned, "scan_unowned")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("scanned"))
    columns = op_columns([ACQUIRE, RELEASE, ACQUIRE], [0, 0, 1], [0, 20, 40], [10, 30, 50])
    assert check_owned(columns, depth=1, fenced=False) == check_unowned(columns) == []
    assert check_unowned(replace(columns, process=np.array([0, 1, 2], np.int32))) == []


def timed(random: Random, columns: OpColumns, span: int) -> OpColumns:
    """The same operations with times for ranks, of which many are equal."""
    ranks = sorted({*columns.called.tolist(), *columns.returned[columns.certain].tolist()})
    times = sorted(random.randrange(span) for _ in ranks)
    time_of = dict(zip(ranks, times, strict=True)) | {NEVER: NEVER}
    return replace(
        columns,
        called=np.array([time_of[x] for x in columns.called.tolist()]),
        returned=np.array([time_of[x] for x in columns.returned.tolist()]),
        call_index=columns.called,
        return_index=np.where(columns.certain, columns.returned, -1),
    )


@pytest.mark.full
@pytest.mark.parametrize("fenced", [False, True])
def test_equal_times_are_ordered_by_position(fenced: bool) -> None:
    random = Random(f"ties/{fenced}")
    accepted = 0
    for _ in range(1_000):
        columns = draw(random, owner_mutex(fenced=fenced), Shape(ops=8, fenced=fenced, refused=0.0))
        if not len(columns):
            continue
        tied = timed(random, columns, 4)
        assert in_turns(tied, fenced=fenced).tolist() == in_turns(columns, fenced=fenced).tolist(), tied
        assert check_owned(tied, fenced=fenced) == check_owned(columns, fenced=fenced), tied
        assert keeps_identity(tied).tolist() == keeps_identity(columns).tolist()
        accepted += bool(in_turns(tied, fenced=fenced).all())
    assert accepted > 30


def test_each_key_is_decided_alone() -> None:
    kinds = [ACQUIRE, RELEASE] * 4
    processes, keys = [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 1, 1, 2, 2]
    called, returned = [0, 2, 4, 8, 5, 9, 20, 30], [1, 3, 6, 10, 7, 11, 21, 31]
    columns = op_columns(kinds, processes, called, returned, key=keys)
    assert in_turns(columns).tolist() == [True, False, True]
    assert [(v.key, v.earlier, v.later) for v in check_owned(columns)] == [(1, 2, 4)]


def test_an_operation_may_not_return_at_the_time_of_its_call_and_before_it() -> None:
    at = np.array([5])
    assert len(op_columns([0], [0], at, at, call_index=np.array([0]), return_index=np.array([1]))) == 1
    with pytest.raises(ValueError, match="operation 0 returns"):
        op_columns([0], [0], at, at, call_index=np.array([1]), return_index=np.array([0]))


@pytest.mark.parametrize(("fences", "fine"), [([1, 2, 3], True), ([1, 3, 2], False), ([2, 1, 3], False)])
def test_each_fence_is_greater_than_the_one_before(fences: list[int], fine: bool) -> None:
    fence = [number for one in fences for number in (one, NO_FENCE)]
    stamps = [list(range(start, 120, 20)) for start in (0, 10)]
    columns = op_columns([ACQUIRE, RELEASE] * 3, [0] * 6, *stamps, fence=fence)
    assert in_turns(columns, fenced=True).tolist() == [fine]


def test_what_takes_turns_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its owners do at once: here one goes on after a release of which nobody knows the outcome."""
    looked: list[int] = []

    def note(columns: OpColumns, depth: int, *, fenced: bool) -> np.ndarray:
        looked.append(len(columns))
        return np.zeros(columns.keys, np.bool_)

    monkeypatch.setattr("checker.linearizability.check.to_be_searched", note)
    builder = HistoryBuilder(model="owner-mutex", clients=["alice"])
    builder.acquire("alice", "g1", 0, 10).release("alice", "g1", 20, 30, "info")
    builder.acquire("alice", "g2", 40, 50).release("alice", "g2", 60, 70)
    results = check_linearizability(builder.history().ops, "owner-mutex")
    assert ([result.outcome for result in results], looked) == (["ok"], [0])
