"""What an extension that was given up may still have done: on the nodes, in the record, in the verdict."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from lab.locks.redlock import EXTEND_SCRIPT
from lab.redis_model import RedisModel
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

SCENARIO = Path(__file__).with_name("late_extension.yaml")


@pytest.mark.parametrize("seed", [1747532890, 2])
def test_an_extension_answered_too_late_is_recorded_as_unknown_and_holds_nothing_against_the_lock(
    seed: int, tmp_path: Path
) -> None:
    run = run_in_simulation(str(SCENARIO), seed, tmp_path)
    assert (run.mismatches, run.unknown) == ((), ())
    lines = map(json.loads, (run.directory / "history.jsonl").read_text().splitlines())
    events = [event for event in lines if event.get("f") == "extend"]
    assert [event["type"] for event in events] == ["invoke", "info"]
    assert "the answer came after its time was over" in events[1]["error"]


def test_an_extension_never_shortens() -> None:
    """One that is delayed, and asked for less, comes after a longer one."""
    now_ns = 1_767_225_600_000_000_000
    node = RedisModel(
        "A",
        wall_ns=lambda: now_ns,
        monotonic_ns=lambda: now_ns,
        persistence="aof-always",
        random=Random(1),
    )
    node.call("SET", "key", "token", "NX", "PX", 1000)
    for ttl_ms, left_ms in ((5000, 5000), (2000, 5000), (5000, 5000), (6000, 6000)):
        assert node.call("EVAL", EXTEND_SCRIPT, 1, "key", "token", ttl_ms) == 1
        assert node.call("PTTL", "key") == left_ms
    assert node.call("EVAL", EXTEND_SCRIPT, 1, "key", "another", 9000) == 0
    assert node.call("PTTL", "key") == 6000
    node.call("PERSIST", "key")
    assert node.call("EVAL", EXTEND_SCRIPT, 1, "key", "token", 7000) == 1
    assert node.call("PTTL", "key") == 7000
