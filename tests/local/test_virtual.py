"""Real servers and real drivers in virtual time: the same scenarios, the same verdicts, the same bytes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab.drivers import PREFIX
from lab.drivers.environment import why_not
from lab.drivers.registry import HERE
from lab.errors import ExitCode, UnknownOutcome
from lab.processes import processes_of
from lab.run import run
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.host import Host
from lab.substrates.virtual import machine as machines
from lab.substrates.virtual import world as worlds
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.process import RealProcess
from lab.substrates.virtual.world import VirtualWorld
from tests.local.test_virtual_processes import SLEEP, static_program

pytestmark = pytest.mark.usefixtures("_patched")

REDIS_PY = shlex.join([sys.executable, "-E", str(HERE / "python" / "redis_py_driver.py")])
"""The driver of redis-py, run by the lab's own Python, which has that library."""
STATIC = """
#include <stdio.h>
int main(void) {
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        printf("{\\"id\\":1,\\"ok\\":true,\\"lib\\":\\"static\\",\\"version\\":\\"1\\",\\"caps\\":[]}\\n");
        fflush(stdout);
    }
    return 0;
}
"""
"""A driver that says who it is, and nothing else."""


UNTIL_30 = """
import ctypes, time
ctypes.CDLL(None).clock_nanosleep(0, 1, (ctypes.c_int64 * 2)(int(time.time()) + 30, 0), None)
"""
"""Waits until the wall clock shows 30 s more."""


def run_virtually(name: str, out: Path, *settings: str, seed: int = 1) -> RunResult:
    """Run a scenario on real servers in virtual time."""
    return run(RunRequest(name, settings, seed=seed, substrate="virtual", out=out))


