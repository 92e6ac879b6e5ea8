"""Redis Sentinels in containers: each link is cut alone, and Sentinels keep their files."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.scenario.files import sentinel_names
from lab.substrates.base import Role
from lab.substrates.docker.sentinels import DockerSentinel, SentinelCluster
from lab.substrates.plan import ClusterPlan, SentinelPlan
from tests.docker.test_cluster import AHEAD_NS, is_ahead
from tests.docker.test_scenarios_in_containers import side_by_side
from tests.lab_process import Lab
from tests.sentinels import FORCED, HEAD, WAITS_FOR_REPLICAS, assert_forced

WATCHED = ClusterPlan(
    ("A", "B"),
    ("alice",),
    "none",
    replicas={"B": "A"},
    sentinels=SentinelPlan(("S1", "S2", "S3"), 2, 1000, 4000),
)


@asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[SentinelCluster]:
    """A master, its replica, three Sentinels and a client."""
    made = SentinelCluster(WATCHED, secrets.token_hex(8), directory)
    try:
        await made.up()
        yield made
        assert not made.failed.done(), made.failed.result()
    finally:
        await asyncio.shield(made.down())


async def until(is_so: Callable[[], Awaitable[object]]) -> None:
    while not await is_so():
        await asyncio.sleep(0.05)


async def held_down(made: SentinelCluster) -> list[set[str]]:
    return [set((await sentinel.view()).down) for sentinel in made.sentinels.values()]


async def test_each_link_is_cut_alone_and_a_sentinel_keeps_its_file(engine: Any, tmp_path: Path) -> None:
    async with watched(tmp_path) as made:
        a, b = made.nodes.values()
        parted = [made.link(*pair) for pair in (("S1", "A"), ("S2", "S3"), ("B", "A"), ("alice", "S1"))]
        await asyncio.gather(*(link.cut("both", refused=False) for link in parted))
        assert not any([(await link.probe(0.2)).reached for link in parted])
        whole = [made.link(*pair) for pair in (("S2", "A"), ("S1", "S2"), ("alice", "A"), ("alice", "S2"))]
        assert all([(await link.probe(5.0)).reached for link in whole])
        await a.touch()

        async def seen() -> bool:
            return await held_down(made) == [{"A"}, {"S3"}, {"S2"}]

        await until(seen)
        behind: list[Role] = [await b.role(), await a.role()]
        assert behind[0].offset < behind[1].offset, "the replica hears its master over their link alone"
        await asyncio.gather(*(link.heal() for link in parted))

        async def agreed() -> bool:
            return await held_down(made) == [set(), set(), set()] and (await b.role()).linked

        await until(agreed)
        third = made.sentinels["S3"]
        assert isinstance(third, DockerSentinel)
        before = await third.life(), await third.view()
        await third.jump_clock(AHEAD_NS)
        assert await is_ahead(third)
        assert not await is_ahead(made.sentinels["S2"])
        await third.pause()
        assert not (await third.probe(0.2)).reached
        await third.resume()
        await third.kill()
        await third.start()
        await third.correct_clock()
        await until(agreed)
        after = await third.life(), await third.view()
        assert after[0].run_id != before[0].run_id
        assert (after[1].master, after[1].epoch) == (before[1].master, before[1].epoch) == ("A", 0)


ALWAYS = "sentinel-failover"
STORIES = [name for name in sentinel_names() if not name.endswith("-control")]


@pytest.mark.parametrize(
    "name", [ALWAYS, *(pytest.param(name, marks=pytest.mark.slow) for name in STORIES if name != ALWAYS)]
)
def test_a_story_and_its_control(docker_lab: Lab, name: str) -> None:
    for run in side_by_side(docker_lab, [name, f"{name}-control"]):
        assert run.code == 0, run.out + run.err
        assert run.verdict["environment"]["substrate"] == "docker"


@pytest.mark.slow
def test_faults_on_sentinels_have_receipts_and_a_forced_failover_is_one(docker_lab: Lab) -> None:
    (docker_lab.directory / "forced.yaml").write_text(HEAD + FORCED)
    run = docker_lab("run", "forced.yaml", "--on", "docker")
    assert run.code == 0, run.out + run.err
    assert_forced(run.events)


@pytest.mark.slow
def test_the_lock_asks_the_sentinels_that_it_can_reach(docker_lab: Lab) -> None:
    (docker_lab.directory / "waits.yaml").write_text(WAITS_FOR_REPLICAS)
    run = docker_lab("run", "waits.yaml", "--on", "docker")
    assert run.code == 0, run.out + run.err
    assert "no Sentinel that can be reached names a master" in run.out + run.err
