"""Trials on several cores: the same results for any number of processes, also if one of them dies."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.batch.executor import processor_s
from lab.drivers.environment import why_not
from lab.errors import LabError
from lab.examine.examination import Examination, tried
from lab.examine.kinds import Kind
from lab.examine.programs import PROGRAMS, Setting
from lab.examine.result import Part
from lab.search import workers as module
from lab.search.command import OPTIONS
from lab.search.draw import Space
from lab.search.find import Search
from lab.search.loop import Budget
from lab.search.runner import trials
from lab.search.trial import Trial
from lab.search.workers import QUEUED, RULES, Workers
from tests.lab_process import ROOT, Lab, alive, below
from tests.sim.worker_questions import KILLS, LASTS, NOTHING, RAISES, asked, helped

LOCK = "mutant:bare-del"


def numbered(count: int, *seeds: int) -> list[Trial]:
    return [Trial("redlock", {}, seed=seed) for seed in (*seeds, *range(count))]


def examined(jobs: int) -> tuple[Examination, list[int]]:
    """All programs with two seeds, and the trials that were drawn with regard to what was found by then."""
    part, drawn = Part("a part", "of a test"), []
    setting = Setting(LOCK, OPTIONS)

    def source(one: Examination) -> Iterator[tuple[Part, Trial]]:
        for number in range(24):
            drawn.append(one.progress.schedules)
            seed = number + one.progress.schedules + len(one.defects)
            yield part, setting.trial(PROGRAMS[number % 6], seed=seed)

    with closing(Workers(tried, jobs)) as workers, trials():
        one = Examination(Kind(True), dict(OPTIONS), Budget(3600), workers=workers)
        while workers.helping < jobs - 1:
            workers.result(workers.at_once([setting.trial(PROGRAMS[0])] * QUEUED * jobs)[-1])
        for _ in one.try_each(source(one), 5):
            pass
        assert bool(workers.helpers_cpu_s) == (jobs > 1)
        # The processes of earlier tests count on both sides.
        assert 0 < workers.busiest_s() <= processor_s() + workers.helpers_cpu_s
    return one, drawn


@pytest.mark.full
def test_results_are_the_same_for_any_number_of_processes() -> None:
    alone, drawn = examined(1)
    assert drawn[:6] == [0, 0, 0, 0, 0, 1], "what is found counts so many trials later"
    for jobs in (2, 3):
        together, drawn_together = examined(jobs)
        assert drawn == drawn_together, "whoever was faster"
        (defect,), (same,) = alone.defects, together.defects
        assert replace(same, seconds=defect.seconds) == defect
        assert together.limits == alone.limits
        assert together.undecided == alone.undecided
        assert together.progress.schedules == alone.progress.schedules
        assert together.progress.covered == alone.progress.covered


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "finding", "most", "found"), [(LOCK, "overlap", 700, True), ("redlock", "leak", 250, False)]
)
def test_a_search_comes_to_the_same_with_any_number_of_processes(
    lock: str, finding: str, most: int, found: bool
) -> None:
    ended = []
    for jobs in (1, 2):
        search = Search(Space(lock, options=OPTIONS), finding, schedules=most, seed=2, jobs=jobs)
        one = search.run()
        one.progress.seconds = 0.0
        ended.append(one)
    alone, together = ended
    assert alone.progress.schedules >= 100
    assert (alone.found is not None) == found
    assert together.progress == alone.progress
    assert (together.found, together.racy) == (alone.found, alone.racy)


def test_a_trial_that_ends_two_processes_is_not_decided_and_others_go_on() -> None:
    part = Part("a part", "of a test")
    with closing(Workers(asked, 2)) as workers:
        helped(workers)
        (first,) = workers.pids
        one = Examination(Kind(True), {}, Budget(3600), workers=workers)
        killing = Trial("redlock", {}, seed=KILLS)
        with pytest.raises(LabError, match="the process that ran it ended: SIGKILL"):
            workers.result(workers.at_once([killing])[0])
        one.try_all(part, numbered(20))
        assert (part.tried, one.progress.schedules) == (20, 20)
        helped(workers)
        assert workers.pids != [first], "it is replaced"
        assert (workers.jobs, workers.why_fewer) == (2, "")


def test_a_trial_whose_process_was_killed_is_asked_again(tmp_path: Path) -> None:
    once = Trial("redlock", {}, seed=KILLS, options={"once": str(tmp_path / "killed")})
    with closing(Workers(asked, 2)) as workers:
        helped(workers)
        jobs = workers.at_once([once, *numbered(8)])
        assert [workers.result(job) for job in jobs] == [NOTHING] * 9
        assert [job.deaths for job in jobs] == [1, *[0] * 8]


def test_where_processes_die_again_and_again_this_one_goes_on_alone() -> None:
    with closing(Workers(asked, 2)) as workers:
        assert RULES.deaths is not None
        for job in workers.at_once([Trial("redlock", {}, seed=KILLS)] * (RULES.deaths // RULES.tries)):
            with pytest.raises(LabError, match="SIGKILL"):
                workers.result(job)
        assert workers.jobs == 1
        assert workers.why_fewer.startswith("processes die: the process that ran it ended: SIGKILL")
        assert [workers.result(job) for job in workers.at_once(numbered(3))] == [NOTHING] * 3


def test_a_trial_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Workers(asked, 2)) as workers:
        helped(workers)
        endless, *others = workers.at_once(numbered(3, LASTS))
        with monkeypatch.context() as impatient:
            impatient.setattr(workers._executor, "rules", dataclasses.replace(RULES, hangs_s=0.5))
            impatient.setattr(module, "LOOKS_EVERY_S", 0.05)
            with pytest.raises(LabError, match="did not come to an end"):
                workers.result(endless)
        assert [workers.result(job) for job in others] == [NOTHING] * 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_raised_when_its_turn_has_come(jobs: int) -> None:
    with closing(Workers(asked, jobs)) as workers:
        if jobs > 1:
            helped(workers)
        found = workers.in_order(enumerate([*numbered(2), *numbered(0, RAISES)]), 64)
        for number, job in found:
            if number < 2:
                assert workers.result(job) == NOTHING
            else:
                with pytest.raises(LabError, match="of a test"):
                    workers.result(job)


def gone(pid: int) -> None:
    give_up = time.monotonic() + 60
    while alive([pid]):
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_busy_process_ends_with_its_caller() -> None:
    with closing(Workers(asked, 2)) as workers:
        helped(workers)
        workers.at_once(numbered(0, LASTS))
        (pid,) = workers.pids
        assert alive([pid])
    gone(pid)


@pytest.mark.parametrize("sent", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_a_busy_process_ends_with_a_caller_that_is_ended(sent: signal.Signals) -> None:
    words = [sys.executable, "-m", "tests.sim.worker_questions"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        os.kill(caller.pid, sent)
    gone(pid)


@pytest.mark.full
@pytest.mark.skipif(why_not("redis-py") is not None, reason="redis-py is not installed")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_no_driver_is_left_of_a_command_that_is_ended(sent: signal.Signals, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    command = lab.start("test", "driver:redis-py", "--budget", "10m", "--jobs", "2")
    give_up = time.monotonic() + 120
    while sum("redis_py" in words for words in below(command.pid).values()) < 4:
        assert time.monotonic() < give_up, below(command.pid)
        time.sleep(0.1)
    os.kill(command.pid, sent)
    lab.ended(command)
    lab.wait_until_nothing_runs()


def test_the_time_of_a_child_counts_while_it_runs_and_when_it_has_ended() -> None:
    """As that of a driver; without a helper's, which says itself what it took."""
    spin = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"
    before_s = processor_s() - time.process_time()
    child = subprocess.Popen(
        [sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    running_s = processor_s() - time.process_time() - before_s
    without_s = processor_s(without=[child.pid]) - time.process_time() - before_s
    child.communicate("\n")
    ended_s = processor_s() - time.process_time() - before_s
    assert running_s > 0.2
    assert without_s < 0.1
    assert ended_s > 0.2
