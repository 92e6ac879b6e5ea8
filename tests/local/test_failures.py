"""What goes wrong outside a scenario: killed parts, signals, taken ports. Nothing is lost or left."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab.substrates.real.ports import free_ports, is_port_free
from tests.lab_process import ROOT, Lab, alive, children_of, part

pytestmark = pytest.mark.full

WAITS = "steps=[{do: alice acquires}, {wait: 300s}]"


@pytest.mark.parametrize("victim", ["toxiproxy-server", "C", "store", "lab.client"])
def test_a_part_that_dies_unasked_makes_the_run_unknown(lab: Lab, victim: str) -> None:
    process = lab.start("run", "healthy", "--set", WAITS)
    lab.wait_for_event("acquire")
    os.kill(part(process.pid, victim), signal.SIGKILL)
    run = lab.ended(process)
    assert run.code == 3, run.out + run.err
    assert "killed by SIGKILL" in run.out
    assert run.verdict["unknown"]
    assert set(run.outcomes.values()) == {"unknown"}
    assert [event["f"] for event in run.events if event["process"] == "alice"].count("acquire") >= 1
    last = json.loads((run.directory / "history.jsonl").read_text().splitlines()[-1])
    assert last["end"] is True
    assert lab("check", str(run.directory)).code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["phase", "acquire"], ids=["coming up", "in the scenario"])
def test_interrupted(lab: Lab, number: signal.Signals, moment: str) -> None:
    process = lab.start("run", "healthy", "--set", WAITS)
    lab.wait_for_event(moment)
    process.send_signal(number)
    process.send_signal(number)  # an impatient user must not break the clean-up
    run = lab.ended(process)
    assert run.code == 130, run.out + run.err
    assert "Traceback" not in run.err
    assert any(event["f"] == "abort" for event in run.events)
    assert lab("check", str(run.directory)).code == 3


def test_a_paused_client_does_not_survive_an_interrupt(lab: Lab) -> None:
    process = lab.start("run", "healthy", "--set", "steps=[{pause: {client: alice}}, {wait: 300s}]")
    lab.wait_for_event("pause")
    process.send_signal(signal.SIGINT)
    assert lab.ended(process).code == 130


ENDS_EARLY = """
import pathlib, time
from lab.run.execution import Run
from lab.run.request import RunRequest

def imports():
    time.sleep(1)
    pathlib.Path("imported").touch()

Run(RunRequest("healthy", seed=1, substrate="local").plan(), meanwhile=imports).prepare()
"""


def test_a_run_that_ends_early_waits_for_what_it_imports(tmp_path: Path) -> None:
    """An interpreter that ends while a thread imports NumPy may end by SIGSEGV: the exit code was -11."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", ENDS_EARLY], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "imported").exists()


def test_what_a_killed_lab_leaves_is_ended_by_down(lab: Lab) -> None:
    process = lab.start("run", "healthy", "--set", WAITS)
    directory = lab.wait_for_event("acquire")
    children = children_of(process.pid)
    assert len(children) == 9, "five nodes, the store, the proxy and two clients"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(alive(children)) >= 7, "servers do not notice that the lab is gone: that is why `down` exists"
    down = lab("down")
    assert down.code == 0
    assert re.search(r"ended [789] processes", down.out)
    assert alive(children) == []
    check = lab("check", str(directory))
    assert check.code == 3, "a history without its end proves nothing"
    assert (directory / "history.jsonl").exists()


def test_the_next_run_cleans_up_as_well(lab: Lab) -> None:
    process = lab.start("run", "healthy", "--set", WAITS)
    lab.wait_for_event("acquire")
    children = children_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    run = lab("run", "healthy")
    assert run.code == 0
    assert alive(children) == []


def test_a_taken_port_is_named(lab: Lab) -> None:
    base = next(
        port for port in iter(lambda: free_ports(1)[0], None) if all(map(is_port_free, range(port, port + 6)))
    )
    port = base + 2
    with socket.create_server(("127.0.0.1", port)):
        run = lab("run", "healthy", "--set", f"cluster.base_port={base}")
    assert run.code == 2
    assert f"port {port}" in run.err
    assert "hint:" in run.err


def test_a_missing_tool_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))
    run = lab("run", "healthy")
    assert run.code == 2
    assert "redis-server" in run.err
    assert "lab setup" in run.err


def test_a_reports_directory_that_cannot_be_written(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = lab("run", "healthy", "--out", "file/reports")
    assert run.code == 2
    assert "--out" in run.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "partition-clokjump"], ["partition-clockjump", "lab list"]),
        (["run", "healthy", "--on", "locl"], ["--on", "'local'"]),
        (["run", "healthy", "--lock", "redlok"], ["redlok", "redlock"]),
        (["run", "healthy", "--lock", "no.such:Thing"], ["no.such"]),
        (["run", "healthy", "--set", "lock.options={node_timout: 50ms}"], ["node_timout", "node_timeout"]),
        (["run", "healthy", "--set", "lock.options={node_timeout: 50}"], ["node_timeout", "unit"]),
        (["run", "healthy", "--set", "lock.tll=2s"], ["lock.tll", "ttl"]),
        (["run"], ["scenario"]),
        (["rnu"], ["rnu"]),
        (["check", "no-such-run"], ["no-such-run"]),
    ],
)
def test_bad_usage_is_exit_2_with_a_hint(lab: Lab, arguments: list[str], words: list[str]) -> None:
    run = lab(*arguments)
    assert run.code == 2, run.out + run.err
    for word in words:
        assert word in run.err, run.err
    assert "Traceback" not in run.err
    assert not (lab.directory / "reports").exists()
