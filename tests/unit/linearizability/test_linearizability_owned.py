"""Owner-aware, reentrant and fenced mutexes: what each verdict rests on, drawn."""

from __future__ import annotations

import pytest

from checker.history.operations import NEVER
from checker.linearizability import owned
from checker.linearizability.owned import check_owned, keeps_identity
from tests.op_columns import op_columns
from tests.unit.linearizability.pictures import picture

# name → (depth, fenced, drawing)
ACCEPTED = {
    "turns": (1, False, """
        a [A]--[R]---------[A]
        b --------[A]--[R]----"""),
    "the next acquire returns after the release was called": (1, False, """
        a [A]----[R====]
        b --[A======]---"""),
    "an acquire of unknown outcome is left out": (1, False, """
        a [A=============>
        b ----[A]--[R]----
        c ------------[A]-"""),
    "a release of unknown outcome ends the core at its call": (1, False, """
        a [A]--[R=======>
        b --------[A]----"""),
    "a release of unknown outcome by one that does not hold": (1, False, """
        a [A]-----------[R]-
        b -----[R==========>"""),
    "reentrant to its depth": (2, False, """
        a [A]-[A]-[R]-[R]-----
        b -------------[A]----"""),
    "a release of unknown outcome inside a session never frees": (2, False, """
        a [A]-[A]-[R====>"""),
    "a refusal while somebody holds": (1, False, """
        a [A]-----[R]
        b ----[X]----"""),
    "a refusal while the release is under way": (1, False, """
        a [A]-[R======]----
        b -------[X]-------"""),
    "a refusal while the next acquire is under way": (1, False, """
        a [A]-[R]---------
        b -------[A======]
        c ----------[X]---"""),
    "a refusal after a release of unknown outcome": (1, False, """
        a [A]-[R==========>
        b -----------[X]---"""),
    "a refusal while the last of two releases is under way": (1, False, """
        a [A]-[R===========]------------
        b --------[A]-[R============]--
        c ----------------------[X]-----"""),
    "after the last core an acquire of unknown outcome explains": (1, False, """
        a [A]-[R]-----------
        b ----------[A====>-
        c ------------[X]---"""),
    "a refusal to the holder at full depth": (2, False, """
        a [A]-[A]-[X]-[R]"""),
    "fences grow": (1, True, """
        a [A1]-[R]---------[A5]
        b ---------[A3]-[R]----"""),
    "an acquire without a fence says nothing": (1, True, """
        a [A3]-[R]---------[A4]
        b ---------[A]-[R]-----"""),
    "the fence of an unknown outcome says nothing": (1, True, """
        a [A9================>
        b -----[A3]-[R]-------"""),
    "a nested acquire repeats the fence or raises it": (3, True, """
        a [A3]-[A3]-[A4]-[R]-[R]-[R]
        b ---------------------------[A5]"""),
    "fences are not compared unless asked": (1, False, """
        a [A9]-[R]-----
        b ---------[A1]"""),
}  # fmt: skip

# name → (depth, fenced, reason, earlier, later, drawing)
REJECTED = {
    "two hold at once": (1, False, owned.CORES_OVERLAP, 0, 2, """
        a [A]-------[R]
        b ----[A]------"""),
    "one never released": (1, False, owned.CORES_OVERLAP, 0, 1, """
        a [A]------
        b ------[A]"""),
    "the owner acquires twice": (1, False, owned.TOO_DEEP, 0, 1, """
        a [A]-[A]"""),
    "deeper than allowed": (2, False, owned.TOO_DEEP, 0, 2, """
        a [A]-[A]-[A]"""),
    "a release by one that does not hold": (1, False, owned.NOT_HELD, 0, 1, """
        a [A]------
        b ----[R]--"""),
    "a release too many": (2, False, owned.NOT_HELD, 0, 4, """
        a [A]-[A]-[R]-[R]-[R]"""),
    "a release inside a session does not end it": (2, False, owned.CORES_OVERLAP, 0, 3, """
        a [A]-[A]-[R]-----
        b ------------[A]-"""),
    "a refusal of a lock never taken": (1, False, owned.FREE_ALL_THE_TIME, -1, 0, """
        a [X]"""),
    "a refusal in a gap that is free for certain": (1, False, owned.FREE_ALL_THE_TIME, 1, 3, """
        a [A]-[R]-------------
        b -------------[A]----
        c --------[X]---------"""),
    "before the last core no unknown outcome explains": (1, False, owned.FREE_ALL_THE_TIME, 1, 4, """
        a [A]-[R]-------------
        b -[A==============>--
        c -------------[A]----
        d --------[X]---------"""),
    "an unknown outcome called after the refusal": (1, False, owned.FREE_ALL_THE_TIME, 1, 3, """
        a [A]-[R]-------------
        b -------------[A==>--
        c --------[X]---------"""),
    "a refusal to the holder below its depth": (2, False, owned.REFUSED_TO_HOLDER, 0, 1, """
        a [A]-[X]-[R]"""),
    "a fence repeated": (1, True, owned.FENCE_NOT_GREATER, 0, 2, """
        a [A3]-[R]-----
        b ---------[A3]"""),
    "a fence that goes back past one without": (1, True, owned.FENCE_NOT_GREATER, 0, 2, """
        a [A5]-[R]--------[A4]
        b ---------[A]-[R]----"""),
    "a nested fence that goes back": (2, True, owned.FENCE_NOT_GREATER, 0, 1, """
        a [A5]-[A4]"""),
    "the first fence of a session, shown by its nested acquire": (2, True, owned.FENCE_NOT_GREATER, 0, 3, """
        a [A5]-[R]------------
        b ---------[A]-[A5]---"""),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name: str) -> None:
    depth, fenced, drawing = ACCEPTED[name]
    assert check_owned(picture(drawing), depth=depth, fenced=fenced) == []


@pytest.mark.parametrize("name", REJECTED)
def test_rejects_with_the_operations_that_cannot_be_ordered(name: str) -> None:
    depth, fenced, reason, earlier, later, drawing = REJECTED[name]
    (violation,) = check_owned(picture(drawing), depth=depth, fenced=fenced)
    assert (violation.reason, violation.earlier, violation.later) == (reason, earlier, later)


def test_each_key_has_its_own_lock() -> None:
    apart = op_columns([0, 0, 0], [0, 1, 2], [0, 2, 4], [1, 3, 5], key=[1, 0, 1])
    assert [(v.key, v.earlier, v.later) for v in check_owned(apart)] == [(1, 0, 2)]


def test_a_depth_below_one_is_no_lock() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        check_owned(picture("a [A]"), depth=0)


def test_identity_is_kept_only_where_a_process_goes_on_with_the_same_key() -> None:
    silent = op_columns([0, 0], [0, 1], [0, 1], [NEVER, 2])
    goes_on = op_columns([0, 1], [0, 0], [0, 2], [NEVER, 3])
    elsewhere = op_columns([0, 0], [0, 0], [0, 2], [NEVER, 3], key=[0, 1])
    found = [keeps_identity(columns).tolist() for columns in (silent, goes_on, elsewhere)]
    assert found == [[False], [True], [False, False]]
