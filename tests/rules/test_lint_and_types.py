"""Lint, format and types: the same tools that people call, with the same settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


COMMANDS = [
    ["ruff", "check", "--no-cache", "."],
    ["ruff", "format", "--check", "--no-cache", "."],
    ["mypy", "lab", "checker", "benchmarks"],
    pytest.param(["mypy"], marks=pytest.mark.full),  # the tests as well: a third of the time of all
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_clean(command: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
