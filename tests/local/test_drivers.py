"""Drivers against real nodes: the conformance test, a driver as the lock of a run, what faults do to it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.drivers import conformance, process
from lab.drivers.conformance import check_driver, shown_of_log
from lab.drivers.environment import why_not
from lab.drivers.registry import HERE, rows
from tests.lab_process import Lab

pytestmark = pytest.mark.full

TOY = Path(__file__).with_name("toy_driver.py")
REDIS_PY = shlex.join([sys.executable, "-E", str(HERE / "python" / "redis_py_driver.py")])
"""The driver of redis-py, run by the lab's own Python, which has that library."""


NOT_BLOCKING = "lock.options={blocking: false}"


def toy(mode: str) -> str:
    return shlex.join([sys.executable, str(TOY), mode])


@pytest.mark.parametrize(
    ("mode", "check", "words"),
    [
        ("banner", "says hello", ["no JSON", "'Toy driver 1.0, ready'", "toy_driver.py banner", "stderr"]),
        ("silent", "says hello", ["no answer to hello within", "flushed"]),
        ("ids", "gets a free lock", ["which nobody asked", "the id of a command"]),
        ("claims", "gets a free lock", ["no node has anything under"]),
        ("shares", "a second client does not get it", ["bob was told that he holds", "expected refused"]),
        ("deaf", "answers an acquire that is cancelled", ["no answer within 1 s"]),
        ("stays", "the end of its input", ["still ran"]),
    ],
)
async def test_what_is_wrong_with_a_driver_is_told(
    mode: str, check: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "silent":  # it never answers, however long one waits
        monkeypatch.setattr(process, "READY_TIMEOUT_S", 0.2)
    if mode == "deaf":
        monkeypatch.setattr(conformance, "ANSWER_S", 1.0)
    if mode == "stays":
        monkeypatch.setattr(process, "END_TIMEOUT_S", 0.2)
    reported: list[str] = []
    report = await check_driver(toy(mode), {}, reported.append)
    failed, *_ = [result for result in report.results if result.outcome == "FAILED"]
    assert failed.title.startswith(check)
    for word in words:
        assert word in failed.detail
    assert report.exit_code == 1
    assert any(line.startswith("FAILED") for line in reported)


def test_a_driver_that_keeps_to_the_protocol_passes(lab: Lab) -> None:
    ended = lab("drivers", "check", REDIS_PY, "--set", "blocking=false")
    assert ended.code == 0, ended.out + ended.err
    assert "FAILED" not in ended.out
    skipped = [line for line in ended.out.splitlines() if not line.startswith("ok  ")]
    assert [line.partition(": ")[0] for line in skipped] == [
        "skipped   answers an acquire that is cancelled, and leaves nothing in its place",
        "skipped   lets two readers in at once",
    ]


def test_a_driver_that_can_cancel_passes(lab: Lab) -> None:
    ended = lab("drivers", "check", toy("waits"))
    assert ended.code == 0, ended.out + ended.err
    assert "is cancelled, and leaves nothing in its place: while it waited" in ended.out
    assert "ok        gives a lease to each of two tasks" in ended.out


@pytest.mark.parametrize(
    ("name", "options"),
    [("redsync", []), ("redisson-lock", ["wait_ms=20000"]), ("spring-integration", ["wait_ms=20000"])],
)
def test_an_acquire_of_go_and_java_is_cancelled_while_it_waits(
    lab: Lab, name: str, options: list[str]
) -> None:
    reason = why_not(name)
    if reason is not None:
        pytest.skip(reason)
    sets = [word for option in options for word in ("--set", option)]
    ended = lab("drivers", "check", f"driver:{name}", *sets)
    assert ended.code == 0, ended.out + ended.err
    assert "is cancelled, and leaves nothing in its place: while it waited" in ended.out
    assert "ok        gives a lease to each of two tasks" in ended.out
    assert "ok        closes what it opened, and opens it again" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in rows().items() if not row.unavailable])
def test_every_driver_of_the_lab_keeps_to_the_protocol(lab: Lab, name: str) -> None:
    reason = why_not(name)
    if reason is not None:
        pytest.skip(reason)
    ended = lab("drivers", "check", f"driver:{name}")
    assert ended.code == 0, ended.out + ended.err
    assert "FAILED" not in ended.out
    assert "ok  " in ended.out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["drivers", "check", "./no-such-driver"], "cannot be started: No such file"),
        (["drivers", "check", "driver:no-such"], "no driver called 'no-such'"),
        (["run", "healthy", "--lock", "./no-such-driver"], "cannot be started: No such file"),
        (["run", "healthy", "--lock", toy("banner")], "no JSON"),
        (["run", "healthy", "--lock", toy("good"), "--set", "lock.options.fast=true"], "no option fast"),
        (["run", "healthy", "--lock", toy("good"), "--on", "sim"], "sim cannot run programs"),
    ],
)
def test_bad_input_is_told_before_anything_is_started(lab: Lab, command: list[str], words: str) -> None:
    ended = lab(*command)
    assert ended.code == 2, ended.out + ended.err
    assert words in ended.err


SCENARIO = """
title: Everything that happens to a client happens to its driver
source: "The lab"
why: The receipts must be those of both processes.
cluster: {nodes: 1}
lock: {ttl: 120s}
clients: [alice, bob]
steps:
  - do: [alice acquires, alice checks]
  - pause: {client: alice}
  - do: bob acquires
  - resume: {client: alice}
  - jump: {client: alice, by: -1h}
  - do: [alice writes, alice releases]
  - do: bob works
  - client_crash: {client: alice}
expect: {mutual_exclusion: ok, resource: ok, deadlock_freedom: ok}
"""


def test_what_happens_to_a_client_happens_to_its_driver(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(SCENARIO)
    ended = lab("run", "both.yaml", "--lock", REDIS_PY, "--set", NOT_BLOCKING, "--picture", "unexpected")
    assert ended.code == 0, ended.out + ended.err
    receipts: dict[str, Any] = {
        event["f"]: event["receipt"]
        for event in ended.events
        if event["process"] == "nemesis" and "receipt" in event
    }
    assert receipts["pause"]["states_after"] == "T T"
    assert receipts["client_crash"]["processes_before"] == 2
    assert -3_700_000 < float(receipts["jump"]["moved_ms"]) < -3_500_000
    acquired = next(event for event in ended.events if event["f"] == "acquire" and event["type"] == "ok")
    assert "claimed_ns" not in acquired
    assert "deadline_ns" not in acquired
    assert acquired["token"]
    refused = [event for event in ended.events if event["f"] == "acquire" and event["type"] == "fail"]
    assert [event["client"] for event in refused] == ["bob"]
    assert ended.verdict["environment"]["redis"]


def test_a_driver_that_says_rubbish_in_a_run_is_named(lab: Lab) -> None:
    ended = lab("run", "healthy", "--lock", toy("garbage"), "--set", "cluster.nodes=1")
    assert ended.code == 3, ended.out + ended.err
    for word in ("no JSON", "'Acquiring...'", "toy_driver.py garbage"):
        assert word in ended.out + ended.err


@pytest.mark.parametrize(("many", "shown"), [(60, 60), (61, 61), (200, 61)])
def test_of_a_long_log_the_beginning_is_shown_as_well(many: int, shown: int) -> None:
    lines = [f"line {number}" for number in range(many)]
    reported = shown_of_log(lines)
    assert len(reported) == shown
    assert reported[0] == lines[0]
    assert reported[-1] == lines[-1]
    assert (f"({many - 60} lines left out)" in reported) == (many > 60)
