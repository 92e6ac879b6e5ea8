"""The unowned mutex: what each verdict rests on, drawn."""

from __future__ import annotations

import pytest

from checker.history.operations import NEVER
from checker.linearizability.unowned import NEVER_HELD, NO_ACQUIRE, NO_RELEASE, check_unowned
from tests.op_columns import op_columns
from tests.unit.linearizability.pictures import picture

ACCEPTED = {
    "nothing but turns": """
        a [A]--[R]---------[A]
        b --------[A]--[R]----""",
    "a release by somebody else": """
        a [A]---------
        b -----[R]----
        c ---------[A]""",
    "the second acquire waits until the release is called": """
        a [A]----[R====]
        b --[A======]---""",
    "an acquire of unknown outcome explains a release": """
        a [A======>
        b ----[R]--""",
    "a release of unknown outcome makes room": """
        a [A]---------
        b -----[R====>
        c ---------[A]""",
    "the release due first makes room, the later one is left for the next acquire": """
        a [A]------------------
        b ----[R=============]-
        c ----[R======]--------
        d -------[A]-----------
        e --------------[A]----""",
    "a refusal while the lock is held": """
        a [A]-------
        b ----[X]---""",
    "a refusal that begins while the lock is held": """
        a [A]--[R]-----
        b -----[X===]--""",
    "a refusal explained by an acquire that is still open": """
        a [A==========]
        b ---[X]-------""",
    "a refusal explained by an acquire of unknown outcome": """
        a [A==========>
        b ---[X]-------""",
}
REJECTED = {
    "two acquires, no release": (NO_RELEASE, 0, 1, """
        a [A]----
        b -----[A]"""),
    "the only release is called too late": (NO_RELEASE, 0, 1, """
        a [A]--------
        b -----[A]---
        c ---------[R]"""),
    "a release of nothing": (NO_ACQUIRE, -1, 0, """
        a [R]"""),
    "two releases, one acquire": (NO_ACQUIRE, 1, 2, """
        a [A]---------
        b ----[R]-----
        c --------[R]-"""),
    "a refusal of a free lock": (NEVER_HELD, -1, 0, """
        a [X]-----
        b -----[A]"""),
    "a refusal after the release returned": (NEVER_HELD, 1, 2, """
        a [A]--[R]-----
        b ---------[X]-"""),
    "one acquire of unknown outcome cannot explain two releases": (NO_ACQUIRE, 1, 2, """
        a [A==========>
        b ----[R]------
        c --------[R]--"""),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name: str) -> None:
    assert check_unowned(picture(ACCEPTED[name])) == []


@pytest.mark.parametrize("name", REJECTED)
def test_rejects_with_the_operations_that_cannot_be_ordered(name: str) -> None:
    reason, earlier, later, drawing = REJECTED[name]
    (violation,) = check_unowned(picture(drawing))
    assert (violation.reason, violation.earlier, violation.later) == (reason, earlier, later)


def test_no_operations_no_violation() -> None:
    assert check_unowned(op_columns([], [], [], [])) == []


def test_keys_do_not_meet() -> None:
    two_keys = op_columns([0, 0, 0], [0, 1, 2], [0, 2, 4], [1, 3, 5], key=[7, 3, 3])
    assert [(v.key, v.earlier, v.later) for v in check_unowned(two_keys)] == [(3, 1, 2)]


def test_gaps_between_ranks_mean_nothing() -> None:
    sparse = op_columns([0, 1, 0], [0, 0, 1], [10, 9_000_000, 10**12], [20, 10**11, NEVER])
    assert check_unowned(sparse) == []
