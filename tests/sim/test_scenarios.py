"""Every scenario that comes with the lab, with its control, in the simulation: each ends as its file says.

That is also what the tests on real processes ask of them, so both substrates give the same verdicts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.scenario.files import ordinary_names
from lab.scenario.load import load_scenario
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

SEED = 1
SHORTER = "workload.duration=3s"
"""`make test` runs workloads for less time than their files say; `make test-all` for all of it as well."""
WORKLOADS = (
    *("chaos", "chaos-cas", "chaos-cas-control", "chaos-control"),
    *("repeated-partitions", "repeated-partitions-control"),
)


@pytest.mark.timeout(900)  # the long workloads take seconds of a core, which others may want as well
@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        *(pytest.param(name, [SHORTER] if name in WORKLOADS else [], id=name) for name in ordinary_names()),
        *(pytest.param(name, [], marks=pytest.mark.full, id=f"{name}-whole") for name in WORKLOADS),
    ],
)
def test_it_comes_out_as_its_file_says(scenario: str, settings: list[str], tmp_path: Path) -> None:
    run = run_in_simulation(scenario, SEED, tmp_path, settings)
    assert run.mismatches == ()
    assert run.unknown == ()
    lines = (run.directory / "history.jsonl").read_text().splitlines()
    nemesis = [event for event in map(json.loads, lines) if event.get("process") == "nemesis"]
    faults = [event for event in nemesis if event["type"] == "invoke"]
    receipts = [event for event in nemesis if event["type"] == "ok"]
    assert len(receipts) == len(faults), "every fault has a receipt"


def test_those_with_a_workload_are_known() -> None:
    have = [name for name in ordinary_names() if load_scenario(name).scenario.workload is not None]
    assert sorted(have) == sorted(WORKLOADS)
