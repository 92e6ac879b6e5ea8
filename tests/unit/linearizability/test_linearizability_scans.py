"""One source, two ways to run it: compiled and interpreted scans answer alike; small inputs compile
nothing."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import numpy as np
import pytest

from checker.history.operations import NEVER
from checker.linearizability import compiled
from checker.linearizability.columns import (
    ACQUIRE,
    NO_FENCE,
    REFUSED,
    RELEASE,
    OpColumns,
    event_order,
    rank_events,
)
from checker.linearizability.model import owner_mutex
from checker.linearizability.owned import check_owned
from checker.linearizability.unowned import check_unowned
from tests.fuzz.generator import Shape, draw
from tests.fuzz.linearizability import mutex
from tests.op_columns import op_columns


def many_keys(keys: int, *, owned: bool, fenced: bool = False) -> OpColumns:
    """As many tiny histories side by side as one table, their events interleaved."""
    random = Random(5)
    model = owner_mutex(2, fenced=fenced) if owned else mutex()
    parts = [draw(random, model, Shape(owned=owned, fenced=fenced)) for _ in range(keys)]

    def spread(ranks: np.ndarray, key: int) -> np.ndarray:
        return np.where(ranks == NEVER, NEVER, np.where(ranks == NEVER, 0, ranks) * keys + key)

    return op_columns(
        np.concatenate([p.kind for p in parts]),
        np.concatenate([p.process for p in parts]),
        np.concatenate([spread(p.called, k) for k, p in enumerate(parts)]),
        np.concatenate([spread(p.returned, k) for k, p in enumerate(parts)]),
        key=np.repeat(np.arange(keys), [len(p) for p in parts]),
        fence=np.concatenate([p.fence for p in parts]),
    )


def test_keys_together_answer_as_keys_apart() -> None:
    table = many_keys(300, owned=True, fenced=True)
    together = {v.key: v for v in check_owned(table, depth=2, fenced=True)}
    apart = {}
    for key in range(300):
        rows = np.flatnonzero(table.key == key)
        for v in check_owned(table.select(rows), depth=2, fenced=True):
            earlier = int(rows[v.earlier]) if v.earlier >= 0 else -1
            apart[key] = (v.reason, earlier, int(rows[v.later]))
    assert {k: (v.reason, v.earlier, v.later) for k, v in together.items()} == apart
    assert 20 < len(apart) < 280


def test_unowned_keys_together_answer_as_keys_apart() -> None:
    table = many_keys(300, owned=False)
    together = {v.key: (v.reason, v.earlier, v.later) for v in check_unowned(table)}
    apart = {}
    for key in range(300):
        rows = np.flatnonzero(table.key == key)
        for v in check_unowned(table.select(rows)):
            earlier = int(rows[v.earlier]) if v.earlier >= 0 else -1
            apart[key] = (v.reason, earlier, int(rows[v.later]))
    assert together == apart
    assert 20 < len(apart) < 280


def test_a_release_under_way_explains_a_refusal_on_every_key() -> None:
    kinds, processes = [ACQUIRE, RELEASE, REFUSED] * 2, [0, 0, 1, 2, 2, 3]
    called, returned = [0, 2, 3, 10, 12, 13], [1, 9, 4, 11, 19, 14]
    assert check_owned(op_columns(kinds, processes, called, returned, key=[0, 0, 0, 1, 1, 1])) == []


@pytest.mark.full
@pytest.mark.skipif(compiled._numba() is None, reason="numba (extra 'scale') is not installed")
@pytest.mark.parametrize("family", ["unowned", "owned", "fenced"])
def test_compiled_and_interpreted_scans_agree(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = many_keys(4000, owned=family != "unowned", fenced=family == "fenced")

    def run() -> list[object]:
        if family == "unowned":
            return list(check_unowned(table))
        return list(check_owned(table, depth=2, fenced=family == "fenced"))

    def limits(least: int) -> None:
        monkeypatch.setattr(compiled, "COMPILE_FROM_OPS", least)
        monkeypatch.setattr(compiled, "COMPILE_FROM_OPS_WHEN_LOADED", least)

    limits(1)
    with_compiler = run()
    limits(10**9)
    assert run() == with_compiler
    assert len(with_compiler) > 500


def test_small_inputs_never_import_the_compiler() -> None:
    code = (
        "import sys; from tests.op_columns import op_columns\n"
        "from checker.linearizability.unowned import check_unowned\n"
        "from checker.linearizability.owned import check_owned\n"
        "ops = op_columns([0, 1] * 9000, [0] * 18000, range(0, 36000, 2), range(1, 36000, 2))\n"
        "assert check_unowned(ops) == check_owned(ops) == []\n"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_compiler_large_inputs_are_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_numba", lambda: None)
    assert not compiled.uses_compiler(10**9)


def test_ranks_follow_time_then_position() -> None:
    call_ns, return_ns = np.array([5, 5, 1]), np.array([5, NEVER, 9])
    called, returned = rank_events(call_ns, np.array([1, 0, 4]), return_ns, np.array([2, -1, 3]))
    assert (called.tolist(), returned.tolist()) == ([2, 1, 0], [3, NEVER, 4])


def test_ranks_of_a_recorder_in_order_are_its_positions() -> None:
    called, returned = rank_events(np.array([1, 1]), np.array([10, 11]), np.array([2, 3]), np.array([12, 15]))
    assert (called.tolist(), returned.tolist()) == ([10, 11], [12, 15])


def test_dense_and_sparse_ranks_give_one_order() -> None:
    dense = op_columns([0, 1, 0], [0, 0, 1], [0, 2, 3], [1, 5, NEVER])
    sparse = op_columns([0, 1, 0], [0, 0, 1], [0, 2 * 10**9, 10**12], [10**6, 10**15, NEVER])
    assert event_order(dense).tolist() == event_order(sparse).tolist() == [0, 1, 2, 4, 3]


def test_two_events_may_not_share_a_rank() -> None:
    with pytest.raises(ValueError, match="share a rank"):
        event_order(op_columns([0, 0], [0, 1], [0, 1], [1, 2]))


def test_columns_of_different_lengths_and_backward_operations_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        op_columns([0, 1], [0, 0], [0, 1], [1, 2], key=[0])
    with pytest.raises(ValueError, match="operation 1 returns"):
        op_columns([0, 1], [0, 0], [0, 3], [1, 2])


def test_the_fence_of_an_unknown_outcome_is_dropped() -> None:
    assert op_columns([0, 0], [0, 1], [0, 1], [NEVER, 2], fence=[3, 4]).fence.tolist() == [NO_FENCE, 4]
