"""What is imported for a run that needs little: whoever waits for a verdict waits for every import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "dask",
    "docker",
    "hypothesis",
    "matplotlib",
    "networkx",
    "numba",
    "polars",
    "redis",
    "scipy",
}
"""What a simulated run without pictures does without."""
NOT_FOR_CLIENTS = HEAVY | {"numpy", "pydantic", "rich", "typer", "yaml"}
"""What no client's process needs; there are two to nine of them in a run."""


def imported(code: str, among: set[str]) -> str:
    """Which of these were imported, after this code ran in a process of its own."""
    more = f"import sys; print(sorted(set({sorted(among)!r}) & sys.modules.keys()))"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\n{more}"], capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()[-1]


def test_a_simulated_run_imports_nothing_heavy(tmp_path: Path) -> None:
    words = ["run", "healthy", "--on", "sim", "--picture", "never", "--out", str(tmp_path), "--seed", "1"]
    among = HEAVY | {"lab.tools", "rich._emoji_codes", "urllib.request"}
    assert imported(f"from lab.cli.app import call\nassert call({words!r}) == 0", among) == "[]"


def test_a_clients_process_imports_little() -> None:
    assert imported("import lab.client.__main__", NOT_FOR_CLIENTS) == "[]"


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(NOT_FOR_CLIENTS - {"dask", "polars", "numba"}))
def test_what_is_looked_for_would_be_seen(name: str) -> None:
    assert imported(f"import {name}", {name}) == f"['{name}']"
