"""The benchmarks run on real nodes to their end and print all lines; figures are not judged."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.consensus import installed
from benchmarks.peers import OURS, TABLES
from benchmarks.persistence import CLUSTERS
from benchmarks.split_vote import VARIANTS
from lab.drivers.environment import why_not
from tests.lab_process import ROOT

pytestmark = pytest.mark.full


def is_there(name: str) -> bool:
    """Whether a contender of the peers can be measured here; the others are left out, with a reason."""
    return name in OURS or why_not(name.split()[0]) is None


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (("split_vote", "--rounds", "1", "--clients", "2"), [variant.name for variant in VARIANTS]),
        (("persistence", "--rounds", "1", "--pairs", "1"), list(CLUSTERS)),
        pytest.param(
            ("consensus", "--rounds", "1", "--pairs", "1", "--clients", "1"),
            [row.name for row in installed()],
            marks=pytest.mark.slow,  # it starts every service that is installed
        ),
        pytest.param(
            ("peers", "--rounds", "1", "--seconds", "0.05", "--clients", "2"),
            [row for table in TABLES for name, row in table.rows.items() if is_there(name)],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_short_one_prints_its_table(arguments: tuple[str, ...], rows: list[str]) -> None:
    name, *more = arguments
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(any(line.startswith(row) for line in run.stdout.splitlines()) for row in rows), run.stdout
    assert "load" in run.stdout.splitlines()[0]
