"""Every story that comes with the lab, and its control, in the simulation: each comes out as its file says.

That is also what the tests on real processes ask of them, so both substrates give the same verdicts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.scenario.files import ordinary_names
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

SEED = 1


@pytest.mark.timeout(900)  # the long workloads take seconds of a core, which others may want as well
@pytest.mark.parametrize("scenario", ordinary_names())
def test_it_comes_out_as_its_file_says(scenario: str, tmp_path: Path) -> None:
    run = run_in_simulation(scenario, SEED, tmp_path)
    assert run.mismatches == ()
    assert run.unknown == ()
    lines = (run.directory / "history.jsonl").read_text().splitlines()
    nemesis = [event for event in map(json.loads, lines) if event.get("process") == "nemesis"]
    faults = [event for event in nemesis if event["type"] == "invoke"]
    receipts = [event for event in nemesis if event["type"] == "ok"]
    assert len(receipts) == len(faults), "every fault has a receipt"
