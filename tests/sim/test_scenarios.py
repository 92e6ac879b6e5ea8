"""Every story that comes with the lab, and its control, in the simulation: each comes out as its file says.

That is also what the tests on real processes ask of them, so both substrates give the same verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.scenario.files import names
from lab.substrates.sim.patches import simulating
from tests.sim.simulated import run_in_simulation

SEED = 1
LONG = [name for name in names() if name.startswith(("chaos", "repeated-partitions"))]
"""Workloads of many seconds, which take a core for minutes; tests on real processes run them as well."""
SCENARIOS = [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in names()]


@pytest.fixture(autouse=True, scope="module")
def _patched() -> Iterator[None]:
    """To prepare the process takes longer than most stories: once is enough."""
    with simulating():
        yield


@pytest.mark.timeout(900)  # the long workloads take seconds of a core, which others may want as well
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_comes_out_as_its_file_says(scenario: str, tmp_path: Path) -> None:
    run = run_in_simulation(scenario, SEED, tmp_path)
    assert run.mismatches == ()
    assert run.unknown == ()
    lines = (run.directory / "history.jsonl").read_text().splitlines()
    nemesis = [event for event in map(json.loads, lines) if event.get("process") == "nemesis"]
    faults = [event for event in nemesis if event["type"] == "invoke"]
    receipts = [event for event in nemesis if event["type"] == "ok"]
    assert len(receipts) == len(faults), "every fault has a receipt"
