"""Running the lab as its user does: as a process, from another directory, with reports of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.__main__ import main
from lab.processes import processes_of, started_at

ROOT = Path(__file__).resolve().parents[1]
MARK = "LOCK_LAB_TEST"


@dataclass(frozen=True)
class Ended:
    """How a lab process ended."""

    code: int
    out: str
    err: str
    reports: Path

    @property
    def directory(self) -> Path:
        """The directory of its (last) run."""
        return (self.reports / "latest").resolve()

    @property
    def verdict(self) -> dict[str, Any]:
        """What it wrote into verdict.json."""
        read: dict[str, Any] = json.loads((self.directory / "verdict.json").read_text())
        return read

    @property
    def outcomes(self) -> dict[str, str]:
        """Property → outcome."""
        return {name: seen["outcome"] for name, seen in self.verdict["verdict"]["properties"].items()}

    @property
    def findings(self) -> list[str]:
        """The names of all findings."""
        return [
            finding["name"]
            for seen in self.verdict["verdict"]["properties"].values()
            for finding in seen["findings"]
        ]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The history's events, header and footer excluded."""
        lines = (self.directory / "history.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if "process" in event]


class Lab:
    """One directory in which labs are run; without an ``engine`` they find none, so auto means local."""

    def __init__(self, directory: Path, *, engine: bool = False) -> None:
        self.directory = directory
        self._where = {} if engine else {"DOCKER_HOST": f"unix://{directory}/no-engine"}
        self.started: list[subprocess.Popen[str]] = []
        self.mark = secrets.token_hex(8)
        self.draws = False
        """Whether runs are drawn as by default, a third of what a run costs; else only unexpected ones."""

    def start(self, *arguments: str, within: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Start ``lab ARGUMENTS`` (by the program ``within``, if there is one) and return at once."""
        if arguments[0] == "run" and "--picture" not in arguments and not self.draws:
            arguments = (*arguments, "--picture", "unexpected")
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "lab", *arguments],
            cwd=self.directory,
            env={**os.environ, **self._where, "PYTHONPATH": str(ROOT), MARK: self.mark, "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def ended(self, process: subprocess.Popen[str], reports: str = "reports") -> Ended:
        """Wait for its end; one that hangs is killed and fails the test."""
        try:
            out, err = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"the lab hung\n{out}\n{err}") from None
        return Ended(process.returncode, out, err, self.directory / reports)

    def __call__(self, *arguments: str) -> Ended:
        """Run ``lab ARGUMENTS`` to its end."""
        return self.ended(self.start(*arguments))

    def wait_until_nothing_runs(self) -> None:
        """Wait until all that these labs started has ended by itself."""
        give_up = time.monotonic() + 120
        while left := processes_of(self.mark, MARK):
            assert time.monotonic() < give_up, left
            time.sleep(0.02)

    def wait_for_event(self, f: str, process: str | None = None, reports: str = "reports") -> Path:
        """Wait until a running lab has recorded an event; return its run directory."""
        give_up = time.monotonic() + 240
        while time.monotonic() < give_up:
            with contextlib.suppress(FileNotFoundError):  # a run has ended, or `latest` is pointed elsewhere
                for log in self._event_logs(reports):
                    for line in log.read_text().splitlines(keepends=True):
                        if line.endswith("\n"):
                            event = json.loads(line)
                            if event["f"] == f and process in (None, event["process"]):
                                return log.parents[1]
            time.sleep(0.005)
        raise AssertionError(f"no event {f} was ever recorded")

    def _event_logs(self, reports: str) -> Iterator[Path]:
        for run in self.directory.glob(f"{reports}/*"):
            if run.name != "latest":
                yield from run.glob("events/*.jsonl")


def ended_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[object, str]:
    """Run ``lab ARGUMENTS`` in this process, for what is told before anything runs: exit code, and errors."""
    monkeypatch.setattr(sys, "argv", ["lab", *arguments])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


def children_of(pid: int) -> dict[int, str]:
    """The living children of a process, by the kernel's word: process id → command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def below(pid: int) -> dict[int, str]:
    """The living children of a process, their children, and so on: process id → command line."""
    found = children_of(pid)
    for child in list(found):
        found |= below(child)
    return found


def part(run: int, name: str) -> int:
    """The process of a run that is called so, or has it in its command line; a Redis is where its data is."""
    return next(
        pid
        for pid, command in children_of(run).items()
        if name in command or Path(f"/proc/{pid}/cwd").readlink().name == name
    )


def alive(pids: Iterable[int]) -> list[int]:
    """Those of the processes that have not ended."""
    return [pid for pid in pids if started_at(pid) is not None]
