"""Trials with one master and replicas: what is replicated, what a failover loses, on both wires."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.scenario.tracks import Timed
from lab.search.as_scenario import scenarios_of
from lab.search.runner import Outcome, Wire, run_trial, trials
from lab.search.suspicion import named
from lab.search.trial import Trial, decode

pytestmark = pytest.mark.usefixtures("_patched")

CRASH = {"crash": {"nodes": ["A"]}}
PROMOTE = {"promote": {"node": "B", "at": "100ms"}}


@pytest.fixture(params=["direct", "resp"])
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    with trials(request.param):
        yield request.param


def told(*actions: object) -> tuple[Timed, ...]:
    return tuple(Timed.model_validate(each) for each in actions)


def failover(*before: object, at: str = "100ms", **options: int) -> Trial:
    """Alice takes the lock; the master crashes, its replica takes its place, and Bob asks."""
    crash = {"crash": {"nodes": ["A"], "at": {"alice": "granted", "after": at}}}
    return Trial(
        "failover",
        {"alice": (), "bob": ()},
        nodes=3,
        uses=1,
        replicated=True,
        options=dict(options),
        tracks={
            "alice": told("acquire", {"release": {"at": "3s"}}),
            "faults": (*told(*before), *told(crash, PROMOTE)),
            "bob": told({"acquire": {"at": {"faults": "promote ok"}}}, {"release": {"at": "1s"}}),
        },
    )


def bobs(outcome: Outcome) -> list[str]:
    """How Bob's tries ended."""
    return [
        event["type"]
        for event in outcome.events
        if event.get("client") == "bob" and event["f"] == "acquire" and event["type"] != "invoke"
    ]


def found(outcome: Outcome) -> set[str]:
    return {finding.name for finding in named(outcome) if finding.severity == "violation"}


def test_a_promoted_replica_has_what_was_replicated(wire: Wire) -> None:
    outcome = run_trial(failover(), wire)
    assert bobs(outcome) == ["fail"]
    assert found(outcome) == set()
    receipt = next(
        event["receipt"] for event in outcome.events if event["f"] == "promote" and "receipt" in event
    )
    assert (receipt["role_before"], receipt["role_after"]) == ("replica", "master")
    assert receipt["C"] == {"follows": "B", "linked": True}


def test_a_promoted_replica_lacks_what_its_link_lost(wire: Wire) -> None:
    outcome = run_trial(
        failover({"cut": {"node": "B", "from": "A", "at": {"alice": "acquire invoke"}}}), wire
    )
    assert bobs(outcome) == ["ok"]
    assert "overlap" in found(outcome)


def test_who_waits_for_replicas_is_not_granted_what_they_lack(wire: Wire) -> None:
    cuts = [{"cut": {"node": node, "from": "A", "at": {"alice": "acquire invoke"}}} for node in ("B", "C")]
    outcome = run_trial(failover(*cuts, wait_replicas=1, retry_count=1), wire)
    ends = [(event["client"], event["type"]) for event in outcome.events if event["f"] == "acquire"]
    assert ("alice", "ok") not in ends
    assert ("alice", "info") in ends or ("alice", "fail") in ends
    assert found(outcome) == set()


def test_it_is_a_value_that_json_keeps_and_the_same_each_time(wire: Wire) -> None:
    trial = failover()
    assert decode(trial.key()) == trial
    assert run_trial(trial, wire).digest() == run_trial(decode(trial.key()), wire).digest()
    assert trial.replicas == {"B": "A", "C": "A"}
    assert trial.voters == ("A", "B")


def test_what_it_shows_is_written_as_a_scenario_with_replicas() -> None:
    trial = failover({"cut": {"node": "B", "from": "A", "at": {"alice": "acquire invoke"}}})
    with trials():
        scenario = scenarios_of(trial, "overlap", command="lab test")[0]
    assert scenario.cluster.replicas == {"B": "A", "C": "A"}
    assert scenario.expect.findings == ("overlap",)
