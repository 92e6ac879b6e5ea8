"""Scenarios whose verdict alone does not say that they came about as they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sim.simulated import Simulated, run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")


def events(run: Simulated) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.directory / "history.jsonl").read_text().splitlines()]


def of(run: Simulated, client: str, f: str, *types: str) -> list[dict[str, Any]]:
    return [
        e
        for e in events(run)
        if e.get("client", e.get("process")) == client and e.get("f") == f and e["type"] in types
    ]


def outcome(run: Simulated, name: str) -> str:
    return next(str(p.outcome) for n, p in run.verdict.properties.items() if str(n) == name)


def test_what_an_old_holder_sends_is_rejected_whatever_it_is(tmp_path: Path) -> None:
    run = run_in_simulation("fence-on-all-accesses", 1, tmp_path)
    assert run.mismatches == ()
    for f in ("write", "read"):
        (rejected,) = of(run, "alice", f, "fail")
        assert rejected["error"] == "fenced: 1 after 2"
    (read, write) = of(run, "bob", "read", "ok")[0], of(run, "bob", "write", "ok")[0]
    assert of(run, "alice", "write", "fail")[0]["index"] > read["index"], "Bob had only read by then"
    assert of(run, "alice", "write", "fail")[0]["index"] < write["index"]


def test_with_writes_fenced_alone_the_same_scenario_loses_an_update(tmp_path: Path) -> None:
    run = run_in_simulation("fence-on-all-accesses", 1, tmp_path, ["store.fencing=true"])
    assert outcome(run, "resource") == "violated"
    assert not of(run, "alice", "write", "fail")


@pytest.mark.parametrize(("clock", "exclusion"), [("monotonic", "ok"), ("wall", "violated")])
def test_which_clock_measures_the_delay_decides(tmp_path: Path, clock: str, exclusion: str) -> None:
    text = Path("scenarios/restart-delayed-monotonic.yaml").read_text()
    scenario = tmp_path / "scenario.yaml"
    # By the wall clock C comes back at once, and Bob's one attempt is waited for.
    scenario.write_text(
        text.replace("clock: monotonic", f"clock: {clock}").replace("and C is not there yet", "")
        if clock == "monotonic"
        else text.replace("clock: monotonic", "clock: wall")
        .replace(
            "  - do: bob acquires\n  - until: {nodes: [C], up: true}\n", "  - until: {nodes: [C], up: true}\n"
        )
        .replace("bob acquires: [refused, ok]", "bob acquires: ok")
    )
    run = run_in_simulation(str(scenario), 1, tmp_path)
    (back,) = of(run, "nemesis", "restart", "ok")
    assert back["receipt"]["C"]["down_by_E_clock_ms"] > 6000
    assert outcome(run, "mutual_exclusion") == exclusion
    if clock == "monotonic":
        assert 5500 <= back["receipt"]["C"]["down_by_E_monotonic_clock_ms"] < 5600
        assert any("by E's monotonic clock" in line for line in run.lines)
    else:
        assert "down_by_E_monotonic_clock_ms" not in back["receipt"]["C"]
        assert back["receipt"]["C"]["down_ms"] < 1000


def test_a_majority_is_refused_by_redlock_hyperf_and_enough_for_redlock(tmp_path: Path) -> None:
    name = "hyperf-refuses-a-majority"
    theirs = run_in_simulation(name, 1, tmp_path / "theirs")
    (refusal,) = of(theirs, "bob", "acquire", "fail")
    assert "3 of 5 nodes granted it, 3.5 are needed" in refusal["error"]
    ours = run_in_simulation(name, 1, tmp_path / "ours", ["lock.name=redlock"])
    assert of(ours, "bob", "acquire", "ok")
    assert outcome(ours, "deadlock_freedom") == "ok"


def test_redlock_goes_on_where_redlock_hyperf_throws(tmp_path: Path) -> None:
    theirs = run_in_simulation("hyperf-minority-down", 1, tmp_path / "theirs")
    raised = of(theirs, "alice", "acquire", "info") + of(theirs, "bob", "acquire", "info")
    assert len(raised) == 6
    assert all("an exception" in event["error"] for event in raised)
    ours = run_in_simulation("hyperf-minority-down", 1, tmp_path / "ours", ["lock.name=redlock"])
    assert outcome(ours, "fault_tolerance") == "ok"


def test_keys_that_an_exception_left_refuse_the_next_client(tmp_path: Path) -> None:
    run = run_in_simulation("hyperf-exception-leaves-keys", 1, tmp_path)
    (raised,) = of(run, "alice", "acquire", "info")
    (refused,) = of(run, "bob", "acquire", "fail")
    assert "1 of 5 nodes granted it" in refused["error"], "the four that were asked before keep Alice's key"
    assert raised["index"] < refused["index"]


def test_the_wall_clock_makes_the_validity_longer_than_the_lease(tmp_path: Path) -> None:
    run = run_in_simulation("hyperf-clock-back", 1, tmp_path)
    claim = of(run, "alice", "acquire", "ok")[-1]["claimed_ns"]
    assert 3590 < claim / 1e9 < 3602
    monotonic = run_in_simulation("hyperf-clock-back", 1, tmp_path / "ours", ["lock.name=redlock"])
    assert outcome(monotonic, "lease_honesty") == "ok"
