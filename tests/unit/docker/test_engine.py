"""Where the engine is looked for, and which engines are refused, with what reason."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import substrates
from lab.errors import LabError
from lab.substrates.docker import engine
from lab.substrates.docker.engine import Endpoint, endpoint, no_engine_reason, unusable_reason
from tests.lab_process import ROOT


def context(directory: Path, name: str, host: str, *, current: bool) -> None:
    """Make a docker context as the docker command keeps it."""
    meta = directory / "contexts" / "meta" / name[::-1]
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    (directory / "config.json").write_text(json.dumps({"currentContext": name} if current else {}))


def test_the_variable_comes_first(tmp_path: Path) -> None:
    context(tmp_path, "mine", "unix:///mine", current=True)
    seen = {"DOCKER_HOST": "unix:///first", "DOCKER_CONTEXT": "mine", "DOCKER_CONFIG": str(tmp_path)}
    assert endpoint(seen) == Endpoint("unix:///first", "DOCKER_HOST")


@pytest.mark.parametrize("by", ["variable", "configuration"])
def test_a_context_is_honoured(tmp_path: Path, by: str) -> None:
    context(tmp_path, "other", "unix:///other", current=False)
    context(tmp_path, "mine", "unix:///mine", current=by == "configuration")
    reported = {"DOCKER_CONTEXT": "mine"} if by == "variable" else {}
    assert endpoint({"DOCKER_CONFIG": str(tmp_path), **reported}).host == "unix:///mine"


def test_a_context_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no docker context 'gone'"):
        endpoint({"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "gone"})


@pytest.mark.parametrize("config", ["", "{", "[]", '{"currentContext": ""}', '{"currentContext": "default"}'])
def test_else_the_default_socket(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert endpoint({"DOCKER_CONFIG": str(tmp_path)}).host == engine.DEFAULT_SOCKET


@pytest.mark.parametrize("host", ["tcp://10.0.0.1:2375", "ssh://me@there"])
def test_a_remote_engine_is_refused_without_being_asked(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    reason = no_engine_reason()
    assert reason is not None
    assert host in reason
    assert "monotonic clock" in reason


def test_a_socket_behind_which_nobody_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert "Connection refused" in (no_engine_reason() or "")


def test_an_engine_that_never_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "LOOK_TIMEOUT_S", 1)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
        assert "time" in (no_engine_reason() or "").casefold()


GOOD: dict[str, Any] = {"OSType": "linux", "KernelVersion": os.uname().release, "SecurityOptions": ["name=x"]}


@pytest.mark.parametrize(
    ("reported", "word"),
    [
        ({}, None),
        ({"SecurityOptions": None}, None),
        ({"OSType": "windows"}, "windows"),
        ({"KernelVersion": "6.6.6-linuxkit"}, "linuxkit"),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "rootless"),
        ({"SecurityOptions": ["name=userns"]}, "other ids"),
    ],
)
def test_what_an_engine_says_about_itself(reported: dict[str, Any], word: str | None) -> None:
    reason = unusable_reason(GOOD | reported, Endpoint("unix:///s", "here"))
    assert (reason is None) if word is None else (reason is not None and word in reason)


def test_without_an_engine_auto_is_local_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    name, why = substrates.choose("auto")
    assert name == "local"
    assert "no socket" in why
    with pytest.raises(LabError, match="no socket"):
        substrates.choose("docker")


def test_without_a_socket_the_sdk_is_not_even_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from lab.substrates import choose; print(choose('auto')[0]);"
        "print([name for name in ('docker', 'requests') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split("\n")[:2] == ["local", "[]"]
