"""Votes split; a random pause resolves that and a fixed one does not. Links are healed together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

FIXED = ["lock.options.retry_jitter=0ms"]


def events(directory: Path) -> list[dict[str, object]]:
    lines = (directory / "history.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if "process" in event]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_token_has_a_majority_in_the_first_round(seed: int, tmp_path: Path) -> None:
    """The first value of the key on each node: two votes, two votes and one, and none of them was granted."""
    run = run_in_simulation("split-vote", seed, tmp_path)
    assert (run.mismatches, run.unknown) == ((), ())
    first: dict[object, object] = {}
    for event in events(run.directory):
        if event["f"] == "key-set":
            first.setdefault(event["node"], event["token"])
    votes = list(first.values())
    assert sorted(map(votes.count, dict.fromkeys(votes))) == [1, 2, 2]
    granted = [e for e in events(run.directory) if e["f"] == "acquire" and e["type"] == "ok"]
    assert len(granted) == 4
    assert not set(votes) & {event["token"] for event in granted}


def test_after_a_fixed_pause_all_of_them_run_into_each_other_again(tmp_path: Path) -> None:
    run = run_in_simulation("split-vote", 1, tmp_path, FIXED)
    assert [(m.what, m.seen) for m in run.mismatches] == [
        ("alice works (1 of 2)", "refused"),
        ("bob works", "refused"),
        ("carol works", "refused"),
    ]


def test_links_are_healed_together(tmp_path: Path) -> None:
    """No client's link waits until another's has shown its receipt."""
    steps = (
        "[{hold: {client: alice, nodes: all, direction: requests}},"
        " {hold: {client: bob, nodes: all, direction: requests}}, {start: alice acquires},"
        " {start: bob acquires}, {heal: all}, {finish: [alice, bob]}]"
    )
    run = run_in_simulation("healthy", 1, tmp_path, [f"steps={steps}", "lock.options={node_timeout: 5s}"])
    found = events(run.directory)
    begun = [at for at, event in enumerate(found) if (event["f"], event["type"]) == ("heal", "invoke")]
    ended = [at for at, event in enumerate(found) if (event["f"], event["type"]) == ("heal", "ok")]
    assert len(begun) == len(ended) == 2
    assert max(begun) < min(ended)
