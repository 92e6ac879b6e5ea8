"""Every scenario that comes with the lab, with its control, on real processes: each ends as its file says.

`lab suite` makes the runs before the tests that ask for them; the command itself is tested at the end.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lab.errors import ExitCode
from lab.processes import processes_of
from lab.scenario.files import names
from tests.lab_process import MARK, Lab
from tests.shipped import summaries

pytestmark = pytest.mark.full

JOBS = 3
UNTIL_IT_STARTS_S = 60


Runs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Scenario → its run, for every one that a selected test of this module asks for, and its control."""
    wanted = [
        str(item.callspec.params["scenario"])
        for item in request.session.items
        if item.path == Path(__file__)
        and isinstance(item, pytest.Function)
        and "scenario" in getattr(getattr(item, "callspec", None), "params", {})
    ]
    scenarios = {summary.name: summary.control_of or summary.name for summary in summaries().values()}
    return table(Lab(tmp_path_factory.mktemp("runs")), dict.fromkeys(scenarios[name] for name in wanted))


def table(lab: Lab, scenarios: Iterable[str]) -> Runs:
    """Run these scenarios with their controls."""
    process = lab.start("suite", *scenarios, "--jobs", str(JOBS), "--json")
    out, err = process.communicate(timeout=900)
    assert process.returncode in (0, 1, 3), err
    assert processes_of(lab.mark, MARK) == []
    return {cell["scenario"]: row for cell in json.loads(out)["cells"] for row in cell["rows"]}


@pytest.mark.timeout(1000)  # the first one waits for all
@pytest.mark.parametrize("scenario", names())
def test_it_comes_out_as_its_file_says(runs: Runs, lab: Lab, scenario: str) -> None:
    run = runs.pop(scenario, None) or table(lab, [scenario])[scenario]
    if run["exit_code"] == ExitCode.UNKNOWN:  # a machine that is too busy for what the scenario presupposes
        run = table(lab, [scenario])[scenario]
    assert run["exit_code"] == 0, run
    assert run["receipts"] == run["faults"], "every fault has a receipt"


LONG = """
title: A scenario that does not end by itself
source: a test
why: To be interrupted.
clients: [alice]
steps: [{do: alice acquires}, {wait: 60s}]
expect: {mutual_exclusion: ok}
"""


def test_a_scenario_and_its_control_in_one_line(lab: Lab) -> None:
    run = lab("suite", "partition-clockjump", "--jobs", "2", "--json", "--markdown", "table.md")
    assert run.code == 0, run.err
    reported = json.loads(run.out)
    assert reported["exit_code"] == 0
    rows = {cell["scenario"]: cell["rows"][0] for cell in reported["cells"]}
    assert set(rows) == {"partition-clockjump", "partition-clockjump-control"}
    scenario = rows["partition-clockjump"]
    assert scenario["outcomes"]["mutual_exclusion"] == "violated"
    assert scenario["receipts"] == scenario["faults"] >= 3
    assert scenario["wall_s"] > scenario["steps_s"] > 0
    assert (Path(scenario["directory"]) / "verdict.json").exists()
    (line,) = (one for one in (lab.directory / "table.md").read_text().splitlines() if "clockjump" in one)
    assert line.startswith("| partition-clockjump | ")
    assert "| exclusion, fencing, resource violated" in line
    assert line.count("| 1 of 1 |") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_running(lab: Lab, number: signal.Signals) -> None:
    (lab.directory / "long.yaml").write_text(LONG)
    process = lab.start("suite", "long.yaml", "--repeat", "3", "--jobs", "2")
    wait_for_acquires(lab, process, 2)
    process.send_signal(number)
    run = lab.ended(process)
    assert run.code == 130, run.out + run.err
    assert "interrupted" in run.err
    assert processes_of(lab.mark, MARK) == []


def wait_for_acquires(lab: Lab, process: subprocess.Popen[str], count: int) -> None:
    """Wait until so many runs of a table have a client that acquired."""
    give_up = time.monotonic() + UNTIL_IT_STARTS_S
    while time.monotonic() < give_up and process.poll() is None:
        logs = lab.directory.glob("reports/suite-*/long-*/events/*.jsonl")
        if sum(_acquired(log) for log in logs) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("the runs never came that far")


def _acquired(log: Path) -> bool:
    events = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return any(event["f"] == "acquire" and event["type"] == "ok" for event in events)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_scenario_comes_out_the_same_ten_times(lab: Lab) -> None:
    process = lab.start("suite", "--library", "--repeat", "10", "--jobs", str(JOBS), "--json")
    out, err = process.communicate(timeout=7000)
    assert process.returncode == 0, err
    assert all(cell["runs"] == 10 for cell in json.loads(out)["cells"])
