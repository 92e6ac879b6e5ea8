"""Every algorithm against its oracle; the default run judges some 30,000 histories, `linearizability.py`
any number."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checker.history.operations import NEVER
from checker.linearizability.columns import REFUSED, OpColumns
from checker.linearizability.model import owner_mutex
from checker.linearizability.owned import check_owned
from checker.linearizability.unowned import check_unowned
from tests.fuzz.generator import Shape, draw
from tests.fuzz.linearizability import FAMILIES, mutex, run
from tests.fuzzing import examples
from tests.op_columns import op_columns

pytestmark = pytest.mark.full

HISTORIES = 2_500
LEAST_SHARE = 0.05
relaxed = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", FAMILIES)
def test_agrees_with_the_oracle_on_right_and_wrong_histories(name: str) -> None:
    tally = run(name, HISTORIES, seed=0)
    assert tally.disagreements == []
    shares = {"valid": tally.valid / HISTORIES, "invalid": tally.invalid / HISTORIES}
    assert min(shares.values()) >= LEAST_SHARE, shares
    missed = set(FAMILIES[name].reasons) - set(tally.reasons)
    assert not missed, f"no history was rejected for these reasons: {missed}"


@pytest.mark.parametrize("name", FAMILIES)
@relaxed
@given(random=st.randoms(use_true_random=False))
def test_a_smallest_disagreement(name: str, random: Random) -> None:
    (answer, oracle, _), history = FAMILIES[name].judge(random)
    assert answer == oracle, history


# What must not create a violation, on any history that has none.


def widened(random: Random, columns: OpColumns) -> OpColumns:
    """One operation called earlier or returned later, as far as its process leaves room."""
    at = random.randrange(len(columns))
    mine = np.flatnonzero(columns.process == columns.process[at])
    before = [int(columns.returned[i]) for i in mine if columns.called[i] < columns.called[at]]
    after = [int(columns.called[i]) for i in mine if columns.called[i] > columns.called[at]]
    called, returned = columns.called * 4 + 2, np.where(columns.certain, columns.returned * 4 + 2, NEVER)
    low = max(before, default=0) * 4 + 3
    called[at] = random.randrange(low, int(called[at]), 4) if low < called[at] else called[at]
    if columns.certain[at]:
        high = min([*after, 100]) * 4
        returned[at] = (
            random.randrange(int(returned[at]) + 2, high, 4) if high > returned[at] + 2 else returned[at]
        )
    return replace(columns, called=called, returned=returned)


def forgotten(random: Random, columns: OpColumns) -> OpColumns:
    """One answer lost; its process is retired, and goes on under another name if it had more to do."""
    at = random.choice(np.flatnonzero(columns.kind != REFUSED).tolist() or [None])
    if at is None:
        return columns
    returned = columns.returned.copy()
    returned[at] = NEVER
    last = not bool(((columns.process == columns.process[at]) & (columns.called > columns.called[at])).any())
    return replace(columns, returned=returned) if last else columns


def renamed(random: Random, columns: OpColumns) -> OpColumns:
    """Processes under other names."""
    names = list(range(1000))
    random.shuffle(names)
    return replace(columns, process=np.array(names, np.int32)[columns.process])


def moved(random: Random, columns: OpColumns) -> OpColumns:
    """Everything later."""
    by = random.randrange(10**6)
    returned = np.where(columns.certain, columns.returned + by, NEVER)
    return replace(columns, called=columns.called + by, returned=returned)


@pytest.mark.parametrize("change", [widened, forgotten, renamed, moved])
@pytest.mark.parametrize("owned", [False, True])
def test_no_such_change_creates_a_violation(change: object, owned: bool) -> None:
    random = Random(11)
    model, shape = (owner_mutex(), Shape()) if owned else (mutex(), Shape(owned=False))
    check = check_owned if owned else check_unowned
    changed = 0
    for _ in range(1500):
        columns = draw(random, model, shape)
        if not len(columns) or check(columns):
            continue
        other = change(random, columns)  # type: ignore[operator]
        changed += other is not columns
        assert check(op_columns_of(other)) == [], (columns, other)
    assert changed > 300


def op_columns_of(columns: OpColumns) -> OpColumns:
    """The same columns, looked over again."""
    return op_columns(columns.kind, columns.process, columns.called, columns.returned, fence=columns.fence)
