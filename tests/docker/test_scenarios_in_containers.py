"""The scenarios come out on containers as they do on processes, side by side with their controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.docker.conftest import can_make_namespaces
from tests.lab_process import Ended, Lab
from tests.shipped import SCENARIOS, summaries

pytestmark = pytest.mark.timeout(300)

ALWAYS = [
    "partition-clockjump",  # cut, jump
    "gc-pause-after-acquire",  # pause
    "power-cut-everysec",  # down and up again
    "failover-race",  # replication, crash, promote
]
"""The others run on demand: together they take a quarter of an hour."""


def scenario_and_control(lab: Lab, name: str) -> list[Ended]:
    """Both at once: two labs side by side don't collide."""
    control = summaries()[name].control
    return side_by_side(lab, [name, *([control] if control else [])])


def side_by_side(lab: Lab, names: Sequence[str]) -> list[Ended]:
    """Run these scenarios at the same time."""
    started = [
        lab.start("run", one, "--on", "docker", "--out", f"reports-{number}")
        for number, one in enumerate(names)
    ]
    return [lab.ended(process, f"reports-{number}") for number, process in enumerate(started)]


@pytest.mark.parametrize("name", ALWAYS)
def test_a_scenario_and_its_control(docker_lab: Lab, name: str) -> None:
    for run in scenario_and_control(docker_lab, name):
        assert run.code == 0, run.out + run.err
        assert run.verdict["environment"]["substrate"] == "docker"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ALWAYS])
def test_every_other_scenario_and_its_control(docker_lab: Lab, name: str) -> None:
    for run in scenario_and_control(docker_lab, name):
        assert run.code == 0, run.out + run.err


def test_where_processes_cannot_be_signalled_the_engine_is_asked(docker_lab: Lab) -> None:
    if not can_make_namespaces():
        pytest.skip("a process with another view of process ids needs root")
    steps = "[{do: alice acquires}, {pause: {client: alice}}, {pause: {node: A}}, {resume: {client: alice}}]"
    process = docker_lab.start(
        *("run", "gc-pause-after-acquire", "--on", "docker", "--set", f"steps={steps}"),
        *("--set", "expect={mutual_exclusion: ok}"),
        within=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
    )
    run = docker_lab.ended(process)
    pauses = [event for event in run.events if event["process"] == "nemesis" and event["type"] == "ok"]
    assert [event["f"] for event in pauses].count("pause") == 2, run.out + run.err
    assert [event["f"] for event in pauses].count("resume") == 2


def test_the_users_own_lock_is_imported_in_the_container(docker_lab: Lab) -> None:
    (docker_lab.directory / "my_lock.py").write_text(
        "from lab.locks.redlock import Redlock\n\n\nclass Mine(Redlock):\n    pass\n"
    )
    run = docker_lab("run", "healthy", "--on", "docker", "--lock", "my_lock:Mine")
    assert run.code == 0, run.out + run.err


def test_a_lock_that_is_not_there_is_named(docker_lab: Lab) -> None:
    run = docker_lab("run", "healthy", "--on", "docker", "--lock", "no_such_lock:Mine")
    assert run.code == 2
    assert "no_such_lock" in run.err


def test_auto_is_docker_where_an_engine_answers(docker_lab: Lab) -> None:
    run = docker_lab("run", "healthy")
    assert run.code == 0, run.out + run.err
    assert "substrate docker (containers of the engine on this machine)" in run.err
    logs: Any = {path.name for path in (run.directory / "logs").iterdir()}
    assert {"node-A.log", "node-E.log", "store.log", "toxiproxy.log", "client-alice.log"} <= logs
