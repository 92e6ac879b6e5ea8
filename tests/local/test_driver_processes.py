"""What drivers start and say: nothing is left running, a loss is recorded, leases fit, names are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from lab.errors import ExitCode
from lab.processes import processes_of

TOY = Path(__file__).with_name("toy_driver.py")
MARK = "MARK_OF_THIS_TEST"
STATIC = r"""
#include <stdio.h>
int main(void) {
    char line[9999];
    for (int number = 1; fgets(line, sizeof line, stdin); number++) {
        printf("{\"id\":%d,\"ok\":true,\"lib\":\"static\",\"version\":\"1\",\"caps\":[]}\n", number);
        fflush(stdout);
    }
}
"""


def toy(mode: str) -> str:
    return f"{sys.executable} {TOY} {mode}"


def lab(*words: str, mark: str = "none") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *words],
        env={**os.environ, MARK: mark},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("run", "healthy", "--on", "local", "--lock"), marks=pytest.mark.full),
        ("run", "healthy", "--on", "virtual", "--lock"),
        pytest.param(("test", "--budget", "8s", "--jobs", "2", "--repeat", "0"), marks=pytest.mark.full),
        ("drivers", "check"),
    ],
    ids=" ".join,
)
def test_nothing_is_left_of_a_driver_in_any_session(words: tuple[str, ...], tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    out = ("--out", str(tmp_path / "out")) if words[0] != "drivers" else ()
    ended = lab(*words, toy("leaves-children"), *out, mark=mark)
    assert processes_of(mark, MARK) == [], ended.stderr
    assert "the lab itself failed" not in ended.stderr


def test_a_loss_that_a_library_reports_ends_the_belief_of_its_client(tmp_path: Path) -> None:
    # The toy reports 1 ms after the grant. Where Alice `works`, the seed's latencies decide whether she has
    # given the lease back by then, and a loss of that is nobody's.
    holds = "steps=[{do: alice acquires}, {wait: 10ms}, {do: alice releases}]"
    out = tmp_path / "run"
    lab("run", "healthy", "--on", "virtual", "--set", holds, "--lock", toy("loses"), "--out", str(out))
    (history,) = out.glob("healthy-*/history.jsonl")
    events = [json.loads(line) for line in history.read_text().splitlines()]
    reports = [each for each in events if "/report on " in str(each.get("process"))]
    assert [(each["type"], each["f"], each.get("value")) for each in reports] == [
        ("invoke", "held", None),
        ("ok", "held", "no"),
    ]
    assert {each["grant_id"] for each in reports} == {"alice-1"}


@pytest.mark.full
def test_leases_are_those_that_a_library_can_have(tmp_path: Path) -> None:
    ended = lab("test", toy("whole-seconds"), "--budget", "25s", "--repeat", "0", "--out", str(tmp_path))
    result = json.loads((tmp_path / "result.json").read_bytes())
    asked = json.dumps(result)
    assert "no whole seconds" not in asked + ended.stdout
    assert result["failed"] == []
    assert ended.returncode in (ExitCode.UNEXPECTED, ExitCode.UNKNOWN)
    assert {each["trial"]["ttl_ns"] % 10**9 for each in (*result["defects"], *result["undecided"])} <= {0}


@pytest.mark.full
def test_a_static_program_is_named_itself(tmp_path: Path) -> None:
    source, program = tmp_path / "driver.c", tmp_path / "driver"
    source.write_text(STATIC)
    compiled = subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, check=False)
    if compiled.returncode:
        pytest.skip("this compiler links no static programs")
    ended = lab("run", "healthy", "--on", "virtual", "--lock", str(program), "--out", str(tmp_path / "run"))
    assert ended.returncode == ExitCode.UNKNOWN
    said = " ".join((ended.stderr + ended.stdout).split())
    assert (
        f"the driver '{program}' runs without the preload library" in said or f"the driver {program}" in said
    )
    assert "client-alice runs" not in said
