"""Campaigns of drawn schedules: Redlock inside its assumptions, and locks that are broken."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from lab.batch.campaign import open_results, results_path, run_campaign, runner
from lab.batch.tally import Tally
from lab.errors import ExitCode, LabError
from lab.faults.cut import Cut
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.search.draw import Space
from lab.search.faults import KINDS
from lab.search.schedule_task import ScheduleTask
from lab.search.space import WITHIN_ASSUMPTIONS, Drawn, parse_kinds
from lab.search.tasks import task_for
from lab.substrates.execute import execute

SLOW_SEEDS = 10_000


def campaign(task: ScheduleTask, seeds: range, directory: Path) -> Tally:
    with open_results(directory / f"{task.name}.jsonl", task, resume=True) as results:
        return execute(run_campaign(task, seeds, results, runner()))


def safe(lock: str) -> ScheduleTask:
    return ScheduleTask(Space(lock, kinds=WITHIN_ASSUMPTIONS))


@pytest.mark.full
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
    assert parse_kinds("jump, cut") == (Cut, Jump)
    assert {Jump, Pause}.isdisjoint(parse_kinds("safe"))
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
        (None, {"lock": "redlock", "strategy": "guidde"}),
        (None, {"lock": "redlock", "set": ("lock.tll=2s",)}),
        (None, {"lock": "redlock", "set": ("lock.options.retry_cont=2",)}),
        ("healthy", {"nodes": 3}),
        ("healthy", {"ttl": "2s"}),
        ("healthy", {"faults": "safe"}),
        ("healthy", {"wire": "resp"}),
        ("no-such-scenario", {}),
    ],
)
def test_what_cannot_be_a_campaign_is_refused(scenario: str | None, more: dict[str, Any]) -> None:
    lock = more.pop("lock", None)
    with pytest.raises(LabError) as caught:
        task_for(scenario, lock=lock, drawn=Drawn(**more))
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint or caught.value.expected


def drawn_again(words: list[str]) -> tuple[str, Drawn]:
    """The lock and the options about drawn schedules that a command line has."""
    given: dict[str, Any] = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option.removeprefix("--")
        given[name] = (*given.get(name, ()), value) if name == "set" else value
    given |= {name: int(given[name]) for name in ("nodes", "clients") if name in given}
    return given.pop("lock"), Drawn(**given)


@pytest.mark.parametrize(
    "drawn",
    [
        Drawn(),
        Drawn(faults="jump,pause", wire="resp", strategy="random"),
        Drawn(ttl="1500ms", nodes=3, clients=4, persistence="any"),
        Drawn(set=("lock.ttl=2s", "cluster.nodes=1", "cluster.persistence=none", "store.fencing=true")),
        Drawn(server="valkey@8.1"),
        Drawn(set=("lock.options.retry_count=2", "lock.options.node_timeout=70ms")),
    ],
)
def test_the_command_that_repeats_a_seed_makes_the_same_task(drawn: Drawn) -> None:
    task = task_for(None, lock="redlock-counter", drawn=drawn)
    words = shlex.split(task.repeat(7))
    assert (words[:2], words[-3:]) == (["lab", "campaign"], ["--seeds", "7", "--json"])
    lock, again = drawn_again(words[2:-3])
    assert task_for(None, lock=lock, drawn=again).identity() == task.identity()
    assert (task_for(None, lock=lock).identity() == task.identity()) == (drawn == Drawn())


def test_set_and_options_say_the_same() -> None:
    by_option = task_for(None, lock="redlock", drawn=Drawn(ttl="2s", nodes=3, persistence="none"))
    settings = ("lock.ttl=2s", "cluster.nodes=3", "cluster.persistence=none")
    by_set = task_for(None, lock="redlock", drawn=Drawn(set=settings))
    assert by_option.identity() == by_set.identity()
    with pytest.raises(LabError, match="--ttl together with --set lock"):
        task_for(None, lock="redlock", drawn=Drawn(ttl="2s", set=("lock.ttl=3s",)))
    with pytest.raises(LabError) as caught:
        task_for(None, lock="redlock", drawn=Drawn(set=("cluster.nodes=12",)))
    assert caught.value.where == "--set cluster.nodes=12"


def test_what_is_drawn_is_as_it_was_asked_for() -> None:
    task = task_for(None, lock="single", drawn=Drawn(ttl="2s", nodes=1, clients=3, faults="jump"))
    assert isinstance(task, ScheduleTask)
    trial = task.trial(1)
    assert (trial.ttl_ns, trial.nodes, len(trial.clients)) == (2_000_000_000, 1, 3)
    assert {type(fault.step) for fault in trial.faults} == {Jump}
    assert trial.horizon_ns == 6_000_000_000


def test_campaigns_that_differ_have_files_of_their_own(tmp_path: Path) -> None:
    tasks = [
        task_for(None, lock="redlock"),
        task_for(None, lock="redlock", drawn=Drawn(faults="jump")),
        task_for(None, lock="redlock", drawn=Drawn(ttl="2s")),
        task_for(None, lock="single"),
        task_for("healthy"),
        task_for("healthy", lock="redlock-sequential"),
        task_for("healthy", drawn=Drawn(set=("lock.ttl=2s",))),
    ]
    paths = [results_path(tmp_path, task) for task in tasks]
    assert len(set(paths)) == len(tasks)
    assert paths[0].name.startswith("campaign-schedules-redlock-")
    assert results_path(tmp_path, task_for("healthy")) == paths[4], "a campaign finds its own file again"
