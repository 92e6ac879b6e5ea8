"""The last lines of a run: where its report is, and how long it took."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from checker import Verdict
from lab.report import terminal
from lab.run.result import RunResult

SECONDS = {"up": 2.0, "steps": 3.0, "heal": 0.5, "down": 0.5, "check": 0.25, "report": 0.5}


def ending(tmp_path: Path, age_s: float | None, *, simulated: bool = False) -> str:
    console = Console(file=io.StringIO(), width=300, no_color=True)
    where = {"substrate": "sim" if simulated else "local"}
    result = RunResult(tmp_path, "steps", Verdict({}), environment=where)
    terminal.print_ending(console, result, (), SECONDS, age_s)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_whole_time_counts_from_the_start_of_the_process(tmp_path: Path) -> None:
    assert "report 0.50 s · 8.12 s since the process started\n" in ending(tmp_path, 8.125)
    simulated = ending(tmp_path, 8.125, simulated=True)
    assert "8.12 s since the process started (up, steps, heal, down: virtual time)\n" in simulated


def test_where_that_is_not_known_the_parts_are_added(tmp_path: Path) -> None:
    assert "6.75 s of these parts" in ending(tmp_path, None)
    assert "0.75 s of these parts" in ending(tmp_path, None, simulated=True)


def test_the_age_of_a_process_is_that_since_its_start() -> None:
    program = "import time; time.sleep(0.3); from lab.api.runs import process_age_s as age; print(age())"
    before = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lasted_s = time.monotonic() - before
    assert re.fullmatch(r"\d+\.\d+\n", ended.stdout)
    assert 0.3 < float(ended.stdout) < lasted_s + 0.02
