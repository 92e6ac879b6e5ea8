"""The same on a Dask cluster: a real scheduler and two workers, one of which is killed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.batch.campaign import open_results, run_campaign, runner
from lab.batch.dask import on_cluster
from lab.batch.journal import Journal
from lab.batch.scenario_task import ScenarioTask
from lab.batch.tally import Tally
from lab.cli.app import call
from lab.errors import ExitCode, LabError, UnknownOutcome
from lab.scenario.load import load_scenario
from lab.search.trial import Trial
from lab.search.workers import Workers
from tests.lab_process import ROOT, alive, below
from tests.sim.campaign_tasks import Fragile, Gated, Plain
from tests.sim.test_campaign import expected
from tests.sim.worker_questions import NOTHING, asked, helped, refuses_elsewhere

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="Dask is not installed: pip install 'lock-lab[distributed]'",
)
pytestmark = pytest.mark.slow  # a killed worker costs Dask's own time-outs, half a minute each
ENDS_WITHIN_S = 60.0
PIECE_S = 0.01
"""A piece is handed back as soon as it may be, so that there are many."""


class Cluster:
    """Processes that are started one by one, and ended by their ids."""

    def __init__(self, directory: Path, allowed_failures: int = 3) -> None:
        self.directory = directory
        self.environment = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures)}
        self.started: list[subprocess.Popen[bytes]] = []
        file = directory / "scheduler.json"
        self.scheduler = self.start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
        )
        wait_for(lambda: file.exists() and b"tcp://127.0.0.1" in file.read_bytes(), self.talk)
        self.file = file
        self.address = next(word for word in file.read_text().split('"') if word.startswith("tcp://"))

    def worker(self, path: str = str(ROOT)) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        local = ("--local-directory", str(self.directory / f"worker-{len(self.started)}"))
        return self.start("worker", self.address, *options, *local, path=path)

    def start(self, what: str, *words: str, path: str = str(ROOT)) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *words],
            cwd=self.directory,
            env={**os.environ, **self.environment, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=(self.directory / f"{what}-{len(self.started)}.log").open("wb"),
            stderr=subprocess.STDOUT,
        )
        self.started.append(process)
        return process

    def talk(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.directory.glob("*.log")))

    def end(self) -> None:
        # One after the other: a worker that is told to end by its scheduler as well, while it still tries to
        # reach a worker that was killed, may not end (Dask 2026.8).
        for process in reversed(self.started):
            process.terminate()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(condition: Callable[[], bool], talk: Callable[[], str] = lambda: "") -> None:
    give_up = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < give_up, talk()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.end()
    assert alive([process.pid for process in cluster.started]) == []


def run_there(task: Plain | ScenarioTask, seeds: range, file: Path, cluster: Cluster) -> Tally:
    async def campaign(results: Journal) -> Tally:
        return await run_campaign(task, seeds, results, runner(cluster=cluster.address))

    with open_results(file, task, resume=True) as results:
        return asyncio.run(campaign(results))


@needs_dask
@pytest.mark.timeout(600)
def test_a_killed_worker_of_the_cluster_costs_no_result(cluster: Cluster, tmp_path: Path) -> None:
    task = Gated(marks=str(tmp_path))
    workers = {process.pid: process for process in (cluster.worker(), cluster.worker())}
    seeds = range(12)

    def busy() -> set[int]:
        marks = {int(mark.name.split("-")[1]) for mark in tmp_path.glob("by-*")}
        return {pid for pid in workers if marks & below(pid).keys()}

    async def campaign(results: Journal) -> Tally:
        run = partial(on_cluster, address=cluster.address, piece_s=PIECE_S)
        running = asyncio.ensure_future(run_campaign(task, seeds, results, run))
        await asyncio.to_thread(wait_for, lambda: running.done() or busy() >= {*workers}, cluster.talk)
        assert not running.done()
        killed = workers[min(workers)]
        killed.kill()
        killed.wait()
        (tmp_path / "gate").touch()
        return await running

    with open_results(tmp_path / "results.jsonl", task, resume=False) as results:
        # Both workers have to be there before the first piece is handed out.
        asyncio.run(joined(cluster, 2))
        tally = asyncio.run(campaign(results))
    assert tally.to_dict() == expected(task, seeds).to_dict()
    runs = [mark.name.split("-")[2] for mark in tmp_path.glob("by-*")]
    assert len(runs) > len(set(runs)) == len(seeds), "what the killed worker had begun was run again"


async def joined(cluster: Cluster, count: int) -> None:
    """Wait until the scheduler has so many workers."""
    dask: Any = importlib.import_module("distributed")
    async with dask.Client(cluster.address, asynchronous=True, set_as_default=False) as client:
        give_up = time.monotonic() + 90
        while len(await client.nthreads()) != count:
            assert time.monotonic() < give_up, cluster.talk()
            await asyncio.sleep(0.02)


@needs_dask
@pytest.mark.timeout(600)
def test_the_cluster_comes_to_the_same_as_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    cluster.worker()
    task = ScenarioTask.of(load_scenario("partition-clockjump"), "partition-clockjump")
    seeds = range(2)
    there = run_there(task, seeds, tmp_path / "there.jsonl", cluster)
    with open_results(tmp_path / "here.jsonl", task, resume=False) as results:
        here = asyncio.run(run_campaign(task, seeds, results, runner(2)))
    assert there.to_dict() == here.to_dict()
    assert there.found["overlap"]
    # A seed that ends its process does not end the cluster's worker; it is told as it is here.
    fragile = Fragile(marks=str(tmp_path), once=(1,), always=(2,))
    tally = run_there(fragile, range(6), tmp_path / "fragile.jsonl", cluster)
    assert tally.lost == [2]
    assert tally.runs == 6


@needs_dask
@pytest.mark.timeout(600)
def test_a_piece_that_the_scheduler_gives_up_is_run_seed_by_seed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, allowed_failures=0)
    task = Gated(marks=str(tmp_path))

    async def campaign(results: Journal) -> Tally:
        run = partial(on_cluster, address=cluster.address, piece_s=PIECE_S)
        running = asyncio.ensure_future(run_campaign(task, range(6), results, run))
        begun = partial(any_mark, tmp_path)
        await asyncio.to_thread(wait_for, lambda: running.done() or begun(), cluster.talk)
        assert not running.done()
        worker.kill()
        worker.wait()
        (tmp_path / "gate").touch()
        cluster.worker()
        return await running

    try:
        worker = cluster.worker()
        asyncio.run(joined(cluster, 1))
        with open_results(tmp_path / "results.jsonl", task, resume=True) as results:
            tally = asyncio.run(campaign(results))
        assert tally.to_dict() == expected(task, range(6)).to_dict()
    finally:
        cluster.end()


@needs_dask
@pytest.mark.timeout(600)
def test_another_lab_is_refused_and_a_dead_scheduler_ends_the_campaign(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for package in ("lab", "checker"):
        shutil.copytree(ROOT / package, other / package, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "lab" / "more.py").write_text('"""Not in this lab."""\n')
    task = Gated(marks=str(tmp_path))
    cluster = Cluster(tmp_path)

    async def campaign(results: Journal) -> None:
        run = partial(on_cluster, address=cluster.address, piece_s=PIECE_S)
        running = asyncio.ensure_future(run_campaign(task, range(10), results, run))
        begun = partial(any_mark, tmp_path)
        await asyncio.to_thread(wait_for, lambda: running.done() or begun(), cluster.talk)
        assert not running.done()
        cluster.scheduler.kill()
        with pytest.raises(UnknownOutcome, match="scheduler"):
            await running

    try:
        stranger = cluster.worker(str(other))
        with pytest.raises(LabError, match="another lab") as caught:
            run_there(Plain(), range(3), tmp_path / "refused.jsonl", cluster)
        assert caught.value.hint
        stranger.kill()
        stranger.wait()
        asyncio.run(joined(cluster, 0))
        cluster.worker()
        with open_results(tmp_path / "results.jsonl", task, resume=True) as results:
            asyncio.run(campaign(results))
        (tmp_path / "gate").touch()
    finally:
        cluster.end()


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """The exit code of a command, and its result."""
    code = call([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@needs_dask
@pytest.mark.timeout(600)
def test_a_suite_has_the_same_histories_there_and_here(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.worker()
    shutil.copy(ROOT / "scenarios" / "healthy.yaml", tmp_path / "mine.yaml")
    monkeypatch.chdir(tmp_path)
    words = ("suite", "mine.yaml", "partition-clockjump", "--on", "sim", "--repeat", "2", "--seed", "5")
    histories: list[list[bytes]] = []
    for where in (("--dask", cluster.address), ()):
        code, result = as_json(capsys, *words, *where, "--out", f"out{len(histories)}")
        assert code == ExitCode.EXPECTED
        assert result
        found = (tmp_path / f"out{len(histories)}").glob("suite-*/*/history.jsonl")
        histories.append(sorted(path.read_bytes() for path in found if path.parent.name != "latest"))
    there, here = histories
    assert there == here
    assert len(there) == 6, "each scenario, and a control, twice"


@needs_dask
@pytest.mark.timeout(600)
def test_a_search_finds_the_same_there_and_here(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.worker()
    monkeypatch.chdir(tmp_path)
    words = ("search", "--lock", "mutant:bare-del", "--schedules", "600", "--seed", "2")
    results = []
    for where in (("--dask", cluster.address), ()):
        code, result = as_json(capsys, *words, *where)
        assert code == ExitCode.UNEXPECTED
        result["first"].pop("seconds")
        results.append({name: value for name, value in result.items() if name != "seconds"})
    there, here = results
    assert there == here


@needs_dask
@pytest.mark.timeout(600)
def test_a_lock_is_examined_there_and_the_loss_of_the_cluster_is_survived(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    trials_ = [Trial("redlock", {}, seed=seed) for seed in range(100)]
    try:
        worker = cluster.worker()
        with closing(Workers(asked, None, dask=cluster.address)) as workers:
            helped(workers)
            assert workers.pids == [], "none of this machine's own"
            assert [workers.result(job) for job in workers.at_once(trials_)] == [NOTHING] * 100
            assert workers.helpers_cpu_s > 0
            jobs = workers.at_once(trials_)
            worker.kill()
            cluster.scheduler.kill()
            assert [workers.result(job) for job in jobs] == [NOTHING] * 100
            while workers.jobs > 1:
                workers.go_on()
            assert "the scheduler has ended" in workers.why_fewer
            assert [workers.result(job) for job in workers.at_once(trials_)] == [NOTHING] * 100
    finally:
        cluster.end()


@needs_dask
@pytest.mark.timeout(600)
def test_a_question_that_cannot_be_asked_there_is_one_clear_error(cluster: Cluster) -> None:
    cluster.worker()
    with pytest.raises(LabError, match="a worker cannot run this: RuntimeError: out of order") as caught:
        Workers(asked, None, refuses_elsewhere, dask=cluster.address)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("suite", "healthy", "--on", "local"), "healthy/redlock/local runs on local"),
        (("suite", "healthy", "--on", "virtual"), "healthy/redlock/virtual runs on virtual"),
        (("suite", "healthy", "--on", "sim", "--jobs", "2"), "--jobs"),
        (("suite", "--selftest"), "--selftest together with --dask"),
        (("search", "--lock", "redlock", "--jobs", "2"), "--jobs"),
        (("test", "redlock", "--jobs", "2"), "--jobs"),
    ],
)
def test_what_a_cluster_cannot_do_is_one_clear_error_before_anything_runs(
    words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match=why) as caught:
        call([*words, "--dask", "tcp://127.0.0.1:1"])
    assert caught.value.exit_code == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


def any_mark(directory: Path) -> bool:
    return any(directory.glob("by-*"))


def test_without_dask_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.chdir(tmp_path)
    words = ["campaign", "healthy", "--seeds", "0:2", "--dask"]
    with pytest.raises(LabError, match="not installed") as caught:
        call([*words, "tcp://127.0.0.1:1"])
    assert caught.value.exit_code == ExitCode.USAGE
    assert "lock-lab[distributed]" in str(caught.value.hint)
    with pytest.raises(LabError, match="--jobs"):
        call([*words, "tcp://127.0.0.1:1", "--jobs", "2"])


@needs_dask
def test_no_scheduler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lab.batch.dask.CONNECT_S", 0.5)
    for address in ("tcp://127.0.0.1:1", "no scheme://at all"):
        with pytest.raises(LabError, match="no scheduler answers") as caught:
            call(["campaign", "healthy", "--seeds", "0:2", "--resume", "--dask", address])
        assert "dask scheduler" in str(caught.value.hint)
