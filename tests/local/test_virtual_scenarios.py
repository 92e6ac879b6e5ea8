"""What comes out of the scenarios on real servers and drivers in virtual time: what their files say.

The runs share processes, as those of `lab suite` do; that their histories are the same as those of runs
alone is shown by `tests.local.test_virtual_shared`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from lab.drivers.place import why_not_in_virtual_time
from lab.run import many_runs, run
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.scenario.files import library_names, ordinary_names, sentinel_names
from lab.scenario.load import load_scenario
from tests.local.test_virtual import history_of, run_virtually

FIRST = (
    "healthy",
    "partition-clockjump",
    "gc-pause-after-acquire",
    "clock-jump-client",
    "power-cut-everysec",
    "restart-no-persistence",
    "failover-race",
    "delayed-write",
    "oom-while-held",
    "disk-stall-always",
)
"""Scenarios that are also part of ``make test``: one for each way in which a fault reaches a real process."""


@pytest.fixture(scope="module", autouse=True)
def shared_processes() -> Iterator[None]:
    with many_runs():
        yield


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunResult]:
    """Run a scenario with seed 1, once for all tests that look at what came of it."""
    return cache(lambda name: run_virtually(name, tmp_path_factory.mktemp("virtual")))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FIRST else pytest.mark.full)
        for name in (*ordinary_names(), *sentinel_names())
    ],
)
def test_a_scenario_comes_out_as_its_file_says(name: str, run_once: Callable[[str], RunResult]) -> None:
    result = run_once(name)
    assert result.comparison.mismatches == ()
    assert result.comparison.unknown == ()
    events = [json.loads(line) for line in history_of(result).splitlines()]
    nemesis = [event for event in events if event.get("process") == "nemesis"]
    assert len([event for event in nemesis if event["type"] == "ok"]) == len(
        [event for event in nemesis if event["type"] == "invoke"]
    ), "every fault has a receipt"


@pytest.mark.full
@pytest.mark.parametrize("name", library_names())
def test_a_scenario_about_a_library_comes_out_as_its_file_says(name: str, tmp_path: Path) -> None:
    """As on real servers in real time: `tests.local.test_libraries`."""
    reason = why_not_in_virtual_time(load_scenario(name).scenario.lock.name)
    if reason is not None:
        pytest.skip(reason)
    result = run_virtually(name, tmp_path)
    assert result.comparison.mismatches == ()
    assert result.comparison.unknown == ()


def operations(result: RunResult) -> dict[str, list[tuple[str, str]]]:
    """How the calls of each client ended, in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in history_of(result).splitlines():
        event = json.loads(line)
        if "client" in event and event["type"] != "invoke":
            found.setdefault(event["client"], []).append((event["f"], event["type"]))
    return found


@pytest.mark.parametrize("name", FIRST)
def test_operations_end_as_with_the_model_of_redis(
    name: str, run_once: Callable[[str], RunResult], tmp_path: Path
) -> None:
    model = run(RunRequest(name, seed=1, substrate="sim", out=tmp_path))
    assert operations(run_once(name)) == operations(model) != {}


SOME_CONNECTIONS = """
title: t
source: s
why: w
clients: [alice]
cluster: {nodes: 1}
lock: {name: single, ttl: 5s, options: {retry_count: 1}}
steps:
  - cut: {client: alice, nodes: [A], connection: subscription}
  - do: alice works
  - heal: all
  - hold: {client: alice, nodes: [A], connection: subscription}
  - heal: all
  - reset: {client: alice, nodes: [A], connection: subscription}
  - cut: {client: alice, nodes: [A], connection: commands}
  - do: alice acquires
expect: {mutual_exclusion: ok, operations: {alice works: ok, alice acquires: unknown}}
"""


def test_some_connections_of_a_link_are_hit(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SOME_CONNECTIONS)
    result = run_virtually(str(scenario), tmp_path)
    assert (result.comparison.mismatches, result.comparison.unknown) == ((), ())
