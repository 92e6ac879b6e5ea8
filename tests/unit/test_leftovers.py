"""Whose run files are swept: those of dead labs, and no others."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import processes
from lab.cli.app import call
from lab.errors import ExitCode
from lab.processes import GONE_WITHIN_S, LOOK_EVERY_S, RUN_VARIABLE, kill_all, processes_of
from lab.substrates.cleanup import sweep
from lab.substrates.docker import cleanup as docker_leftovers
from lab.substrates.run_files import RunFile, Swept, boot_id


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCK_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")


def run_file(tmp_path: Path, **changed: Any) -> Path:
    """The run file of a lab like this one, except for what is changed."""
    scratch = tmp_path / "lock-lab-scratch"
    scratch.mkdir()
    path = RunFile("some-run", scratch).path
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return path


def test_a_lab_that_lives_keeps_what_it_has(tmp_path: Path) -> None:
    path = run_file(tmp_path)
    assert sweep() == []
    assert path.exists()


@pytest.mark.parametrize("changed", [{"started_at": "1"}, {"pid": 4194305}])
def test_a_dead_lab_leaves_nothing(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = run_file(tmp_path, **changed)
    assert sweep() == [Swept("some-run")]
    assert not path.exists()
    assert not (tmp_path / "lock-lab-scratch").exists()


def test_nothing_is_left_when_all_were_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process dies a moment after its signal: a large one on a busy machine, many milliseconds."""
    kill, late = os.kill, []

    def lately(pid: int, number: int) -> None:
        late.append(threading.Timer(0.1, kill, (pid, number)))
        late[-1].start()

    run_id = f"killed-{os.getpid()}"
    sleeps = [sys.executable, "-Sc", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(
        sleeps, stdout=subprocess.PIPE, env={**os.environ, RUN_VARIABLE: run_id}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", lately)
            assert kill_all(run_id) == [process.pid]
        assert processes_of(run_id) == []
        assert process.wait(0) < 0
        for timer in late:
            timer.cancel()


def test_what_the_kernel_does_not_let_go_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s: list[float] = []

    def wait(_r: object, _w: object, _x: object, seconds: float) -> None:
        slept_s.append(seconds)
        assert sum(slept_s) < 2 * GONE_WITHIN_S, "it waits for ever"

    monkeypatch.setattr(processes, "processes_of", lambda _: [7])
    monkeypatch.setattr(processes, "select", SimpleNamespace(select=wait))
    monkeypatch.setattr(os, "kill", lambda *_: None)
    assert kill_all("stuck") == [7]
    assert sum(slept_s) == pytest.approx(GONE_WITHIN_S, abs=2 * LOOK_EVERY_S)


def test_a_lab_in_another_pid_namespace_is_left_alone(tmp_path: Path) -> None:
    path = run_file(tmp_path, pid=4194305, pid_namespace="pid:[1]")
    assert sweep() == []
    assert path.exists()


def test_after_a_boot_no_lab_is_alive(tmp_path: Path) -> None:
    run_file(tmp_path, pid=4194305, pid_namespace="pid:[1]", boot="another")
    assert sweep() == [Swept("some-run")]


def test_a_damaged_run_file_is_swept(tmp_path: Path) -> None:
    run_file(tmp_path).write_text("{")
    assert sweep() == [Swept("some-run")]


def test_in_words() -> None:
    assert Swept("x", (1, 2)).words == "ended 2 processes"
    assert Swept("x", containers=9).words == "removed 9 containers"
    assert Swept("x", (1,), 9).words == "ended 1 processes, removed 9 containers"
    assert Swept("x").words == "ended 0 processes"
    assert Swept("x", containers=9).sentence == "cleaned up after a killed run (removed 9 containers)"
    kept = Swept("x", (1,), not_removed="no answer")
    assert kept.words.startswith("ended 1 processes; its containers may still run")
    assert kept.sentence.startswith("a killed run was not removed (")
    assert boot_id()


def test_nobody_sees_half_of_a_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[Swept] = []
    written: list[str] = []
    replace, write = Path.replace, Path.write_text

    def watched_replace(path: Path, target: Path) -> Path:
        swept.extend(sweep())
        return replace(path, target)

    def watched_write(path: Path, data: str) -> int:
        written.append(path.suffix)
        return write(path, data)

    monkeypatch.setattr(Path, "replace", watched_replace)
    monkeypatch.setattr(Path, "write_text", watched_write)
    path = RunFile("some-run", tmp_path / "lock-lab-scratch").path
    assert written == [".new"], "a sweep that comes now finds nothing to read"
    assert swept == []
    assert json.loads(path.read_text())["pid"]
    assert list(path.parent.iterdir()) == [path]


def test_a_run_that_ends_while_one_looks_is_no_dead_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run_file(tmp_path, pid=4194305)
    read = Path.read_text

    def ends(asked: Path, *arguments: Any, **more: Any) -> str:
        if asked == path:
            asked.unlink()
        return read(asked, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", ends)
    assert sweep() == []


@pytest.fixture
def silent_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of an engine that takes connections and says nothing."""
    monkeypatch.setattr(docker_leftovers, "LOOK_TIMEOUT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "silent.sock"))
        listener.listen(16)
        yield f"unix://{tmp_path}/silent.sock"


def test_without_an_answer_from_its_engine_a_run_keeps_its_files(tmp_path: Path, silent_engine: str) -> None:
    path = run_file(tmp_path, pid=4194305, containers=True, engine=silent_engine)
    for _ in range(2):
        (swept,) = sweep(everywhere=True)
        assert swept.run_id == "some-run"
        assert f"no docker engine answers at {silent_engine}" in (swept.not_removed or "")
        assert "its containers may still run" in swept.words
        assert path.exists()
        assert (tmp_path / "lock-lab-scratch").exists(), "its servers may still write there"


def test_a_run_whose_engine_is_gone_keeps_its_files(tmp_path: Path) -> None:
    path = run_file(tmp_path, pid=4194305, containers=True, engine=f"unix://{tmp_path}/gone")
    (swept,) = sweep()
    assert f"there is no socket at {tmp_path}/gone" in (swept.not_removed or "")
    assert path.exists()


def test_a_damaged_run_file_is_kept_while_an_engine_is_silent(
    tmp_path: Path, silent_engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", silent_engine)
    path = run_file(tmp_path)
    path.write_text("{")
    (swept,) = sweep()
    assert swept.not_removed is not None
    assert path.exists()


def test_down_does_not_say_that_nothing_is_left_if_it_could_not_ask(
    silent_engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["down"]) == ExitCode.EXPECTED
    assert "nothing was left running" in capsys.readouterr().out
    monkeypatch.setenv("DOCKER_HOST", silent_engine)
    assert call(["down"]) == ExitCode.UNKNOWN
    reported = capsys.readouterr()
    assert "whether containers were left is not known" in reported.out
    assert "nothing was left running" not in reported.out
    assert "repeat lab down" in reported.err
