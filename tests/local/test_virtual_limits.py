"""When a process that computes without end is named, and one that waits in real time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.errors import UnknownOutcome
from lab.run.recorder import HISTORY
from lab.shims.virtual_time import NotQuiet
from lab.substrates.virtual import world as worlds
from tests.local.test_virtual import run_virtually
from tests.local.test_virtual_processes import SLEEP, static_program
from tests.local.virtual_world import S, World, libraries, world

__all__ = ["libraries", "world"]  # fixtures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD shims are for Linux")


def named_when_it_spins(world: World, limit_s: float, *, starves: bool = False) -> tuple[float, float]:
    """Let a process compute without end, until it is named: how long it had a CPU, and how long it took."""
    number = world.python("import sys\nsys.stdin.readline()\nwhile True: pass")
    world.time.settle()
    process = world.processes[number]
    assert process.stdin is not None
    others = []
    if starves:
        others = [subprocess.Popen([sys.executable, "-ISc", "while True: pass"]) for _ in range(3)]
        for pid in (process.pid, *(other.pid for other in others)):
            os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
    before_ns = had_cpu_ns(process.pid)
    world.time.touch(number)
    process.stdin.write("\n")
    process.stdin.flush()
    begun_s = time.monotonic()
    try:
        with pytest.raises(NotQuiet, match="runs on"):
            world.time.settle(limit_s)
        return (had_cpu_ns(process.pid) - before_ns) / S, time.monotonic() - begun_s
    finally:
        for other in others:
            other.kill()
            other.wait()
        world.end(number)


def had_cpu_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_a_process_is_named_by_the_cpu_time_that_it_had(world: World) -> None:
    """One that waits for a CPU on a busy machine does not compute without end."""
    cpu_s, took_s = named_when_it_spins(world, 0.5)
    assert cpu_s > 0.25 or took_s > 12 * 0.5
    assert cpu_s < 3, "not only after twelve times the limit"
    cpu_s, took_s = named_when_it_spins(world, 0.2, starves=True)
    assert cpu_s > 0.1 or took_s > 12 * 0.2


def test_a_wait_past_the_library_is_seen_in_a_thread_that_was_looked_at_before(
    world: World, tmp_path: Path
) -> None:
    program = static_program(tmp_path / "static", SLEEP)
    number = world.start("sh", "-c", f"read line; exec {program}")
    world.time.settle()
    for _ in range(2):
        assert world.time.unseen_wait(number) is None
    world.say(number, "")
    for _ in range(2):
        assert "(static) waits for real time" in (world.time.unseen_wait(number) or "")


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_a_script_that_does_not_end_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in it reads the clock, and so is given time by and by: minutes for each second of it."""
    monkeypatch.setattr(worlds, "COMPUTES_MAX_S", 2.0)
    with pytest.raises(UnknownOutcome) as raised:
        run_virtually("healthy", tmp_path, "lock.name=tests.locks_to_test.unusual:Endless")
    assert raised.value.seen.startswith("node-A: process ")
    assert "computes without end" in raised.value.seen
    assert "Lua script" in (raised.value.hint or "")
    history = tmp_path / "latest" / HISTORY
    assert '"end":true' in history.read_text().splitlines()[-1]
