"""Campaigns of drawn schedules: Redlock inside its assumptions, and locks that are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.batch.campaign import open_results, run_campaign, runner
from lab.batch.tally import Tally
from lab.errors import ExitCode, LabError
from lab.search.draw import Space
from lab.search.schedule_task import WITHIN_ASSUMPTIONS, ScheduleTask, parse_kinds
from lab.search.tasks import task_for
from lab.search.trial import KINDS
from lab.substrates.execute import execute

SLOW_SEEDS = 10_000


def campaign(task: ScheduleTask, seeds: range, directory: Path) -> Tally:
    with open_results(directory / f"{task.name}.jsonl", task, resume=True) as results:
        return execute(run_campaign(task, seeds, results, runner()))


def safe(lock: str) -> ScheduleTask:
    return ScheduleTask(Space(lock, kinds=WITHIN_ASSUMPTIONS))


@pytest.mark.timeout(600)
def test_redlock_inside_its_assumptions_is_safe(tmp_path: Path) -> None:
    tally = campaign(safe("redlock"), range(150), tmp_path)
    assert tally.found == {}
    assert not tally.unknown
    assert tally.judged == 150


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_redlock_inside_its_assumptions_is_safe_over_many_schedules(tmp_path: Path) -> None:
    tally = campaign(safe("redlock"), range(SLOW_SEEDS), tmp_path)
    assert tally.found == {}
    assert not tally.unknown
    assert tally.judged == SLOW_SEEDS


@pytest.mark.timeout(600)
def test_the_same_campaign_finds_a_lock_that_is_broken(tmp_path: Path) -> None:
    """What finds nothing in Redlock finds a lock with a quorum of two, under the same faults."""
    tally = campaign(safe("tests.sim.campaign_locks:Hasty"), range(60), tmp_path)
    assert tally.found["overlap"]
    assert tally.exit_code == ExitCode.UNEXPECTED
    first = min(tally.found["overlap"])
    alone = campaign(safe("tests.sim.campaign_locks:Hasty"), range(first, first + 1), tmp_path / "alone")
    assert alone.unexpected[first] == tally.unexpected[first], "a seed comes to the same in any process"


def test_a_lock_that_fails_in_a_way_of_its_own_makes_the_campaign_unknown(tmp_path: Path) -> None:
    tally = campaign(safe("tests.sim.campaign_locks:Faulty"), range(2), tmp_path)
    assert tally.exit_code == ExitCode.UNKNOWN
    assert "out of order" in tally.unknown[0].reasons[0]


def test_faults_are_named() -> None:
    assert parse_kinds("all") == KINDS
    assert parse_kinds("jump, cut") == ("cut", "jump")
    assert {"jump", "pause"}.isdisjoint(parse_kinds("safe"))
    with pytest.raises(LabError, match="'jmup'") as caught:
        parse_kinds("cut,jmup")
    assert "jump" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("scenario", "more"),
    [
        (None, {}),
        (None, {"lock": "redlok"}),
        (None, {"lock": "redlock", "faults": "rain"}),
        (None, {"lock": "redlock", "wire": "wet"}),
        (None, {"lock": "redlock", "overrides": ["lock.ttl=2s"]}),
        ("healthy", {"faults": "safe"}),
        ("healthy", {"wire": "resp"}),
        ("no-such-scenario", {}),
    ],
)
def test_what_cannot_be_a_campaign_is_refused(scenario: str | None, more: dict[str, object]) -> None:
    with pytest.raises(LabError) as caught:
        task_for(scenario, **more)  # type: ignore[arg-type]
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


def test_the_command_that_repeats_a_seed_makes_the_same_task() -> None:
    task = task_for(None, lock="redlock-counter", faults="jump,pause", wire="resp")
    words = task.repeat(7).split()
    given = dict(zip(words[2:-1:2], words[3::2], strict=True))
    assert given.pop("--seeds") == "7"
    again = task_for(None, lock=given["--lock"], faults=given["--faults"], wire=given["--wire"])
    assert again.identity() == task.identity()
