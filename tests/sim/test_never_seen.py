"""A command that never comes: the message says what the nodes executed instead, and what to do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lab.run.executed_instead import Executed, executed_instead
from tests.sim.simulated import run_in_simulation

SCENARIO = """
title: A command is waited for
source: a test
why: To see what is said where it never comes.
lock: {name: "LOCK", ttl: 2s, options: {retry_count: 1}}
clients: [alice]
steps:
  - start: alice acquires
  - until: {nodes: [A, B], executed: SET, within: 500ms}
  - finish: alice
expect: {mutual_exclusion: ok}
"""


def reported(lock: str, directory: Path, *before: str) -> str:
    """The error if the SET is never executed."""
    path = directory / "s.yaml"
    steps = "".join(f"  - {step}\n" for step in before)
    path.write_text(SCENARIO.replace("LOCK", lock).replace("steps:\n", f"steps:\n{steps}"))
    run = run_in_simulation(str(path), 1, directory)
    assert run.unknown
    assert run.lines[-1].startswith("lab NEVER OBSERVED: node A, B executed SET: not within 0.5 s; ")
    assert run.lines[-1].removeprefix("lab NEVER OBSERVED: ") in " ".join(run.unknown)
    return run.lines[-1].partition("0.5 s; ")[2]


@pytest.mark.usefixtures("_patched")
def test_nothing_reached_the_node(tmp_path: Path) -> None:
    seen = reported("redlock", tmp_path, "cut: {client: alice, nodes: [B]}")
    assert seen.startswith("node B executed no command of a client. Nothing was sent there")
    assert "let the client work once before the first fault (- do: alice works)" in seen


@pytest.mark.usefixtures("_patched")
def test_the_key_has_another_name(tmp_path: Path) -> None:
    seen = reported("tests.sim.campaign_locks:OtherKey", tmp_path)
    assert "node A executed SET lock:resource" in seen
    assert "The lock's key is not 'resource' there" in seen


@pytest.mark.usefixtures("_patched")
def test_the_lock_does_without_the_command(tmp_path: Path) -> None:
    seen = reported("tests.sim.campaign_locks:ByHash", tmp_path)
    assert "node A executed HSET, PEXPIRE on 'resource'" in seen
    assert "This lock does not use SET here" in seen


def seen_on_a(on_key: dict[str, int], others: dict[str, int]) -> str:
    return executed_instead("SET", "k", {"A": Executed(Counter(on_key), Counter(others))})


def test_a_library_that_loads_its_script_first() -> None:
    seen = seen_on_a({"EVALSHA": 2}, {"HELLO": 1})
    assert seen.startswith("node A executed EVALSHA (2 times) on 'k' and HELLO. ")
    assert "do: alice works" in seen
    assert "loads its scripts, only now" in seen_on_a({}, {"CLIENT": 1, "HELLO": 1})


def test_not_so_often_as_it_was_waited_for() -> None:
    assert "SET was executed, but not so often" in seen_on_a({"SET": 1}, {})


def test_only_nodes_that_lack_it_are_named() -> None:
    nothing = Executed(Counter(), Counter())
    seen = executed_instead("SET", "k", {"A": Executed(Counter(SET=1), Counter()), "B": nothing})
    assert seen.startswith("node B executed no command")
