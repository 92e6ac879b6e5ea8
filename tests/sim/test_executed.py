"""The history of a run tells when the store carried out what."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.formats import load
from checker.history.evidence import Evidence
from checker.history.operations import F, Status
from lab.report.timeline.store import executions
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

MS = 1_000_000
CHAOS = pytest.param("chaos-cas", marks=pytest.mark.full)


@pytest.mark.parametrize("name", ["delayed-write", "delayed-write-fenced", "redlock-cas", CHAOS])
def test_each_answered_write_was_carried_out_once_between_call_and_return(name: str, tmp_path: Path) -> None:
    directory = run_in_simulation(name, 7, tmp_path).directory
    evidence = Evidence(load(directory / "history.jsonl"))
    ops = evidence.ops
    reported = [one for _, one in executions(evidence) if one["f"] == "write"]
    stamps = {(one["grant_id"], one["value"]): one for one in reported}
    assert len(stamps) == len(reported)
    answered = [row for row in ops.rows(F.WRITE).tolist() if ops.status[row] != Status.INFO]
    assert answered
    for row in answered:
        one = stamps[ops.name("grant", row), ops.name("value", row)]
        least_ns, most_ns = one["ran_ns"]
        assert least_ns <= most_ns <= least_ns + 1000
        assert ops.call_ns[row] - 1000 <= least_ns
        assert most_ns <= ops.return_ns[row] + 1000
        accepted = ops.status[row] == Status.OK
        assert one.get("version") == (int(ops.version_written[row]) if accepted else None)


def test_a_held_write_is_carried_out_after_the_lease_it_was_called_in(tmp_path: Path) -> None:
    directory = run_in_simulation("delayed-write", 7, tmp_path).directory
    evidence = Evidence(load(directory / "history.jsonl"))
    bob, alice = (one for _, one in executions(evidence))
    assert (bob["grant_id"], alice["grant_id"]) == ("bob-1", "alice-1")
    end_ns = int(evidence.guaranteed.end_ns[0])
    called_ns = int(evidence.ops.call_ns[evidence.ops.rows(F.WRITE)].min())
    assert called_ns < end_ns < alice["ran_ns"][0]


def test_a_token_is_announced_while_its_acquire_goes_on(tmp_path: Path) -> None:
    directory = run_in_simulation("redlock-cas", 7, tmp_path).directory
    evidence = Evidence(load(directory / "history.jsonl"))
    ops = evidence.ops
    announced = {one["token"]: one["ran_ns"] for _, one in executions(evidence) if one["f"] == "announce"}
    granted = ops.rows(F.ACQUIRE, Status.OK).tolist()
    assert len(granted) == 2
    for row in granted:
        least_ns, most_ns = announced[ops.name("token", row)]
        assert ops.call_ns[row] - 1000 <= least_ns
        assert most_ns <= ops.return_ns[row] + 1000
