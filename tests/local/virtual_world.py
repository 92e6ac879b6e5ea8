"""A conductor for tests: processes in virtual time, and a loop that moves it from deadline to deadline."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lab.shims.virtual_time import VirtualTime, fixed_addresses
from tests.unit.shim_support import built_shims

S = 10**9
START_NS = 1_000 * S
WALL_NS = 1_700_000_000 * S


class World:
    """Virtual time that is 1000 s old, and what runs in it."""

    def __init__(self, directory: Path, libraries: Mapping[str, Path]) -> None:
        self.time = VirtualTime(
            directory / "page",
            preload=libraries["vtime-shim"],
            conductor=libraries["conductor"],
            now_ns=START_NS,
            wall_ns=WALL_NS,
        )
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def start(self, *argv: str | Path, seed: int = 1, env: Mapping[str, str] | None = None) -> int:
        """Start a process; its number. Its output is a pipe."""
        number = self.time.admit(seed)
        with fixed_addresses():
            self.processes[number] = subprocess.Popen(
                argv,
                env={**os.environ, **self.time.environment(number), **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        return number

    def python(self, script: str, *arguments: str, seed: int = 1) -> int:
        """Start a Python program."""
        return self.start(sys.executable, "-ISc", script, *arguments, seed=seed)

    @property
    def passed_s(self) -> float:
        """How much virtual time has passed."""
        return (self.time.now_ns - START_NS) / S

    def run(self, until_ns: int | None = None, *, limit_s: float = 20.0) -> None:
        """Move the time from deadline to deadline, until none is left or `until_ns` is reached."""
        self.time.settle(limit_s)
        for _ in range(100_000):
            due = self.time.due()
            assert not [wait for number in self.processes if (wait := self.time.unseen_wait(number))]
            if due is None or (until_ns is not None and due.deadline_ns > until_ns):
                break
            self.time.advance(max(due.deadline_ns, self.time.now_ns))
            for each in due.slots:
                self.time.wake(*each)
                self.time.settle(limit_s)
        else:
            raise AssertionError("a deadline comes again and again")
        if until_ns is not None:
            self.time.advance(until_ns)

    def run_for(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        self.run(self.time.now_ns + round(seconds * S))

    def say(self, number: int, line: str) -> None:
        """Give a process a line to read, and wait until it has done what it does then."""
        stdin = self.processes[number].stdin
        assert stdin is not None
        self.time.touch(number)
        stdin.write(line + "\n")
        stdin.flush()
        self.time.settle()

    def output(self, number: int) -> str:
        """Run until all that is due is done; the process must have ended well. What it printed."""
        self.run()
        process = self.processes[number]
        assert process.poll() is not None, f"process {number} still runs, and waits for no time"
        printed, _ = process.communicate()
        assert process.returncode == 0, printed
        return printed

    def printed(self, number: int) -> str:
        """What a process that still runs has printed."""
        stdout = self.processes[number].stdout
        assert stdout is not None
        os.set_blocking(stdout.fileno(), False)
        return os.read(stdout.fileno(), 65536).decode() if select.select([stdout], [], [], 0)[0] else ""

    def end(self, number: int) -> None:
        """End a process and its children; its number can be used again."""
        process = self.processes.pop(number)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.time.retire(number)

    def close(self) -> None:
        """End everything."""
        for number in list(self.processes):
            self.end(number)
        self.time.close()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built_shims(tmp_path_factory)


@pytest.fixture
def world(tmp_path: Path, libraries: dict[str, Path]) -> Iterator[World]:
    made = World(tmp_path, libraries)
    yield made
    made.close()
