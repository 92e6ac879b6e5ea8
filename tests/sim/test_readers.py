"""Readers and the writer of a read-write lock in a scenario: what is asked, recorded and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from tests.sim.simulated import Simulated, run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

SCENARIO = """
title: Two readers share the lock, and the writer waits until both have gone
source: "Ours"
why: |
  Readers share the lock, and a writer has it alone.
clients: [alice, bob, carol]
lock: {name: "%s", ttl: 10s}
tracks:
  alice:
    - acquire: {mode: read}
    - release: {at: {carol: refused}}
  bob:
    - acquire: {mode: read, at: {alice: granted}}
    - release: {at: {carol: refused}}
  carol:
    - acquire: {mode: write, insist: 5s, at: {bob: granted}}
    - write
    - release
expect: {mutual_exclusion: %s}
"""


def _run(tmp_path: Path, lock: str, expected: str = "ok") -> Simulated:
    path = tmp_path / "readers.yaml"
    path.write_text(SCENARIO % (lock, expected))
    return run_in_simulation(str(path), 1, tmp_path / "reports")


def test_readers_share_the_lock_and_a_writer_has_it_alone(tmp_path: Path) -> None:
    played = _run(tmp_path, "lab.locks.read_write:ReadWrite")
    assert (played.mismatches, played.unknown) == ((), ())
    asked = [
        (event["client"], event["value"], event["type"])
        for event in played.events
        if event["f"] == "acquire" and event["type"] != "invoke"
    ]
    assert asked[:3] == [("alice", "read", "ok"), ("bob", "read", "ok"), ("carol", "write", "fail")]
    assert asked[-1] == ("carol", "write", "ok")


def test_a_writer_beside_readers_is_a_violation(tmp_path: Path) -> None:
    lock = "tests.locks_to_test.read_write:WriterDoesNotLook"
    path = tmp_path / "readers.yaml"
    path.write_text(
        (SCENARIO % (lock, "violated")).replace("{carol: refused}", "{carol: granted, after: 1s}")
    )
    played = run_in_simulation(str(path), 1, tmp_path / "reports")
    assert (played.mismatches, played.unknown) == ((), ())
    assert {each.name for each in played.verdict.findings} == {"over-capacity"}


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "readers.yaml"
    text = SCENARIO % ("lab.locks.read_write:ReadWrite", "ok")
    path.write_text(text.replace("- release: {at: {carol: refused}}\n  bob", "- write\n    - release\n  bob"))
    played = run_in_simulation(str(path), 1, tmp_path / "reports")
    assert [event["client"] for event in played.events if event["f"] == "write"] == ["carol", "carol"]
    assert [line for line in played.lines if "skipped" in line] == [
        "alice write: skipped, since it holds the lock as a reader"
    ]


def test_a_mode_of_a_lock_that_readers_do_not_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        _run(tmp_path, "redlock")
    assert caught.value.seen == "an acquire with mode: read of redlock, which is no read-write lock"
