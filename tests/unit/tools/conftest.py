"""A cache of its own for every test, and a PATH with nothing on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MakeProgram = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    cache = tmp_path / "own-cache"
    monkeypatch.setenv("LOCK_LAB_CACHE", str(cache))
    return cache


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeProgram:
    """Empties PATH and returns `make(name, shell_lines)`, which puts a program on it."""
    directory = tmp_path / "on-path"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("CC", raising=False)

    def make(name: str, lines: str) -> Path:
        program = directory / name
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
        return program

    return make
