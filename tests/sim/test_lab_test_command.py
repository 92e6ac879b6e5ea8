"""``lab test``: exit codes, files, replay, from Python; a budget counts schedules here, and not seconds."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from junitparser import JUnitXml

from lab import Lab
from lab.cli.app import call
from lab.errors import LabError, UnknownOutcome
from lab.examine.answer.narrative import narrate
from lab.examine.examination import Examination, Progress
from lab.examine.result import decode
from lab.faults.cut import Cut
from lab.faults.jump import Jump
from lab.locks.broken.grants import SetWithoutNx
from lab.scenario.load import load_scenario
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.loop import Budget
from lab.search.replay import read_trial
from lab.search.runner import Outcome, run_trial, trials
from lab.search.trial import Round, Trial

pytestmark = pytest.mark.usefixtures("_patched")

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = "1700s"
"""So many looks at the budget: enough for the directed part, in which there are three for each schedule."""

TIMES = re.compile(
    rb'"(?:seconds|spent_s|budget_s)": ?[\d.]+|in \d+ s \([\d.]+ s of|[\d.]+ s of processor time'
)


@pytest.fixture(autouse=True)
def _schedules_for_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    def counting(seconds: float, _: Callable[[], float]) -> Budget:
        return Budget(seconds, count().__next__, lambda: 0.0)

    monkeypatch.setattr("lab.examine.command.Budget", counting)
    monkeypatch.setattr("lab.search.workers.cores", lambda: 1)
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` lets it be ignored
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.full
def test_so_many_schedules_are_tried_and_what_they_show_is_looked_into(tmp_path: Path) -> None:
    asked = ["test", "mutant:bare-del", "--budget", ENOUGH, "--schedules", "30", "--out", str(tmp_path)]
    assert call(asked) == 1
    result = decode((tmp_path / "result.json").read_bytes())
    assert sum(part.tried for part in result.parts) == 30
    assert result.defects


def test_a_correct_lock_has_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["test", "redlock", "--budget", ENOUGH, "--schedules", "250"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("no defect found in redlock in ")
    assert err == "", "without a terminal there is no progress"
    assert "DEFECTS" not in out


def test_a_broken_lock_is_explained_kept_and_replayed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["test", "mutant:bare-del", "--budget", ENOUGH, "--seed", "3", "--junit", "j.xml"]
    assert call(arguments) == 1
    out = capsys.readouterr().out
    directory = tmp_path / "reports" / "test-mutant-bare-del-3"
    result = decode((directory / "result.json").read_bytes())
    (defect,) = result.defects
    assert (defect.cause, defect.scenario) == (
        "deletes-others-key",
        "reports/test-mutant-bare-del-3/defect-1.yaml",
    )
    assert out.startswith("1 defect in mutant:bare-del, compared with redlock\n")
    assert f"lab test --replay {defect.scenario}" in out
    assert "reproduced with each of 8 seeds" in defect.replays
    reported = [line.partition(": ")[2] for line in defect.happened]
    assert reported[:4] == [
        "Alice acquires: granted (its key is on A, B and C)",
        "Bob acquires: granted (its key is on A, B and C)",
        "Alice releases",
        "Alice acquires: granted (its key is on A, B and C)",
    ]
    assert load_scenario(defect.scenario or "").scenario.lock.name == "mutant:bare-del"
    assert "data:image/png;base64," in (directory / "index.html").read_text()
    (suite,) = JUnitXml.fromfile("j.xml")
    assert [case.name for case in suite if case.result] == ["deletes-others-key"]

    assert call(["test", "--replay", str(defect.scenario)]) == 1
    assert capsys.readouterr().out.startswith("mutant:bare-del fails in 20 of 20 runs\n")


@pytest.mark.full
def test_a_lock_that_is_not_served_is_kept_as_a_scenario_and_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(["test", "mutant:retry-without-unlock", "--budget", ENOUGH, "--out", "here", "--json"]) == 1
    result = decode(capsys.readouterr().out)
    (defect,) = result.defects
    assert (defect.scenario, defect.trial_file) == ("here/defect-1.yaml", None)
    text = Path("here/defect-1.yaml").read_text()

    assert call(["test", "--replay", "here/defect-1.yaml", "--json"]) == 1
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert (shown["violated"], shown["of"], shown["unknown"]) == (20, 20, 0)
    assert shown["shown"] == {"unavailable": 20}

    repaired = text.replace("mutant:retry-without-unlock", "redlock")
    Path("repaired.yaml").write_text(repaired)
    assert call(["test", "--replay", "repaired.yaml"]) == 0
    assert capsys.readouterr().out.startswith("redlock fails in none of 20 runs\n")


@pytest.mark.full
def test_what_is_not_decided_is_kept_and_replayed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.examine.examination.causes_of", lambda *_: [])
    asked = ["test", "mutant:retry-without-unlock", "--budget", ENOUGH, "--out", "here", "--json"]
    monkeypatch.setattr("lab.examine.defects.SURE", 21)
    assert call(asked) == 0, "without a cause, and in too few variants, it is no defect"
    (open_, *_) = decode(capsys.readouterr().out).undecided
    assert (open_.finding, open_.trial_file) == ("unavailable", "here/undecided-1.json")
    assert read_trial(Path("here/undecided-1.json")) == open_.trial
    assert "lab test --replay here/undecided-1.json" in Path("here/index.html").read_text()

    assert call(["test", "--replay", "here/undecided-1.json", "--json"]) == 1
    assert 1 <= msgspec.json.decode(capsys.readouterr().out)["shown"]["unavailable"] <= 20


def test_a_replay_without_a_verdict_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = count(1)

    def fails(*_: object, **__: object) -> Outcome:
        raise UnknownOutcome(f"a client's own code failed: reason {next(reasons)}")

    monkeypatch.setattr("lab.examine.answer.replay.run_trial", fails)
    Path("x.json").write_bytes(Trial("redlock", {"alice": (Round(0, 10**9),)}, nodes=3).key())
    assert call(["test", "--replay", "x.json"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("redlock: no verdict in 20 of 20 runs\n")
    assert "a client's own code failed: reason 1\n" in out


@pytest.mark.full
def test_a_trial_is_replayed_with_twenty_different_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Trial] = []

    def noting(trial: Trial, **more: Any) -> Outcome:
        tried.append(trial)
        return run_trial(trial, **more)

    monkeypatch.setattr("lab.examine.answer.replay.run_trial", noting)
    trial = Trial("redlock", {"alice": (Round(0, 10**9),)}, nodes=3)
    Path("x.json").write_bytes(trial.key())
    assert call(["test", "--replay", "x.json"]) == 0
    assert tried[0] == trial
    assert len({each.key() for each in tried}) == 20


def test_what_happens_in_a_trial_is_told_with_its_faults() -> None:
    s_ns, ms_ns = 10**9, 10**6
    faults = (
        timed_fault(Jump, on("alice", "granted"), nodes=("A",), by_ns=11 * s_ns),
        timed_fault(Cut, on("alice", "granted", 1, ms_ns), "bob", ("B", "C"), lasts_ns=1500 * ms_ns),
    )
    clients: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 2 * s_ns),), "bob": (Round(s_ns, s_ns),)}
    trial = Trial("redlock", clients, faults, nodes=3, options={"retry_count": 1})
    with trials():
        reported = [line.partition(": ")[2] for line in narrate(trial, "overlap")]
        whole = [line.partition(": ")[2] for line in narrate(trial, "lost-update")]
    assert reported == [
        "Alice acquires: granted (its key is on A, B and C)",
        "fault: the clock of A jumps forward by 11s",
        "fault: the packets between Bob and B and C are lost",
        "Bob acquires: refused",
        "end of the fault: the packets between Bob and B and C are lost",
        "Alice releases",
    ]
    assert "Alice writes version 1" in whole


@pytest.mark.full
def test_a_scenario_in_which_nothing_is_violated_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    scenario = str(ROOT / "scenarios" / "healthy.yaml")
    assert call(["test", "--replay", scenario]) == 0
    assert capsys.readouterr().out.startswith("redlock fails in none of 20 runs\n")


@pytest.mark.full
def test_the_same_seed_gives_the_same_files_for_any_number_of_processes() -> None:
    seen = []
    for jobs in ("1", "2", "3"):
        assert call(["test", "mutant:bare-del", "--budget", ENOUGH, "--jobs", jobs, "--out", "here"]) == 1
        files = {path.name: path.read_bytes() for path in Path("here").iterdir()}
        seen.append({name: TIMES.sub(b"", content) for name, content in files.items()})
    assert {"defect-1.yaml", "index.html", "result.json"} <= seen[0].keys()
    assert seen[0] == seen[1]
    assert seen[0] == seen[2]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["rdlock"], "did you mean 'redlock'?"),
        (["redlock", "--budget", "5"], "'5' has no unit"),
        (["redlock", "--budget", "soon"], "a duration like 120s"),
        (["./driver"], "the driver './driver'"),
        (["driver:redsync"], "a program in Go calls the kernel itself"),
        (["no_such_module:Lock"], "which cannot be imported"),
        (["redlock", "--set", "no_such=1"], "lock.options.no_such"),
        ([], "a lock is missing"),
        (["redlock", "--replay", "x.json"], "--replay together with the lock redlock"),
        (["--replay", "x.json", "--junit", "y"], "--replay together with --junit"),
        (["--replay", "x.json"], "cannot read it"),
    ],
)
def test_bad_input_is_one_error(words: list[str], reported: str, tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        call(["test", *words])
    assert caught.value.exit_code == 2
    assert reported in caught.value.render()
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.parametrize("nodes", ["0", "8", "x"])
def test_a_number_of_nodes_that_cannot_be_is_refused(nodes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["test", "redlock", "--nodes", nodes]) == 2
    assert "--nodes" in capsys.readouterr().err


def test_a_damaged_trial_is_one_error(tmp_path: Path) -> None:
    for text in ("", "{}", '{"lock": 3}', '{"lock": "redlock", "clients": {}, "faults": [{"kind": "x"}]}'):
        Path("x.json").write_text(text)
        with pytest.raises(LabError) as caught:
            call(["test", "--replay", "x.json"])
        assert caught.value.exit_code == 2, text


SIGNALS = [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]


@pytest.mark.parametrize("sent", SIGNALS)
def test_what_was_found_before_an_interruption_is_printed_and_kept(
    sent: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupting(*arguments: Any, on_progress: Callable[[Progress], None], **more: Any) -> Examination:
        def then(progress: Progress) -> None:
            on_progress(progress)
            if progress.defects:
                signal.raise_signal(sent)

        return Examination(*arguments, on_progress=then, **more)

    monkeypatch.setattr("lab.examine.command.Examination", interrupting)
    asked = ["test", "mutant:bare-del", "--budget", ENOUGH, "--out", "here", "--junit", "j.xml"]
    assert call(asked) == 130
    out, err = capsys.readouterr()
    assert out.startswith("interrupted: 1 defect in mutant:bare-del")
    assert "lab test --replay here/defect-1.json" in out
    assert "interrupted: what was found is kept" in err
    (suite,) = JUnitXml.fromfile("j.xml")
    assert [case.name for case in suite if case.result] == ["deletes-others-key", "examination"]


@pytest.mark.full
@pytest.mark.parametrize("sent", SIGNALS)
def test_an_interruption_while_scenarios_are_replayed_loses_no_defect(
    sent: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.search.confirm.replayed", lambda *_: signal.raise_signal(sent))
    assert call(["test", "mutant:bare-del", "--budget", ENOUGH, "--out", "here"]) == 130
    assert "lab test --replay here/defect-1.json" in capsys.readouterr().out
    assert {path.name for path in Path("here").iterdir()} == {"defect-1.json", "index.html", "result.json"}


@pytest.mark.full
def test_from_python_the_class_itself_can_be_named(tmp_path: Path) -> None:
    examined = Lab(tmp_path / "kept").test(SetWithoutNx, budget="3s", seed=1, key="order:{}", strict=True)
    assert examined.defects[0].cause == "overwrites-key"
    assert examined.defects[0].trial.keys == "order:{}"
    assert examined.strict
    directory = tmp_path / "kept" / "test-lab.locks.broken.grants-SetWithoutNx-1"
    assert examined.defects[0].scenario == str(directory / "defect-1.yaml")
    assert (directory / "index.html").exists()