def history_of(result: RunResult) -> bytes:
    """The bytes of its history."""
    return (result.directory / "history.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["partition-clockjump", "failover-race", "sentinel-failover"])
def test_the_same_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    one, same, other = (run_virtually(name, tmp_path, seed=seed) for seed in (7, 7, 8))
    assert history_of(one) == history_of(same)
    assert history_of(one) != history_of(other)


def test_a_library_runs_in_virtual_time_and_repeats(tmp_path: Path) -> None:
    """Its tokens as well, which libuuid would draw from the process id."""
    settings = (f"lock.name={REDIS_PY}", "cluster.nodes=1")
    results = [run_virtually("healthy", tmp_path, *settings) for _ in range(2)]
    assert [result.exit_code for result in results] == [ExitCode.EXPECTED] * 2
    assert history_of(results[0]) == history_of(results[1])


@pytest.mark.full
@pytest.mark.parametrize("library", ["redlock-py", "redlock-ng", "pottery", "aioredlock", "npm-redlock"])
def test_libraries_repeat_byte_for_byte(library: str, tmp_path: Path) -> None:
    reason = why_not(library)
    if reason is not None:
        pytest.skip(reason)
    settings = (f"lock.name={PREFIX}{library}", "lock.options={}")
    one, *others = (run_virtually("healthy", tmp_path, *settings) for _ in range(3))
    assert one.exit_code is ExitCode.EXPECTED
    assert [history_of(other) == history_of(one) for other in others] == [True, True]


def test_a_driver_shares_the_pauses_and_the_clock_of_its_client(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        """
title: A client with a driver stands still for a minute, and has its clock set
source: tests
cluster: {nodes: 1}
lock: {name: redlock, ttl: 10s}
clients: [alice, bob]
steps:
  - do: alice acquires
  - jump: {client: alice, by: +1h}
  - pause: {client: alice}
  - wait: 60s
  - do: bob acquires
  - resume: {client: alice}
  - do: alice releases
expect: {mutual_exclusion: ok, operations: {alice releases: refused, bob acquires: ok}}
why: The lease was over while Alice stood still.
"""
    )
    result = run_virtually(str(tmp_path / "scenario.yaml"), tmp_path, f"lock.name={REDIS_PY}")
    assert result.comparison.unknown == ()
    assert result.comparison.mismatches == ()
    receipts = [json.loads(line) for line in history_of(result).splitlines()]
    shifted = [event for event in receipts if event.get("f") == "jump" and event["type"] == "ok"]
    assert shifted, "the driver's own clock was read after the jump"


def test_a_jump_moves_a_deadline_that_is_known_already(tmp_path: Path) -> None:
    world, ended_ns = VirtualWorld(1), list[int]()
    machine = RealMachine(world, Host(world, "alice"), "test-jump", tmp_path, pytest.fail)

    def jump() -> None:
        machine.host.clock.jump(12 * S_NS)
        machine.set_clock()

    try:
        process = machine.start("waits", [sys.executable, "-ISc", UNTIL_30])
        world.settle()
        process.on_exit = lambda: ended_ns.append(world.now_ns)
        world.at(10 * S_NS, jump)
        world.run_until(lambda: ended_ns)
    finally:
        world.end()
    assert 17 * S_NS <= ended_ns[0] <= 18 * S_NS


def test_files_lie_in_memory_if_there_is_room_and_nobody_names_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def home() -> Path:
        conductor = worlds.Conductor()
        conductor.close()
        return conductor.scratch.parent

    for variable in worlds.PLACES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(worlds, "MEMORY", tmp_path)
    assert home() == tmp_path
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert home() == Path(tempfile.gettempdir())
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(worlds, "ROOM_BYTES", 1 << 62)
    assert home() == Path(tempfile.gettempdir())
    monkeypatch.setattr(worlds, "MEMORY", tmp_path / "nowhere")
    assert home() == Path(tempfile.gettempdir())
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[RealProcess] = []
    begin = RealMachine.launch

    def noted(self: RealMachine, *words: object, **options: object) -> RealProcess:
        process = begin(self, *words, **options)  # type: ignore[arg-type]
        started.append(process)
        return process

    monkeypatch.setattr(RealMachine, "launch", noted)
    result = run_virtually("healthy", tmp_path)
    assert len(started) == len("ABCDE") + len(["store"])
    assert [process for process in started if process.popen.poll() is None] == []
    assert processes_of(result.directory.name) == []


def test_a_server_that_dies_unasked_makes_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = RealMachine.give
    killed: list[RealProcess] = []

    def murderous(self: RealMachine, act: object) -> None:
        if self.host.name == "B" and self.world.now_ns > 20_000_000 and not killed:
            killed.append(self.processes[0])
            os.kill(self.processes[0].popen.pid, signal.SIGKILL)
        begin(self, act)  # type: ignore[arg-type]

    monkeypatch.setattr(RealMachine, "give", murderous)
    result = run_virtually("gc-pause-after-acquire", tmp_path)
    assert killed
    assert result.exit_code is ExitCode.UNKNOWN
    assert any("node-B ended by itself" in reason for reason in result.comparison.unknown)


def test_a_program_that_cannot_be_held_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A static program never loads the preload library."""
    monkeypatch.setattr(machines, "ARRIVES_WITHIN_S", 0.3)
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a static program needs a C compiler")
    (tmp_path / "driver.c").write_text(STATIC)
    built = subprocess.run(
        [compiler, "-static", "-o", str(tmp_path / "driver"), str(tmp_path / "driver.c")], check=False
    )
    if built.returncode:
        pytest.skip("this machine links no static programs")
    settings = (f"lock.name={tmp_path / 'driver'}", "cluster.nodes=1", "lock.options={}")
    result = run_virtually("healthy", tmp_path, *settings)
    assert result.exit_code is ExitCode.UNKNOWN
    assert any("without the preload library" in reason for reason in result.comparison.unknown)


def test_a_driver_that_waits_past_libc_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait passes in real time: what comes after it would come at any time of the run."""
    sleeps = static_program(tmp_path / "sleeps", SLEEP)
    driver = tmp_path / "driver"
    driver.write_text(f"#!/bin/sh\n{sleeps} </dev/null >/dev/null &\nexec {REDIS_PY}\n")
    driver.chmod(0o755)
    settings = (f"lock.name={driver}", "cluster.nodes=1", "lock.options={}")
    monkeypatch.setenv("TEST", str(driver))
    with pytest.raises(UnknownOutcome, match=r"\(sleeps\) waits for real time: thread \d+ "):
        run_virtually("healthy", tmp_path, *settings)
    assert processes_of(str(driver), "TEST") == []
