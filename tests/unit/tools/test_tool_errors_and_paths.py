"""Errors that users read, and the places where the lab keeps things."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import paths
from lab.errors import ExitCode, LabError, UnknownOutcome, did_you_mean


def test_render_has_a_line_for_each_known_field() -> None:
    error = LabError(
        "ttl is 10", where="a.yaml:12, key `lock.ttl`", expected="a duration\nwith a unit", hint="10s"
    )
    assert error.render().splitlines() == [
        "error: ttl is 10",
        "  where: a.yaml:12, key `lock.ttl`",
        "  expected: a duration",
        "    with a unit",
        "  hint: 10s",
    ]
    assert LabError("short").render() == "error: short"
    assert str(error) == error.render()


def test_exit_codes() -> None:
    assert LabError("x").exit_code == ExitCode.USAGE
    assert UnknownOutcome("x").exit_code == ExitCode.UNKNOWN
    assert isinstance(UnknownOutcome("x"), LabError)
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 130]


def test_did_you_mean() -> None:
    assert did_you_mean("reslock", ["redlock", "fenced"]) == "redlock"
    assert did_you_mean("REDLOK", ["Redlock", "fenced"]) == "Redlock"
    assert did_you_mean("zzz", ["redlock"]) is None
    assert did_you_mean("x", []) is None


def test_cache_dir_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LOCK_LAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert paths.cache_dir() == tmp_path / ".cache" / "lock-lab"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert paths.cache_dir() == tmp_path / ".cache" / "lock-lab"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert paths.cache_dir() == Path("/xdg/lock-lab")
    monkeypatch.setenv("LOCK_LAB_CACHE", "~/chosen")
    assert paths.cache_dir() == tmp_path / "chosen"
    assert paths.tools_dir() == tmp_path / "chosen" / "tools"
    monkeypatch.delenv("LOCK_LAB_STATE")
    assert paths.state_dir() == tmp_path / "chosen" / "state"
    monkeypatch.setenv("LOCK_LAB_STATE", "~/state")
    assert paths.state_dir() == tmp_path / "state"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCK_LAB_CACHE", "here")
    assert paths.cache_dir() == tmp_path / "here"
    assert not (tmp_path / "here").exists()


def test_writable_dir_creates(tmp_path: Path) -> None:
    assert paths.writable_dir(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # root may write anywhere, but nobody can make a directory below a file
    with pytest.raises(LabError) as caught:
        paths.writable_dir(tmp_path / "file" / "cache")
    assert "cannot be written" in caught.value.seen
    assert caught.value.where == str(tmp_path / "file" / "cache")
    assert "LOCK_LAB_CACHE" in (caught.value.hint or "")


def test_scenario_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "site" / "lab"
    package.mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(package / "paths.py"))
    with pytest.raises(LabError, match="scenarios"):
        paths.scenario_dir()
    (package.parent / "scenarios").mkdir()
    assert paths.scenario_dir() == package.parent / "scenarios"
    (package / "_scenarios").mkdir()
    assert paths.scenario_dir() == package / "_scenarios"
