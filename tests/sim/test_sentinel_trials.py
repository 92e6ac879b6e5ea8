"""Trials with Sentinels: who is the master is what they decide, and the history says so."""

from __future__ import annotations

import pytest

from lab.examine.kinds import PROMOTED
from lab.examine.violations.judge import labels
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.scenario.steps import Acquire, Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.as_tracks import FAULTS, action
from lab.search.faults import timed_fault
from lab.search.runner import Outcome, run_trial, trials
from lab.search.trial import PROMOTED_WITHIN_NS, Track, Trial, decode
from tests.sentinels import faults

pytestmark = pytest.mark.usefixtures("_patched")

S_NS = 1_000_000_000
GRANTED = on("alice", "granted")
APART = Timed.model_validate({Cut.KEY: {"node": "A", "nodes": ["B", "C", "S1", "S2", "S3"]}})


def trial(*happens: Timed) -> Trial:
    """Alice takes the lock and keeps it; Bob insists from her grant on, and what happens does so then."""
    insists = action(Acquire, GRANTED, insist_ns=20 * S_NS, pause_ns=S_NS // 2)
    tracks: dict[str, Track] = {"alice": (action(Acquire),), "bob": (insists, action(Release))}
    return Trial(
        "sentinel",
        {"alice": (), "bob": ()},
        nodes=3,
        ttl_ns=30 * S_NS,
        options={"node_timeout": "250ms", "retry_count": 1},
        replicated=True,
        uses=1,
        sentinels=3,
        tracks={**tracks, FAULTS: happens} if happens else tracks,
    )


def played(of: Trial) -> Outcome:
    with trials():
        return run_trial(of, watch=True)


def granted(outcome: Outcome, client: str) -> list[int]:
    return [
        e["time_ns"]
        for e in outcome.events
        if (e.get("client"), e["f"], e["type"]) == (client, "acquire", "ok")
    ]


def test_without_a_fault_there_is_no_failover() -> None:
    outcome = played(trial())
    assert faults(outcome.events, "failover") == []
    assert granted(outcome, "bob") == []
    assert not labels(outcome.trial)


CRASH = timed_fault(Crash, GRANTED, nodes=("A",))
LOST = tuple(
    Timed.model_validate({Cut.KEY: {"node": name, "from": "A"}}).model_copy(
        update={"at": on("alice", "acquire invoke")}
    )
    for name in "BC"
)


@pytest.mark.parametrize(
    ("happens", "overlaps"),
    [
        pytest.param((CRASH,), False, id="crash"),
        pytest.param((*LOST, CRASH), True, id="crash before the key is replicated"),
        pytest.param((APART.model_copy(update={"at": GRANTED}),), False, id="master cut off"),
    ],
)
def test_they_promote_a_replica_and_the_history_has_its_receipt(
    happens: tuple[Timed, ...], *, overlaps: bool
) -> None:
    outcome = played(trial(*happens))
    (failover,) = faults(outcome.events, "failover")
    (alice,) = granted(outcome, "alice")
    assert failover["receipt"]["old_master"] == "A"
    assert failover["receipt"]["role_of_new"] == "master"
    assert S_NS < failover["time_ns"] - alice < PROMOTED_WITHIN_NS
    assert bool(granted(outcome, "bob")) == overlaps, "the new master has the key, or not"
    assert PROMOTED in labels(outcome.trial)
    assert len(outcome.struck) == len(happens), "what they decide is no fault of the trial"
    assert {entry.client for entry in outcome.commands} <= {"alice", "bob"}, "what clients asked alone"


def test_a_trial_is_the_same_each_time_also_from_a_file() -> None:
    once = trial(CRASH)
    again = decode(once.key())
    assert again == once
    assert played(once).digest() == played(again).digest()
