"""A lease that is over, or not yet: each told from the stamp that is on its safe side."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.run.anchors import Anchors, Lasting
from lab.run.steps import _is_checked_once
from lab.scenario.anchors import LeaseOver
from lab.scenario.steps import Until

MS = 1_000_000


def came(now: int, leased: dict[str, tuple[int, int]], **anchor: Any) -> bool:
    """Whether the moment came, with leases of 1000 ms that may be 10 ms off."""
    unused = cast(Any, None)
    anchors = Anchors(
        unused,
        unused,
        unused,
        cast(Any, SimpleNamespace(now_ns=lambda: now * MS)),
        started_ns=lambda: 0,
        leases={
            name: Lasting((first + 1_000) * MS, (last + 1_000) * MS) for name, (first, last) in leased.items()
        },
        pending={},
        slack_ns=10 * MS,
    )
    one = LeaseOver.model_validate({"lease": "alice", "within": "1ms", **anchor})
    return asyncio.run(anchors.wait_for(one))[1]


@pytest.mark.parametrize(("now", "lasts"), [(600, True), (1_089, True), (1_090, False), (5_000, False)])
def test_a_lease_lasts_on_from_when_it_was_asked_for(now: int, lasts: bool) -> None:
    assert came(now, {"alice": (100, 300)}, over=False) is lasts


@pytest.mark.parametrize(("now", "over"), [(600, False), (1_308, False), (1_310, True), (5_000, True)])
def test_a_lease_is_over_from_when_it_was_granted(now: int, over: bool) -> None:
    assert came(now, {"alice": (100, 300)}, over=True) is over


@pytest.mark.parametrize("over", [True, False])
def test_who_was_never_granted_anything_has_no_lease(over: bool) -> None:
    assert not came(600, {"bob": (100, 300)}, over=over)


@pytest.mark.parametrize("over", [True, False])
def test_that_it_lasts_is_looked_up_once(over: bool) -> None:
    step = Until.model_validate({"until": {"lease": "alice", "over": over}})
    assert _is_checked_once(step.anchor) is not over
