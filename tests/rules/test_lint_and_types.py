"""Lint, format and types: the same tools that people call, with the same settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "--no-cache", "."], ["ruff", "format", "--check", "--no-cache", "."], ["mypy"]],
    ids=lambda command: " ".join(command[:2]),
)
def test_clean(command: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
