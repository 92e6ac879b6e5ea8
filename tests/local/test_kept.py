"""Servers that are kept up: they can be reached by hand, and nothing is left when that ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.paths import state_dir
from lab.processes import processes_of
from lab.run.request import RunRequest
from lab.substrates.kept import Ended, end_kept, marked
from lab.substrates.run_files import RunFile
from tests.lab_process import MARK, Lab, below

UP = re.compile(r"(?P<name>\w+): (?P<host>[\d.]+):(?P<port>\d+), alice's link (?P<link>[\d.]+:\d+)")


def kept_up(process: subprocess.Popen[str]) -> dict[str, list[str]]:
    """Wait until a lab says what it keeps up: places by name, the server itself and Alice's link to it."""
    assert process.stderr is not None
    places: dict[str, list[str]] = {}
    told = []
    for line in process.stderr:
        told.append(line)
        if found := UP.search(line):
            places[found["name"]] = [f"{found['host']}:{found['port']}", found["link"]]
        if "store" in places:
            return places
    raise AssertionError("".join(told))


def answer(place: str, command: bytes) -> bytes:
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(command + b"\r\n")
        return connection.recv(1000)


@pytest.mark.full
def test_the_servers_of_a_scenario_are_up_until_lab_down(lab: Lab) -> None:
    process = lab.start("up", "failover-race", "--on", "local")
    places = kept_up(process)
    assert list(places) == ["A", "B", "store"]
    for name, role in (("A", b"master"), ("B", b"slave")):
        assert all(role in answer(place, b"ROLE") for place in places[name])
    answer(places["B"][0], b"SHUTDOWN NOSAVE")
    assert b"master" in answer(places["A"][0], b"ROLE"), "a server that dies does not end it"
    down = lab("down")
    assert down.code == 0, down.out + down.err
    assert "took the cluster down that was kept up" in down.out
    up = lab.ended(process)
    assert up.code == 0, up.err
    assert "node B ended by itself" in up.err or "node-B ended by itself" in up.err
    assert processes_of(lab.mark, MARK) == []


@pytest.mark.full
def test_after_a_run_its_servers_show_what_is_there(lab: Lab) -> None:
    process = lab.start("run", "failover-race", "--on", "local", "--keep")
    places = kept_up(process)
    assert b"master" in answer(places["B"][0], b"ROLE"), "it was promoted"
    assert not [words for words in below(process.pid).values() if "lab.client" in words], "clients record"
    answer(places["B"][0], b"FLUSHALL")
    process.send_signal(signal.SIGINT)
    run = lab.ended(process)
    assert run.code == 0, run.out + run.err
    assert "failover-race: as expected" in run.out
    assert processes_of(lab.mark, MARK) == []


@pytest.mark.parametrize("name", ["sim", "virtual"])
def test_where_nothing_can_be_reached_nothing_is_kept(name: str) -> None:
    with pytest.raises(LabError) as caught:
        RunRequest("healthy", substrate=name, keep=True).plan()
    assert caught.value.seen == f"nothing can be kept up on {name}"


def test_whose_kept_clusters_are_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_STATE", str(tmp_path / "state"))
    assert end_kept() == []
    (tmp_path / "scratch").mkdir()
    file = RunFile("some-run", tmp_path / "scratch")
    record = json.loads(file.path.read_text())
    with marked("some-run"):
        file.path.write_text(json.dumps(record | {"pid_namespace": "pid:[1]"}))
        assert end_kept() == [Ended("some-run", "its lab has another view of process ids, end it there")]
    assert list(state_dir().glob("*.kept")) == []
    with marked("some-run"):
        file.path.write_text(json.dumps(record | {"started_at": "1"}))
        assert end_kept() == [], "the lab is gone, and what it left is for `sweep`"
        assert list(state_dir().glob("*.kept")) == []
    told: list[int] = []

    def end(pid: int, number: int) -> None:
        told.append(pid)
        file.close()

    monkeypatch.setattr(os, "kill", end)
    with marked("some-run"):
        file.path.write_text(json.dumps(record))
        assert end_kept() == [Ended("some-run", None)]
    assert told[0] == os.getpid()
