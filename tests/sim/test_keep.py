"""What is kept of an examination when time is short; a lock that uses what is not simulated."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.app import call
from lab.errors import ExitCode, LabError
from lab.examine.answer.keep import CUT, FAILED, NO_TIME, NOT_SHOWN, keep
from lab.search import command
from lab.search.command import Saved
from lab.search.confirm import Replay
from tests.sim.shown_trials import CASES
from tests.unit.examine.test_output import defect, examined

pytestmark = pytest.mark.usefixtures("_patched")

FINDING, SHOWN = CASES["an extension that adds up"]


def test_defects_for_which_there_is_no_time_are_kept_as_trials(tmp_path: Path) -> None:
    one = defect(findings=(FINDING,), trial=SHOWN)
    kept = keep(examined(one, one, one), tmp_path, command="lab test", limit_s=0.0, pictures=False)
    first, *others = kept.examined.defects
    assert first.replays == "Replayed in simulation: reproduced once; there was no time for more."
    assert [Path(each.scenario or each.trial_file or "").name for each in kept.examined.defects] == [
        "defect-1.yaml",
        "defect-2.json",
        "defect-3.json",
    ]
    assert {each.replays for each in others} == {NO_TIME}
    assert first.happened, "what happens in it is told before anything is replayed"


def test_a_defect_that_is_reached_too_late_is_told_and_not_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    def keep_scenario(*arguments: Any) -> Saved:
        nonlocal now_s
        now_s += 10.0
        return command.keep_scenario(*arguments)

    monkeypatch.setattr("lab.examine.answer.keep.time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(
        "lab.examine.answer.keep.search", SimpleNamespace(**{**vars(command), "keep_scenario": keep_scenario})
    )
    one = defect(findings=(FINDING,), trial=SHOWN)
    kept = keep(examined(one, one, one), tmp_path, command="lab test", limit_s=15.0, pictures=False)
    assert [each.replays == NO_TIME for each in kept.examined.defects] == [False, False, True]
    assert all(each.happened for each in kept.examined.defects)


@pytest.mark.parametrize(("cut", "why"), [(True, CUT), (False, NOT_SHOWN)])
def test_a_scenario_that_showed_nothing_is_kept_as_a_trial_with_the_reason(
    cut: bool, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.search.confirm.replayed", lambda *_: Replay((), 1, cut=cut))
    kept = keep(examined(defect(findings=(FINDING,), trial=SHOWN)), tmp_path, command="lab test")
    (only,) = kept.examined.defects
    assert (only.scenario, only.replays) == (None, why)
    assert not (tmp_path / "defect-1.yaml").exists()


def test_a_defect_that_cannot_be_written_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one with a TTL that its library does not have."""
    keep_scenario: Any = command.keep_scenario
    times = iter(range(9))

    def refused(*arguments: Any) -> Saved:
        if next(times) == 0:
            raise LabError("a TTL of 1500 ms, for a library")
        saved: Saved = keep_scenario(*arguments)
        return saved

    monkeypatch.setattr("lab.search.command.keep_scenario", refused)
    one = defect(findings=(FINDING,), trial=SHOWN)
    kept = keep(examined(one, one), tmp_path, command="lab test", pictures=False)
    first, second = kept.examined.defects
    assert first.replays == f"{FAILED}: a TTL of 1500 ms, for a library"
    assert first.trial_file == str(tmp_path / "defect-1.json")
    assert second.scenario == str(tmp_path / "defect-2.yaml")


@pytest.mark.parametrize(
    ("replay", "words"),
    [
        (Replay((0,), 1, cut=True), "reproduced once; there was no time for more."),
        (Replay((0, 1), 2, cut=True), "reproduced with each of 2 seeds; there was no time for more."),
        (Replay((), 1, cut=True), "not reproduced with 1 seeds; there was no time for more."),
        (Replay((0, 1), 8), "reproduced with only 2 of 8 seeds (seeds 0, 1): it depends"),
    ],
)
def test_a_replay_says_how_often_and_whether_more_was_planned(replay: Replay, words: str) -> None:
    assert words in replay.sentence


def test_a_lock_that_uses_what_is_not_simulated_is_not_accused() -> None:
    with pytest.raises(LabError, match="uses PFADD, which simulated nodes lack") as caught:
        call(["test", "tests.unit.examine.odd_locks:InAHyperLogLog", "--budget", "20s"])
    assert caught.value.exit_code == ExitCode.UNKNOWN
    assert "--on virtual" in caught.value.render()
