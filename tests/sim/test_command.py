"""``lab run NAME --on sim``, as its user runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.cli.app import call
from lab.errors import ExitCode, LabError
from tests.lab_process import Lab

SLEEPY = """
import time

from lab.locks.redlock import Redlock


class Sleepy(Redlock):
    async def acquire(self, key, ttl_ns):
        time.sleep(1)
        return await super().acquire(key, ttl_ns)
"""
BROKEN = """
from lab.locks.redlock import Redlock


class Broken(Redlock):
    async def acquire(self, key, ttl_ns):
        raise ZeroDivisionError("of its own")
"""


@pytest.mark.full
def test_a_run_and_its_repetition(lab: Lab) -> None:
    lab.draws = True
    first = lab("run", "partition-clockjump", "--on", "sim", "--seed", "7")
    assert first.code == 0, first.out + first.err
    assert first.outcomes["mutual_exclusion"] == "violated"
    assert first.out.index("mutual exclusion") < first.out.index("report:")
    assert "virtual time" in first.out.splitlines()[-1]
    assert (first.directory / "timeline.svg").exists()
    assert first.verdict["environment"]["substrate"] == "sim"
    assert first.verdict["repeat"] == "lab run partition-clockjump --seed 7 --on sim"
    directory = first.directory
    history = (directory / "history.jsonl").read_bytes()
    without = ("--on", "sim")
    again = lab("run", "partition-clockjump", "--seed", "7", *without)
    assert again.directory != directory
    assert (again.directory / "history.jsonl").read_bytes() == history
    other = lab("run", "partition-clockjump", "--seed", "8", *without)
    assert (other.directory / "history.jsonl").read_bytes() != history


def test_a_stored_run_is_checked_again(lab: Lab) -> None:
    run = lab("run", "healthy", "--on", "sim")
    assert run.code == 0, run.err
    again = lab("check", str(run.directory))
    assert again.code == 0
    assert again.verdict["environment"]["substrate"] == "sim"


def test_a_table_of_simulated_runs(lab: Lab) -> None:
    table = lab("suite", "gc-pause-in-flight", "--on", "sim", "--repeat", "2")
    assert table.code == 0, table.out + table.err
    assert "2 of 2 as expected, 0 not, 0 unknown; 4 runs" in table.out


def test_a_lock_that_leaves_the_simulation_makes_the_run_unknown(lab: Lab) -> None:
    (lab.directory / "sleepy_lock.py").write_text(SLEEPY)
    run = lab("run", "healthy", "--on", "sim", "--lock", "sleepy_lock:Sleepy")
    assert run.code == 3, run.out + run.err
    assert re.search("simulated code on (alice|bob) blocks in time.sleep", run.err), "whoever comes first"
    assert "sleepy_lock.py:9, in acquire" in run.err
    assert run.events, "the history is kept"


def test_a_client_that_breaks_ends_the_run(lab: Lab) -> None:
    (lab.directory / "broken_lock.py").write_text(BROKEN)
    run = lab("run", "healthy", "--on", "sim", "--lock", "broken_lock:Broken")
    assert run.code == 3, run.out + run.err
    said = run.out + run.err
    assert re.search("the lock failed: (alice|bob).s acquire raised ZeroDivisionError: of its own", said)


@pytest.mark.parametrize(
    "words",
    [
        ("search", "--lock", "./my-driver --fast"),
        ("campaign", "--lock", "./my-driver", "--seeds", "0:2"),
        ("campaign", "healthy", "--lock", "./my-driver", "--seeds", "0:2"),
    ],
)
def test_a_driver_that_is_not_there_is_refused_at_once(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match="there is no program") as caught:
        call([*words])
    assert caught.value.exit_code == ExitCode.USAGE
    assert not list(tmp_path.iterdir())
