"""A cluster that is told what to do, step by step, refuses what cannot be, and goes on without it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.api.live.run import LiveRun, scenario_of
from lab.errors import LabError
from lab.run.request import Plan
from lab.run.steps import Player

ABOUT = {
    "title": "t",
    "source": "a test",
    "why": "What is refused must not stand in the scenario that is kept, or nobody could repeat it.",
    "cluster": {"nodes": 3, "service": "etcd"},
    "lock": {"name": "etcd", "ttl": "10s"},
    "clients": ["alice"],
    "expect": {"mutual_exclusion": "ok", "resource": "ok"},
}


@pytest.mark.parametrize(
    ("on", "step", "words"),
    [
        ("local", {"jump": {"node": "A", "by": "+1s"}}, "nodes of etcd cannot shift the clock"),
        ("docker", {"cut": {"node": "A", "from": "B"}}, "the substrate docker cannot cut the servers"),
    ],
)
async def test_a_step_that_cannot_be_is_refused_and_not_kept(
    tmp_path: Path, on: str, step: dict[str, Any], words: str
) -> None:
    played: list[object] = []

    async def play_one(one: object) -> None:
        played.append(one)

    player = cast("Player", SimpleNamespace(missed=[], play_one=play_one))
    plan = Plan(scenario_of(ABOUT, []), 1, on, "", tmp_path, "")
    run = LiveRun(ABOUT, plan, lambda answer: None)
    with pytest.raises(LabError, match=words):
        await run._one(json.dumps(step).encode(), player)
    assert played == []
    await run._one(json.dumps({"do": "alice acquires"}).encode(), player)
    assert len(played) == 1
    assert [next(iter(one)) for one in run._steps] == ["do"]
