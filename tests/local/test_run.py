"""The main job as its user runs it: scenarios on real processes, their verdicts, their exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.processes import processes_of
from tests.lab_process import MARK, Ended, Lab

CLEAN = {"ok", "absent"}
PAUSES = ("gc-pause-after-acquire", "gc-pause-in-flight", "pause-before-write")


@pytest.fixture(scope="module")
def clockjump(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Ended]]:
    """One run of the main job, for all tests that only look at what it left."""
    lab = Lab(tmp_path_factory.mktemp("clockjump"))
    lab.draws = True
    yield lab, lab("run", "partition-clockjump", "--seed", "7")
    assert processes_of(lab.mark, MARK) == []


def test_partition_clockjump_is_violated_as_expected(clockjump: tuple[Lab, Ended]) -> None:
    _, run = clockjump
    assert run.code == 0, run.err
    assert run.outcomes["mutual_exclusion"] == "violated"
    assert run.outcomes["fencing"] == "violated"
    assert run.outcomes["resource"] == "violated"
    assert run.outcomes["lease_honesty"] == "ok"
    assert {"overlap", "unfenced-write", "lost-update"} <= set(run.findings)
    (overlap,) = [
        finding
        for finding in run.verdict["verdict"]["properties"]["mutual_exclusion"]["findings"]
        if finding["name"] == "overlap"
    ]
    assert overlap["details"]["overlap_ns"] > 9_000_000_000
    assert "bounded clock error" in overlap["broken_assumption"]
    assert "VIOLATED" in run.out
    assert re.search(r"alice.*bob|bob.*alice", run.out)
    for name in ("scenario.yaml", "history.jsonl", "verdict.json", "timeline.svg", "timeline.png", "logs"):
        assert (run.directory / name).exists(), name
    assert not (run.directory / "events").exists()


@pytest.mark.full
def test_who_runs_many_draws_only_the_unexpected(lab: Lab) -> None:
    expected = lab("run", "healthy", "--picture", "unexpected")
    assert expected.code == 0
    assert list(expected.directory.glob("timeline.*")) == []
    surprise = lab(
        "run", "healthy", "--picture", "unexpected", "--set", "expect={mutual_exclusion: violated}"
    )
    assert surprise.code == 1
    assert len(list(surprise.directory.glob("timeline.*"))) == 2


def test_the_receipts_prove_that_the_faults_took_effect(clockjump: tuple[Lab, Ended]) -> None:
    _, run = clockjump
    receipts = {
        event["f"]: event["receipt"]
        for event in run.events
        if event["process"] == "nemesis" and event["type"] == "ok"
    }
    assert abs(receipts["jump"]["moved_ms"] - 11_000) < 1_000
    for shown in receipts["cut"].values():
        assert shown["probe_arrived"] is False
        assert shown["probe_around_ms"] is not None
    held = {
        (event["node"], event["token"])
        for event in run.events
        if event["process"] == "node" and event["f"] == "key-set"
    }
    tokens = {
        event["process"]: event["token"]
        for event in run.events
        if event["f"] == "acquire" and event["type"] == "ok"
    }
    assert held == {(node, tokens["alice"]) for node in "ABC"} | {(node, tokens["bob"]) for node in "CDE"}


@pytest.mark.parametrize(
    "control",
    [
        "partition-clockjump-control",
        pytest.param("healthy", marks=pytest.mark.full),
        *(pytest.param(f"{name}-control", marks=pytest.mark.full) for name in PAUSES),
    ],
)
def test_controls_come_out_clean(lab: Lab, control: str) -> None:
    run = lab("run", control)
    assert run.code == 0, run.out + run.err
    assert set(run.outcomes.values()) <= CLEAN | {"unknown"}, run.outcomes
    assert run.outcomes["mutual_exclusion"] == run.outcomes["resource"] == "ok"


@pytest.mark.full
@pytest.mark.parametrize("scenario", ["gc-pause-after-acquire", "pause-before-write"])
def test_a_pause_ends_in_a_stale_write(lab: Lab, scenario: str) -> None:
    run = lab("run", scenario)
    assert run.code == 0, run.out + run.err
    assert run.outcomes["mutual_exclusion"] == "ok"
    assert run.outcomes["fencing"] == "violated"
    assert "stale-write" in run.findings
    stalls = [event for event in run.events if event["f"] == "stall" and event["process"] == "alice"]
    assert stalls, "the paused client's own heartbeat must show the gap"


@pytest.mark.full
def test_a_pause_in_flight_is_caught_by_the_look_at_the_clock(lab: Lab) -> None:
    run = lab("run", "gc-pause-in-flight")
    assert run.code == 0, run.out + run.err
    assert run.outcomes["mutual_exclusion"] == "ok"
    (refusal,) = [
        event
        for event in run.events
        if event["f"] == "acquire" and event["type"] == "fail" and event["process"] == "alice"
    ]
    assert "no time was left" in refusal["error"]


@pytest.mark.full
def test_a_wrong_expectation_is_exit_1_and_says_how_to_repeat(lab: Lab) -> None:
    run = lab("run", "partition-clockjump", "--set", "expect={mutual_exclusion: ok}", "--seed", "3")
    assert run.code == 1
    assert "expected mutual_exclusion: ok, saw violated" in run.out
    last = run.err.strip().splitlines()[-1]
    assert last.startswith("repeat: lab run partition-clockjump --seed 3")
    assert "'expect={mutual_exclusion: ok}'" in last


@pytest.mark.full
def test_what_is_not_mentioned_must_not_be_violated(lab: Lab) -> None:
    run = lab("run", "partition-clockjump", "--set", "expect={lease_honesty: ok}")
    assert run.code == 1
    assert "expected mutual_exclusion: not violated" in run.out


@pytest.mark.full
def test_the_sequential_lock_falls_the_same_way(lab: Lab) -> None:
    run = lab("run", "partition-clockjump", "--lock", "redlock-sequential")
    assert run.code == 0, run.out + run.err
    assert run.outcomes["mutual_exclusion"] == "violated"


def test_check_repeats_the_verdict_of_a_stored_run(clockjump: tuple[Lab, Ended]) -> None:
    lab, run = clockjump
    before = json.loads((run.directory / "verdict.json").read_text())
    again = lab("check", "reports/latest")
    assert again.code == 0, again.out + again.err
    after = json.loads((run.directory / "verdict.json").read_text())
    assert after == before
    history = lab("check", str(run.directory / "history.jsonl"), "--json")
    assert history.code == 0
    assert json.loads(history.out)["verdict"] == before["verdict"]


@pytest.mark.full
def test_two_labs_side_by_side(lab: Lab) -> None:
    first = lab.start("run", "partition-clockjump")
    second = lab.start("run", "partition-clockjump-control")
    assert lab.ended(first).code == 0
    assert lab.ended(second).code == 0
    runs = [path for path in (lab.directory / "reports").iterdir() if not path.is_symlink()]
    assert len(runs) == 2


@pytest.mark.full
def test_json_on_stdout_is_all_there_is(lab: Lab) -> None:
    run = lab("run", "healthy", "--json")
    assert json.loads(run.out)["exit_code"] == 0
    assert run.code == 0


@pytest.mark.full
def test_a_scenario_from_a_file_and_reports_elsewhere(lab: Lab, tmp_path: Path) -> None:
    shown = lab("list", "partition-clockjump-control")
    (tmp_path / "mine.yaml").write_text(shown.out)
    lab.draws = True
    run = lab("run", "mine.yaml", "--out", "elsewhere/deep")
    assert run.code == 0, run.err
    assert (tmp_path / "elsewhere/deep/latest/timeline.png").stat().st_size > 10_000
