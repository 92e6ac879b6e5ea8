"""Campaigns: no result is lost, whatever dies; the tally depends on what was found alone."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.batch.campaign import open_results, parse_seeds, results_path, run_campaign, runner
from lab.batch.journal import Journal
from lab.batch.row import Row
from lab.batch.tally import Tally
from lab.cli.app import call
from lab.errors import ExitCode, LabError, UnknownOutcome
from lab.search.tasks import task_for
from lab.substrates.execute import execute
from tests.lab_process import Lab, alive, below
from tests.sim.campaign_tasks import Fragile, Gated, Plain


def campaign(task: Plain, seeds: range, file: Path, *, jobs: int = 2, resume: bool = False) -> Tally:
    with open_results(file, task, resume=resume) as results:
        return execute(run_campaign(task, seeds, results, runner(jobs)))


def expected(task: Plain, seeds: range) -> Tally:
    tally = Tally()
    for seed in seeds:
        tally.add(task.result(seed))
    return tally


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()[1:]]


def test_the_tally_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    for jobs in (1, 3):
        file = tmp_path / f"{jobs}.jsonl"
        tally = campaign(Plain(), range(200), file, jobs=jobs)
        assert tally.to_dict() == expected(Plain(), range(200)).to_dict()
        assert sorted(line["seed"] for line in lines(file)) == list(range(200))  # type: ignore[type-var]
    assert tally.exit_code == ExitCode.UNEXPECTED
    assert tally.to_dict()["findings"]["overlap"]["first_seeds"] == [3, 13, 23, 33, 43]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_worker_that_dies_costs_no_result(tmp_path: Path, jobs: int) -> None:
    task = Fragile(marks=str(tmp_path), once=(0, 5, 6, 39))
    tally = campaign(task, range(40), tmp_path / "results.jsonl", jobs=jobs)
    assert tally.to_dict() == expected(task, range(40)).to_dict()
    tried = {seed: len(list(tmp_path.glob(f"{seed}-*"))) for seed in range(40)}
    assert [seed for seed in tried if tried[seed] != 1] == [0, 5, 6, 39]


def test_a_seed_that_kills_its_worker_twice_is_given_up_and_told(tmp_path: Path) -> None:
    task = Fragile(marks=str(tmp_path), always=(5, 11), raises=(6,))
    file = tmp_path / "results.jsonl"
    tally = campaign(task, range(20), file)
    assert tally.lost == [5, 11]
    assert tally.runs == 20
    assert sorted(tally.unknown) == [5, 6, 11]
    assert "SIGKILL" in tally.unknown[5].reasons[0]
    assert "about to die" in tally.unknown[5].reasons[0]
    assert tally.unknown[6].reasons == ("RuntimeError: out of order",)
    assert len(list(tmp_path.glob("5-*"))) == 2
    assert tally.exit_code == ExitCode.UNEXPECTED, "what came out wrong weighs more"
    # Asked again, the lost seeds alone are run again; this time they live.
    tally = campaign(Fragile(marks=str(tmp_path)), range(20), file, resume=True)
    assert tally.lost == []
    assert [line["seed"] for line in lines(file)].count(5) == 2
    assert [line["seed"] for line in lines(file)].count(4) == 1


@dataclass(frozen=True)
class Unloadable(Plain):
    """A task that no other process can make."""

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, ("no_such_module_anywhere",)


def test_a_task_that_workers_cannot_load_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no_such_module_anywhere") as caught:
        campaign(Unloadable(), range(5), tmp_path / "results.jsonl")
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


@dataclass(frozen=True)
class DiesAtOnce(Plain):
    """Ends every process that makes it."""

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (7,)


def test_workers_that_never_begin_end_the_campaign(tmp_path: Path) -> None:
    with pytest.raises(UnknownOutcome, match="exit code 7"):
        campaign(DiesAtOnce(), range(5), tmp_path / "results.jsonl", jobs=1)


def gated(directory: Path) -> list[int]:
    """The processes that wait at the gate."""
    return [int(mark.name.split("-")[1]) for mark in directory.glob("by-*")]


def test_cancelling_leaves_no_worker_and_keeps_what_was_found(tmp_path: Path) -> None:
    task = Gated(marks=str(tmp_path))
    file = tmp_path / "results.jsonl"

    async def cancelled(results: Journal) -> list[int]:
        running = asyncio.ensure_future(run_campaign(task, range(10), results, runner(2)))
        while len(gated(tmp_path)) < 2:
            await asyncio.sleep(0.01)
            assert not running.done()
        workers = gated(tmp_path)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return workers

    with open_results(file, task, resume=False) as results:
        results.append(task.result(9))
        workers = asyncio.run(cancelled(results))
    assert len(workers) == 2
    assert alive(workers) == []
    (tmp_path / "gate").touch()
    assert campaign(task, range(10), file, resume=True).to_dict() == expected(task, range(10)).to_dict()


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("7", [7]), ("0:3", [0, 1, 2]), ("5,1:3, 2:4", [5, 1, 2, 3]), ("0:10000", list(range(10_000)))],
)
def test_seeds_are_named(text: str, seeds: list[int]) -> None:
    assert list(parse_seeds(text)) == seeds


@pytest.mark.parametrize("text", ["", "x", "3:3", "4:1", "-1", "1:2:3", "0:99999999999", "1,,2", "0:"])
def test_seeds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(LabError) as caught:
        parse_seeds(text)
    assert caught.value.where == "--seeds"
    assert caught.value.hint


def test_the_tally_does_not_depend_on_the_order_of_results() -> None:
    results = [Plain().result(seed) for seed in range(50)]
    results += [Row(99, 3, reasons=("lost",), lost=True), Row(98, 3, {"resource": "unknown"})]
    reported = set()
    for shuffle in range(5):
        random.Random(shuffle).shuffle(results)
        tally = Tally()
        for result in results:
            tally.add(result)
        reported.add(json.dumps(tally.to_dict()))
    assert len(reported) == 1
    (text,) = reported
    shown = json.loads(text)
    assert shown["properties"]["resource"]["of"] == 0, "an unknown is not counted as a pass"
    assert shown["findings"]["overlap"]["of"] == 51, "a lost seed is not counted as a pass"


def first_results(process_file: Path, wanted: int) -> None:
    give_up = time.monotonic() + 90
    while not process_file.exists() or process_file.read_bytes().count(b"\n") <= wanted:
        assert time.monotonic() < give_up, "no result ever came"
        time.sleep(0.02)


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where labs that are started put temporary files; a short path, for there are sockets below it."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def left_in(directory: Path) -> list[str]:
    """What labs have left there, beside what multiprocessing itself does."""
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("pymp-"))


@pytest.mark.timeout(600)
def test_ctrl_c_keeps_all_results_and_resume_goes_on(
    lab: Lab, temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = results_path(lab.directory / "reports", task_for("partition-clockjump"))
    words = ("campaign", "partition-clockjump", "--seeds")
    running = lab.start(*words, "0:1000000", "--jobs", "1")
    first_results(file, 2)
    running.send_signal(signal.SIGINT)
    ended = lab.ended(running)
    assert ended.code == ExitCode.INTERRUPTED, ended.err
    assert "--resume" in ended.err
    assert left_in(temporary) == []
    kept = [line["seed"] for line in lines(file)]
    assert len(kept) >= 2
    with file.open("ab") as torn:
        torn.write(b'{"seed":77,"exit')  # what a power cut may leave
    monkeypatch.chdir(lab.directory)
    code = call([*words, f"{kept[0]},{kept[1]},1000001", "--resume", "--json"])
    resumed = capsys.readouterr()
    assert code == ExitCode.EXPECTED, resumed.err
    assert "2 of them known already" in resumed.err
    assert [line["seed"] for line in lines(file)] == [*kept, 1000001]
    assert json.loads(resumed.out)["properties"]["mutual_exclusion"]["violated"] == 3
    # Neither is a result lost by starting anew, nor is one of another lock counted.
    with pytest.raises(LabError, match=f"{len(kept) + 1} seeds already"):
        call([*words, "0:2"])
    assert call([*words, "0:2", "--set", "lock.ttl=9s"]) == ExitCode.EXPECTED
    assert "known already" not in capsys.readouterr().err


@pytest.mark.timeout(600)
def test_a_killed_lab_leaves_no_worker(lab: Lab, temporary: Path) -> None:
    running = lab.start("campaign", "--lock", "redlock", "--seeds", "0:1000000", "--jobs", "1")
    first_results(results_path(lab.directory / "reports", task_for(None, lock="redlock")), 1)
    workers = below(running.pid)
    running.kill()
    lab.ended(running)
    give_up = time.monotonic() + 60
    while alive(workers):
        assert time.monotonic() < give_up, workers
        time.sleep(0.02)
    assert workers
    assert left_in(temporary) == []
