"""Whose run files are swept: those of dead labs, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab import leftovers
from lab.leftovers import RunFile, Swept, sweep


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "cache"))
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


@pytest.mark.parametrize(
    "changed", [{"started_at": "1"}, {"pid": 4194305}, {"containers": True, "pid": 4194305}]
)
def test_a_dead_lab_leaves_nothing(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = run_file(tmp_path, **changed)
    assert sweep() == [Swept("some-run")]
    assert not path.exists()
    assert not (tmp_path / "lock-lab-scratch").exists()


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
    assert leftovers.boot_id()


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
