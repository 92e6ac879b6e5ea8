"""Waiting until nodes have executed a command so often: only what came after the start counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lab.run.observer import Observer


def observer(**executed: list[tuple[int, str]]) -> Observer:
    it = Observer([], "k", Any)  # type: ignore[arg-type]
    it.watches = {node: SimpleNamespace(executed=seen) for node, seen in executed.items()}  # type: ignore[misc]
    return it


@pytest.mark.parametrize(
    ("since_ns", "times", "came"), [(0, 2, True), (10, 1, True), (10, 2, False), (0, 3, False)]
)
async def test_each_node_must_have_done_it_so_often_since_then(since_ns: int, times: int, came: bool) -> None:
    seen = [(10, "PEXPIRE"), (15, "SET"), (20, "PEXPIRE")]
    watched = observer(A=[*seen, (30, "PEXPIRE")], B=seen)
    assert await watched.until_executed(["A", "B"], "PEXPIRE", since_ns, 0.05, times=times) is came
