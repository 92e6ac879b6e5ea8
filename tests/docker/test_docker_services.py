"""Servers that are no Redis, in containers: their scenarios, and what becomes of one of them."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.run.steps import needed_of
from lab.scenario.files import consensus_names
from lab.scenario.load import load_scenario
from lab.substrates.base import Service
from lab.substrates.docker import SUBSTRATE, images
from lab.substrates.docker.cluster import DockerCluster
from lab.substrates.plan import ClusterPlan
from tests.lab_process import Lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # images of three services take minutes to build
ALWAYS = ["etcd-pause-fenced", "postgres-delayed-write-fenced", "zookeeper-pause-fenced-control"]


@pytest.fixture
def servers(engine: Any) -> None:
    """The images of all kinds."""
    if any(SUBSTRATE.lacks(service) for service in images.SERVICES):
        try:
            images.build(lambda line: None, consensus=True)
        except LabError as error:
            pytest.skip(f"the images could not be built: {error.seen}")


@pytest.mark.parametrize("name", ALWAYS)
def test_a_scenario(docker_lab: Lab, servers: None, name: str) -> None:
    run = docker_lab("run", name, "--on", "docker", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err
    service = name.partition("-")[0]
    assert run.verdict["environment"][service][0].isdigit(), "the version that ran"


@pytest.mark.parametrize("name", [name for name in consensus_names() if name not in ALWAYS])
def test_every_other_scenario(docker_lab: Lab, servers: None, name: str) -> None:
    lacking = needed_of(load_scenario(name).scenario) - SUBSTRATE.capabilities
    if lacking:
        pytest.skip(f"containers cannot do: {', '.join(sorted(lacking))}")
    run = docker_lab("run", name, "--on", "docker", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err


@pytest.mark.parametrize(("service", "nodes"), [("etcd", 3), ("zookeeper", 3), ("postgres", 1)])
async def test_a_server_through_its_lives(
    servers: None, tmp_path: Path, service: Service, nodes: int
) -> None:
    names = ("A", "B", "C")[:nodes]
    plan = ClusterPlan(names, ("alice",), "none", service=service, client_logs=tmp_path)
    made = DockerCluster(plan, secrets.token_hex(8), tmp_path)
    try:
        await made.up()
        first, *others = made.nodes.values()
        before = await first.life()
        await first.pause()
        assert set(first.states().values()) == {"T"}
        assert not (await first.probe(0.3)).reached
        await first.resume()
        await first.kill()
        assert not first.alive
        assert not (await made.link("alice", "A").probe(2.0)).reached
        for other in others:
            assert await eventually(other), "two of three go on"
        await first.start()
        assert (await first.life()).run_id != before.run_id
        assert await first.shut_down() == 0
        await first.start()
        assert (await made.link("alice", "A").probe(5.0)).reached
        assert not made.failed.done(), made.failed.result()
    finally:
        await asyncio.shield(made.down())


async def eventually(node: Any) -> bool:
    for _ in range(100):
        if (await node.probe(1.0)).reached:
            return True
        await asyncio.sleep(0.1)
    return False
