"""The cache: whole or not at all, checked when read, one provider at a time, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.tools import cache


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(b"#!/bin/sh\necho hello\n")
    return path


def test_published_is_found(program: Path, own_cache: Path) -> None:
    directory = cache.publish("t", "k", {"run": program}, version="1.2", origin="somewhere")
    found = cache.lookup("t", "k")
    assert found == cache.Cached(directory, "1.2")
    assert directory == own_cache / "tools" / "t" / "k"
    assert os.access(directory / "run", os.X_OK)
    assert (directory / "run").read_bytes() == program.read_bytes()
    assert [path.name for path in (own_cache / "tools").iterdir()] == ["t"], "no temporary directory is left"


@pytest.mark.parametrize("damage", ["truncated", "changed", "gone", "manifest", "manifest-gone", "no-files"])
def test_a_damaged_tool_is_not_found_and_can_be_replaced(program: Path, damage: str) -> None:
    directory = cache.publish("t", "k", {"run": program}, version="1", origin="x")
    content = program.read_bytes()
    match damage:
        case "truncated":
            (directory / "run").write_bytes(content[:-1])
        case "changed":
            (directory / "run").write_bytes(b"?" + content[1:])
        case "gone":
            (directory / "run").unlink()
        case "manifest":
            (directory / cache.MANIFEST).write_text("{")
        case "manifest-gone":
            (directory / cache.MANIFEST).unlink()
        case "no-files":
            (directory / cache.MANIFEST).write_text('{"version": "1", "origin": "x", "files": {}}')
    assert cache.lookup("t", "k") is None
    cache.publish("t", "k", {"run": program}, version="2", origin="x")
    found = cache.lookup("t", "k")
    assert found is not None
    assert found.version == "2"


def test_an_empty_cache_finds_nothing_and_writes_nothing(own_cache: Path) -> None:
    assert cache.lookup("t", "k") is None
    assert not own_cache.exists()


def test_scratch_is_removed_on_error_and_old_ones_too(own_cache: Path) -> None:
    old = own_cache / "tools" / ".tmp-killed"
    old.mkdir(parents=True)
    (old / "left").touch()
    os.utime(old, (time.time() - 2 * 86_400,) * 2)
    fresh = own_cache / "tools" / ".tmp-at-work"
    fresh.mkdir()
    with pytest.raises(FileExistsError), cache.scratch("t") as directory:
        os.mkdir(directory)  # noqa: PTH102
    assert [path.name for path in (own_cache / "tools").iterdir()] == [".tmp-at-work"]


def _hold(held: Event, let_go: Event) -> None:
    with cache.exclusive("t", lambda _: None):
        held.set()
        let_go.wait(60)


def test_exclusive_waits_for_the_other_process_and_says_so() -> None:
    context = multiprocessing.get_context("spawn")
    held, let_go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(held, let_go))
    other.start()
    assert held.wait(60)
    with pytest.raises(LabError, match="another process"), cache.exclusive("t", lambda _: None, timeout_s=0):
        pass
    with cache.exclusive("another", lambda _: None, timeout_s=0):
        pass
    said: list[str] = []

    def progress(line: str) -> None:
        said.append(line)
        let_go.set()  # only now: had we not waited, we would be here without having said so

    with cache.exclusive("t", progress):
        assert said == ["another process is providing t: waiting for it"]
    other.join(60)
    assert other.exitcode == 0


def test_the_lock_of_a_killed_process_is_free() -> None:
    context = multiprocessing.get_context("spawn")
    held, let_go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(held, let_go))
    other.start()
    assert held.wait(60)
    other.kill()
    other.join(60)
    with cache.exclusive("t", lambda _: None, timeout_s=0):
        pass


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, program: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(program / "below-a-file"))
    with pytest.raises(LabError, match="cannot be written"), cache.exclusive("t", lambda _: None):
        pass
    with pytest.raises(LabError, match="cannot be written"):
        cache.publish("t", "k", {"run": program}, version="1", origin="x")
    assert cache.lookup("t", "k") is None


def test_a_lock_file_that_cannot_be_opened(own_cache: Path) -> None:
    (own_cache / "tools" / ".t.lock").mkdir(parents=True)
    with pytest.raises(LabError, match="lock file cannot be used"), cache.exclusive("t", lambda _: None):
        pass
