"""A limit of open files that is too low is said before the run, with what is needed."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from lab.errors import ExitCode, LabError
from lab.locks.heartbeat import BEAT_NS, STALL_NS, beat_for
from lab.processes import allow_open_files, too_many_files
from lab.run import run
from lab.run.request import RunRequest


def test_the_limit_is_raised_as_far_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [64, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, changed: limits.__setitem__(slice(None), changed))
    assert allow_open_files(64) is None
    assert limits == [64, 4096]
    assert allow_open_files(5000) == 4096
    assert limits == [64, 4096]
    assert allow_open_files(1000) is None
    assert limits == [1000, 4096]


@pytest.mark.parametrize("substrate", ["local", "virtual"])
def test_a_run_that_needs_more_is_refused(
    substrate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (24, 24))
    with pytest.raises(LabError, match="open files in one process, and the limit is 24") as raised:
        run(RunRequest("healthy", seed=1, substrate=substrate, out=tmp_path))
    assert raised.value.exit_code == ExitCode.USAGE
    assert "ulimit -n" in (raised.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_running_out_of_them_is_one_error() -> None:
    error = too_many_files(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    assert error is not None
    assert "the limit of this process is" in error.seen
    assert too_many_files(OSError(errno.ENOENT, "no such file")) is None


def test_many_processes_look_at_the_clock_less_often() -> None:
    assert beat_for(2) == BEAT_NS
    assert BEAT_NS < beat_for(100) < beat_for(500) < STALL_NS
