"""A defect has one set of numbers: its picture is of the schedule that the text was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.history.history import STEPS
from lab.api.runs import run
from lab.examine.answer.keep import keep
from lab.examine.answer.picture import timeline_of
from lab.examine.ledger.finders import all_violations
from lab.run.events import Listener, RunEvent
from lab.run.request import RunRequest
from lab.search.runner import run_trial, trials
from tests.sim.shown_trials import CASES
from tests.unit.examine.test_output import defect, examined

pytestmark = pytest.mark.usefixtures("_patched")


def test_the_picture_of_a_defect_has_the_numbers_of_its_text(tmp_path: Path) -> None:
    finding, trial = CASES["a bare DEL after the lease"]
    with trials():
        found = all_violations(run_trial(trial))[finding]
        one = defect(findings=(finding,), headline=found.headline, evidence=found.evidence, trial=trial)
        timeline = timeline_of(one)
    (band,) = timeline.bands
    assert band.words.partition(" for ")[2] == found.headline.partition(" for ")[2]
    (text,) = timeline.findings
    assert found.headline in text.why
    assert all(line in text.why for line in found.evidence)
    assert "assumption" not in text.why
    assert timeline.notes == ["within the assumptions of the lock's kind"]
    assert {outcome for _, outcome in timeline.verdict} == {"violated"}
    lost = {(node.name, loss.words) for node in timeline.nodes for loss in node.losses}
    assert lost == {(name, "alice’s DEL") for name in trial.node_names}, "the act is blamed, not the symptom"
    assert not any(node.losses for node in timeline.nodes if node.name not in trial.node_names)


def test_what_happened_counts_from_the_same_time_as_the_evidence(tmp_path: Path) -> None:
    finding, trial = CASES["a bare DEL after the lease"]
    with trials():
        found = all_violations(run_trial(trial))[finding]
    one = defect(findings=(finding,), headline=found.headline, evidence=found.evidence, trial=trial)
    (kept,) = keep(examined(one), tmp_path, command="lab test", pictures=False).examined.defects
    assert kept.happened[0].startswith("0 ms: Alice acquires"), (
        "the client calls as soon as the cluster is up"
    )
    acquired = next(line for line in reversed(kept.happened) if "Alice acquires: granted" in line)
    assert f"alice: acquired at {acquired.partition(': ')[0]}" in found.evidence[0]


class Stamps(Listener):
    """Keeps when each event of the output was reported."""

    def __init__(self) -> None:
        self.seen: list[RunEvent] = []

    def event(self, event: RunEvent) -> None:
        self.seen.append(event)


def test_the_output_counts_from_the_same_time_as_the_verdict(tmp_path: Path) -> None:
    stamps = Stamps()
    result = run(RunRequest("partition-clockjump", (), seed=3, substrate="sim", out=tmp_path), stamps).result
    history = result.history
    assert history.zero_ns > history.start_ns, "bringing a cluster up takes time, also in simulation"
    assert [record.value for record in history.lab if record.time_ns == history.zero_ns][-1:] == [STEPS]
    up = next(event for event in stamps.seen if "up and healthy" in event.text)
    assert up.at_ns == 0
    (jump,) = [event for event in stamps.seen if event.text.startswith("jump:")]
    (fault,) = [fault for fault in history.faults if fault.f == "jump" and fault.heals is None]
    (overlap,) = result.verdict.named("overlap")
    assert overlap.cause is not None
    assert overlap.cause.offset_ns == fault.start_ns - history.zero_ns
    assert jump.at_ns is not None
    assert fault.start_ns <= jump.at_ns + history.zero_ns <= fault.receipt_ns + 1_000_000
