"""A lock that tries again without undoing: what it says of its attempt is held against the nodes."""

from __future__ import annotations

from tests.lab_process import Lab

LOCK = """
import asyncio

from lab.locks.base import Lease, NotAcquired
from lab.locks.redlock import Redlock


class KeepsVotes(Redlock):
    name = "keeps-votes"

    async def acquire(self, key, ttl_ns):
        token, had = self._surroundings.new_token(), set()
        for attempt in range(self.options.retry_count):
            if attempt:
                await asyncio.sleep(self.options.retry_delay_ns / 1e9)
            start_ns = self._surroundings.clock_ns()
            taken = await self._take(key, token, ttl_ns)
            had |= {node for node, vote in taken.votes.items() if vote == "yes"}
            if len(had) >= self.quorum:
                deadline_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
                return Lease(key, token, ttl_ns, deadline_ns, attempt_ns=start_ns)
        raise NotAcquired("no majority", [token], refused_by=0)
"""
SCENARIO = """
title: Votes of an earlier try are counted
source: a test
why: The nodes count the lease from their own SET, whatever the lock says of its attempt.
cluster: {nodes: 5}
lock:
  name: kept_votes:KeepsVotes
  ttl: 2s
  options: {retry_count: 3, retry_delay: 1500ms, retry_jitter: 0ms}
clients: [alice, bob]
steps:
CUTS
  - start: alice acquires
  - until: {nodes: [A, B], executed: SET}
  - wait: 300ms
  - heal: {client: alice, nodes: [HEALED]}
  - finish: alice
  - until: {keys: gone, nodes: [A, B]}
  - do: bob acquires
expect: {lease_honesty: OUTCOME}
"""


def findings(lab: Lab, *, cuts: tuple[str, ...], healed: str, outcome: str) -> tuple[int, list[str]]:
    """The exit code, and what was found of honesty; every cut is one between Alice and some nodes."""
    (lab.directory / "kept_votes.py").write_text(LOCK)
    steps = "".join(f"  - cut: {{client: alice, nodes: [{nodes}]}}\n" for nodes in cuts)
    path = lab.directory / "scenario.yaml"
    path.write_text(SCENARIO.replace("CUTS\n", steps).replace("HEALED", healed).replace("OUTCOME", outcome))
    run = lab("run", str(path), "--on", "sim")
    found = run.verdict["verdict"]["properties"]["lease_honesty"]["findings"]
    return run.code, [finding["name"] for finding in found]


def test_a_lease_that_rests_on_earlier_votes_is_told_from_their_keys(lab: Lab) -> None:
    seen = findings(lab, cuts=("C", "D, E"), healed="C", outcome="violated")
    assert seen == (0, ["false-validity"])


def test_a_majority_of_its_own_attempt_makes_it_honest(lab: Lab) -> None:
    assert findings(lab, cuts=("C, D, E",), healed="C, D, E", outcome="ok") == (0, [])
