"""`lab suite` under faults of its own: what is killed is unknown, what had ended is kept, nothing is left."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.batch.choose import last_codes
from tests.lab_process import Lab, alive, below, children_of, part

pytestmark = pytest.mark.full

PATIENT = "lock={name: redlock, ttl: 120s, options: {node_timeout: 30s}}"
"""However slow the machine is, the lock can be had."""
WAITS = "steps=[{do: carol acquires}, {wait: 300s}]"
LONG = f"""
title: One that ends, one that goes on for long, and one more
cases:
  - {{scenarios: healthy, on: sim}}
  - {{scenarios: healthy, on: local, set: ["{PATIENT}", "clients=[carol]", "{WAITS}"]}}
  - {{scenarios: healthy, on: local, set: ["{PATIENT}"]}}
"""
SIM, WAITING, REAL = "healthy/redlock/sim", "healthy/redlock/local", "healthy/redlock/local#2"


def started(lab: Lab) -> tuple[int, Path]:
    """The suite, in which one run has ended and one goes on: its process id, and that run's directory."""
    (lab.directory / "long.yaml").write_text(LONG)
    process = lab.start("suite", "long.yaml", "--junit", "junit.xml", "--jobs", "1")
    return process.pid, lab.wait_for_event("acquire", "carol", reports="reports/suite-*")


def run_of(suite: int) -> int:
    """The run that goes on: the process below the suite that has servers."""
    (found,) = (pid for pid in below(suite) if "redis-server" in "".join(children_of(pid).values()))
    return found


def remembered(lab: Lab) -> dict[str, int]:
    """How each entry of that suite ended, as the next one will know."""
    return last_codes(lab.directory / "reports", "long")


def test_what_a_killed_suite_was_running_tears_down_by_itself(lab: Lab) -> None:
    suite, directory = started(lab)
    os.kill(suite, signal.SIGKILL)
    lab.wait_until_nothing_runs()
    last = json.loads((directory / "history.jsonl").read_text().splitlines()[-1])
    assert last["end"] is True
    assert lab("check", str(directory)).code == 3, "an interrupted run proves nothing"
    assert remembered(lab) == {SIM: 0}
    (lab.directory / "long.yaml").write_text(
        LONG.replace("{do: carol acquires}, {wait: 300s}", "{do: carol works}")
    )
    again = lab("suite", "long.yaml", "--since-failure", "--json")
    assert again.code == 0, again.out + again.err
    assert [cell["id"] for cell in json.loads(again.out)["cells"]] == [WAITING, REAL]
    assert remembered(lab) == {SIM: 0, WAITING: 0, REAL: 0}


@pytest.mark.slow
def test_what_a_suite_and_its_run_leave_that_are_killed_together_is_ended_by_down(lab: Lab) -> None:
    suite, directory = started(lab)
    run = run_of(suite)
    servers = children_of(run)
    for pid in (suite, run):
        os.kill(pid, signal.SIGKILL)
    assert len(alive(servers)) >= 7, "servers do not notice that the lab is gone"
    down = lab("down")
    assert down.code == 0, down.out + down.err
    assert alive(servers) == []
    lab.wait_until_nothing_runs()
    assert lab("check", str(directory)).code == 3, "a history without its end proves nothing"


@pytest.mark.parametrize(
    ("victim", "words"),
    [
        ("the run itself", "its process ended: SIGKILL"),
        ("toxiproxy-server", "toxiproxy ended by itself"),
        pytest.param("C", "C ended by itself", marks=pytest.mark.slow),
        pytest.param("store", "store ended by itself", marks=pytest.mark.slow),
        pytest.param("lab.client", "carol ended by itself", marks=pytest.mark.slow),
    ],
)
def test_what_dies_unasked_makes_its_run_unknown_and_no_other(lab: Lab, victim: str, words: str) -> None:
    suite, _ = started(lab)
    run = run_of(suite)
    servers = children_of(run)
    os.kill(run if victim == "the run itself" else part(run, victim), signal.SIGKILL)
    ended = lab.ended(lab.started[0])
    assert ended.code == 3, ended.out + ended.err
    assert "Traceback" not in ended.err
    assert "2 of 3 as expected, 0 not, 1 unknown" in ended.out
    assert words in ended.out
    assert alive(servers) == []
    root = ElementTree.parse(lab.directory / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "0", "1")
    assert words in str([error.get("message") for error in root.iter("error")])
    assert remembered(lab) == {SIM: 0, WAITING: 3, REAL: 0}
