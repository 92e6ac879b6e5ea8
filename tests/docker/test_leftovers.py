"""Nothing is left in the engine, whatever ends a lab; and what dies unasked is noticed."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import of_lab
from tests.lab_process import Lab
from tests.local.test_kept import answer, kept_up

WAITS = "steps=[{do: alice acquires}, {wait: 300s}]"
RUN = ("run", "healthy", "--on", "docker", "--set", WAITS)

pytestmark = pytest.mark.timeout(300)


def test_what_a_killed_lab_leaves_is_removed_by_down(docker_lab: Lab, engine: Any) -> None:
    process = docker_lab.start(*RUN)
    other = docker_lab.start(*RUN, "--out", "other")
    directory = docker_lab.wait_for_event("acquire", "alice")
    docker_lab.wait_for_event("acquire", "alice", "other")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    containers, networks = of_lab(engine, process.pid)
    assert (len(containers), len(networks)) == (9, 1), "five nodes, store, proxy, two clients"
    down = docker_lab("down")
    assert down.code == 0
    assert "removed 9 containers" in down.out
    assert of_lab(engine, process.pid) == ([], [])
    containers, _ = of_lab(engine, other.pid)
    assert len(containers) == 9, "a lab that is alive keeps what it has"
    assert docker_lab("check", str(directory)).code == 3
    assert any('"acquire"' in line for line in (directory / "history.jsonl").read_text().splitlines())
    other.send_signal(signal.SIGINT)
    assert docker_lab.ended(other, "other").code == 130
    assert of_lab(engine, other.pid) == ([], [])


def test_the_next_run_cleans_up_as_well(docker_lab: Lab, engine: Any) -> None:
    process = docker_lab.start(*RUN)
    docker_lab.wait_for_event("acquire", "alice")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    run = docker_lab("run", "healthy", "--on", "local")
    assert run.code == 0, run.out + run.err
    assert "removed 9 containers" in run.err
    assert of_lab(engine, process.pid) == ([], [])


@pytest.mark.parametrize(
    ("number", "moment"),
    [(signal.SIGTERM, "phase"), (signal.SIGINT, "acquire")],
    ids=["coming up", "in the scenario"],
)
def test_interrupted(docker_lab: Lab, engine: Any, number: signal.Signals, moment: str) -> None:
    process = docker_lab.start(*RUN)
    docker_lab.wait_for_event(moment)
    process.send_signal(number)
    process.send_signal(number)
    run = docker_lab.ended(process)
    assert run.code == 130, run.out + run.err
    assert "Traceback" not in run.err
    assert of_lab(engine, process.pid) == ([], [])


def test_what_is_kept_up_can_be_reached_and_is_removed_by_down(docker_lab: Lab, engine: Any) -> None:
    process = docker_lab.start("up", "failover-race", "--on", "docker")
    places = kept_up(process)
    assert b"master" in answer(places["A"][0], b"ROLE")
    assert b"master" in answer(places["A"][1], b"ROLE"), "behind Alice's link"
    assert docker_lab("down").code == 0
    assert docker_lab.ended(process).code == 0
    assert of_lab(engine, process.pid) == ([], [])


@pytest.mark.parametrize("part", ["A", "toxiproxy", "client-alice"])
def test_a_container_that_dies_unasked_makes_the_run_unknown(docker_lab: Lab, engine: Any, part: str) -> None:
    process = docker_lab.start(*RUN)
    docker_lab.wait_for_event("acquire", "alice")
    containers, _ = of_lab(engine, process.pid)
    (victim,) = (one["Id"] for one in containers if one["Labels"]["lock-lab.part"] == part)
    engine.kill(victim)
    run = docker_lab.ended(process)
    assert run.code == 3, run.out + run.err
    assert f"{part} ended by itself (killed by SIGKILL)" in run.out
    assert set(run.outcomes.values()) == {"unknown"}


def test_ports_are_published_only_if_they_are_asked_for(docker_lab: Lab, engine: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = docker_lab("run", "healthy", "--on", "docker", "--set", f"cluster.base_port={port}")
    assert run.code == 2
    assert f"port {port}" in run.err
    process = docker_lab.start(*RUN)
    docker_lab.wait_for_event("acquire", "alice")
    containers, networks = of_lab(engine, process.pid)
    assert [port for one in containers for port in one["Ports"] if "PublicPort" in port] == []
    assert networks[0]["Internal"] is True
    for one in containers:
        reported = engine.inspect_container(one["Id"])
        assert reported["HostConfig"]["Privileged"] is False
        status = Path(f"/proc/{reported['State']['Pid']}/status").read_text()
        assert "\nCapBnd:\t0000000000000000\n" in status, "no capability is left to it"
        assert "docker.sock" not in str(reported["Mounts"])
    process.send_signal(signal.SIGINT)
    assert docker_lab.ended(process).code == 130
