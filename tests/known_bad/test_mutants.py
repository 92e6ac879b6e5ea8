"""Known-broken locks are found, and found for the right reason; the real one passes the same stories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab_process import Ended, Lab

STORIES = {
    "late-release": """
title: A client releases after its lease is over
source: "Distributed Locks with Redis: why the release compares the value"
why: A bare DEL removes whoever's key is there.
lock: {name: redlock, ttl: 1s}
clients: [alice, bob, carol]
steps:
  - do: alice acquires
  - until: {keys: gone}
  - do: [bob acquires, alice releases, carol acquires]
expect: {mutual_exclusion: ok}
""",
    "two-minorities": """
title: Each client reaches two nodes of its own
source: "Distributed Locks with Redis: why a majority"
why: Two of five nodes are no majority, so two clients can have them at once.
lock: {name: redlock, ttl: 10s}
clients: [alice, bob]
steps:
  - cut: {client: alice, nodes: [C, D, E]}
  - cut: {client: bob, nodes: [A, B]}
  - do: [alice acquires, bob acquires]
expect: {mutual_exclusion: ok}
""",
    "late-extension": """
title: A client extends a lease that somebody else had in between
source: "Distributed Locks with Redis: making the algorithm more reliable, extending the lock"
why: An extension that takes the lock again hides that it was lost.
lock: {name: redlock, ttl: 1s}
clients: [alice, bob]
steps:
  - do: alice acquires
  - until: {keys: gone}
  - do: [bob acquires, bob releases, alice extends]
expect: {mutual_exclusion: ok}
""",
}


def play(lab: Lab, tmp_path: Path, story: str, lock: str) -> Ended:
    if story not in STORIES:
        return lab("run", story, "--lock", lock)
    (tmp_path / "story.yaml").write_text(STORIES[story])
    return lab("run", "story.yaml", "--lock", lock)


CAUGHT = [
    ("NoElapsedCheck", "gc-pause-in-flight", "lease_honesty", "false-validity"),
    ("QuorumOffByOne", "two-minorities", "mutual_exclusion", "overlap"),
    ("BareDelete", "late-release", "mutual_exclusion", "overlap"),
    ("ExtendReacquires", "late-extension", "mutual_exclusion", "continuity-loss"),
]


@pytest.mark.parametrize(("mutant", "story", "broken", "finding"), CAUGHT, ids=[row[0] for row in CAUGHT])
def test_a_broken_lock_is_caught(
    lab: Lab, tmp_path: Path, mutant: str, story: str, broken: str, finding: str
) -> None:
    run = play(lab, tmp_path, story, f"tests.known_bad.mutants:{mutant}")
    assert run.code == 1, run.out + run.err
    assert run.outcomes[broken] == "violated", run.out
    assert finding in run.findings


@pytest.mark.parametrize("story", sorted({row[1] for row in CAUGHT}))
def test_the_real_one_passes_the_same_story(lab: Lab, tmp_path: Path, story: str) -> None:
    run = play(lab, tmp_path, story, "redlock")
    assert run.code == 0, run.out + run.err
