"""A Redis Cluster of containers: a failover over links that can be cut, also those of the cluster bus."""

from __future__ import annotations

import pytest

from lab.scenario.files import cluster_names
from tests.docker.test_scenarios_in_containers import side_by_side
from tests.lab_process import Lab

pytestmark = pytest.mark.timeout(300)

ALWAYS = "cluster-failover"
"""In it a link between two nodes is cut, for replication and for the bus, and a replica takes over."""
STORIES = [name for name in cluster_names() if not name.endswith("-control")]


def test_a_replica_takes_over(docker_lab: Lab) -> None:
    run = docker_lab("run", ALWAYS, "--on", "docker")
    assert run.code == 0, run.out + run.err
    (cut,) = (e for e in run.events if e["process"] == "nemesis" and (e["f"], e["type"]) == ("cut", "ok"))
    (receipt,) = cut["receipt"].values()
    assert {way: seen["probe_through_link"] for way, seen in receipt["ways"].items()} == {
        "D→A": "no answer in 50 ms",
        "A→D": "no answer in 50 ms",
    }
    assert len(receipt["link"]) == 8, "two streams of four proxies"


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_a_story_and_its_control(docker_lab: Lab, name: str) -> None:
    for run in side_by_side(docker_lab, [name, f"{name}-control"]):
        assert run.code == 0, run.out + run.err
