"""Fences from many nodes: the ones that go backwards, and the ones that do not unless a node forgets."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import combinations
from typing import NamedTuple

import pytest

from lab.locks.base import Lease, NotAcquired, Surroundings
from lab.locks.counter import CountingRedlock, counter_key
from lab.locks.fenced import FencedRedlock
from lab.locks.redlock import Redlock, RedlockOptions, Vote
from tests.local.conftest import RealNode

MS = 1_000_000
S = 1_000_000_000
PATIENT = RedlockOptions(node_timeout_ns=2 * S, retry_count=1)
STUBBORN = RedlockOptions(
    node_timeout_ns=30 * MS, retry_count=10, retry_delay_ns=4 * MS, retry_jitter_ns=4 * MS
)


class Grant(NamedTuple):
    """One grant: when it was asked for, when it was there, and its fence."""

    called_ns: int
    granted_ns: int
    fence: int


def lock(
    kind: type[Redlock], nodes: list[RealNode], options: RedlockOptions = PATIENT, seed: int = 0
) -> Redlock:
    return kind([node.address for node in nodes], options, Surroundings(random=random.Random(seed)))


def fence_of(lease: Lease) -> int:
    assert lease.fence is not None
    return lease.fence


async def counters(nodes: list[RealNode]) -> list[int]:
    return [int(await node.get(counter_key("k")) or 0) for node in nodes]


async def until_all_hold(nodes: list[RealNode]) -> None:
    while None in [await node.get("k") for node in nodes]:
        await asyncio.sleep(0.001)


async def forget_the_lock(nodes: list[RealNode]) -> None:
    """As if every lease had expired."""
    await until_all_hold(nodes)
    for node in nodes:
        await node.control.call("DEL", "k")


async def grant_until(client: Redlock, grants: list[Grant], wanted: int, release: bool) -> None:
    """Take the lock again and again, until there are enough grants."""
    while len(grants) < wanted:
        called_ns = time.monotonic_ns()
        try:
            lease = await client.acquire("k", 5 * S)
        except NotAcquired:
            continue
        grants.append(Grant(called_ns, time.monotonic_ns(), fence_of(lease)))
        if release:
            await client.release_report(lease)


def assert_ordered(grants: list[Grant]) -> None:
    """No two grants have one fence, and of two that were ordered in real time the later has the larger."""
    assert len({grant.fence for grant in grants}) == len(grants)
    for g, h in combinations(grants, 2):
        if g.granted_ns < h.called_ns:
            assert g.fence < h.fence, (g, h)
        if h.granted_ns < g.called_ns:
            assert h.fence < g.fence, (g, h)


class InStep(FencedRedlock):
    """Writes its first number back only when another client is about to do the same."""

    together: asyncio.Barrier | None = None
    rounds = 0

    async def _write_back(self, key: str, fence: int) -> tuple[dict[str, Vote], list[int]]:
        self.rounds += 1
        if self.rounds == 1 and self.together is not None:
            await self.together.wait()
        return await super()._write_back(key, fence)


@pytest.mark.parametrize("kind", [CountingRedlock, InStep])
async def test_without_faults_fences_grow(kind: type[Redlock], nodes: list[RealNode]) -> None:
    client = lock(kind, nodes)
    fences = []
    for _ in range(5):
        lease = await client.acquire("k", 60 * S)
        fences.append(fence_of(lease))
        assert (await client.extend(lease, 60 * S)).fence == lease.fence
        await forget_the_lock(nodes)
    assert fences == [1, 2, 3, 4, 5]
    if isinstance(client, InStep):
        assert client.rounds == 5, "who reads first need not try twice"
    await client.close()


@pytest.mark.parametrize(("kind", "grows"), [(CountingRedlock, False), (FencedRedlock, True)])
async def test_a_minority_that_counted_more(kind: type[Redlock], nodes: list[RealNode], grows: bool) -> None:
    """A and B counted attempts that the others never saw; the next majority is made without them."""
    for node in nodes[:2]:
        await node.control.call("SET", counter_key("k"), 100)
    client = lock(kind, nodes, PATIENT)
    await client.open()
    for node in nodes[3:]:
        node.stop()
    first = await client.acquire("k", 60 * S)
    assert first.fence == 101
    await client.release_report(first)
    for node in nodes[3:]:
        node.go_on()
    for node in nodes[:2]:
        node.kill()
    await client.release_report(first)
    second = await client.acquire("k", 60 * S)
    assert (fence_of(second) > 101) is grows, second.fence
    await client.close()


async def test_counters_can_give_one_number_twice(nodes: list[RealNode]) -> None:
    await nodes[0].control.call("SET", counter_key("k"), 1)
    client = lock(CountingRedlock, nodes[:3], PATIENT)
    await client.open()
    nodes[2].stop()
    first = await client.acquire("k", 60 * S)
    await client.release_report(first)
    nodes[2].go_on()
    nodes[0].kill()
    await client.release_report(first)
    second = await client.acquire("k", 60 * S)
    assert first.fence == second.fence == 2
    await client.close()


@pytest.mark.parametrize("seed", [1])
async def test_contended_grants_under_random_minorities(nodes: list[RealNode], seed: int) -> None:
    """Three clients, two hundred grants, and again and again another minority stands still."""
    chance = random.Random(seed)
    clients = [lock(FencedRedlock, nodes, STUBBORN, seed) for seed in range(3)]
    for client in clients:
        await client.open()
    grants: list[Grant] = []
    everybody = [asyncio.create_task(grant_until(client, grants, 200, True)) for client in clients]
    stopped: list[RealNode] = []
    minorities = set()
    seen = 0
    while not all(task.done() for task in everybody):
        await asyncio.wait(everybody, timeout=0.005)
        if len(grants) >= seen + 5:
            seen = len(grants)
            for node in stopped:
                node.go_on()
            stopped = chance.sample(nodes, chance.randint(0, 2))
            minorities.add(frozenset(node.address.name for node in stopped))
            for node in stopped:
                node.stop()
    for node in stopped:
        node.go_on()
    await asyncio.gather(*everybody)
    assert len(minorities) > 5
    assert_ordered(grants)
    for client in clients:
        await client.close()


async def test_fences_do_not_need_the_exclusion(nodes: list[RealNode]) -> None:
    """Somebody deletes the keys all the time, so that the clients hold the lock together."""
    clients = [lock(FencedRedlock, nodes, STUBBORN, seed) for seed in range(3)]
    grants: list[Grant] = []
    everybody = [asyncio.create_task(grant_until(client, grants, 150, False)) for client in clients]
    while not all(task.done() for task in everybody):
        for node in nodes:
            await node.control.call("DEL", "k")
        await asyncio.sleep(0)
    await asyncio.gather(*everybody)
    assert any(g.called_ns < h.granted_ns and h.called_ns < g.granted_ns for g, h in combinations(grants, 2))
    assert_ordered(grants)
    for client in clients:
        await client.close()


async def test_a_tie_is_broken_by_the_nodes(nodes: list[RealNode]) -> None:
    """Both were granted the lock by all nodes and read the same counters."""
    together = asyncio.Barrier(2)
    clients = [
        InStep([node.address for node in nodes], RedlockOptions(node_timeout_ns=10 * S)) for _ in range(2)
    ]
    attempts = []
    for client in clients:
        client.together = together
        attempts.append(asyncio.create_task(client.acquire("k", 60 * S)))
        await forget_the_lock(nodes)
    fences = [fence_of(await attempt) for attempt in attempts]
    assert len(set(fences)) == 2
    assert sum(client.rounds for client in clients) > 2
    for client in clients:
        await client.close()


class Disturbed(FencedRedlock):
    """Something happens before or after its write-back."""

    nodes_to_kill: list[RealNode]
    leap_ns = 0

    async def _write_back(self, key: str, fence: int) -> tuple[dict[str, Vote], list[int]]:
        for node in self.nodes_to_kill:
            node.kill()
        answer = await super()._write_back(key, fence)
        self.leap_ns = 61 * S
        return answer


@pytest.mark.parametrize(
    ("killed", "leaps", "why"), [(3, False, "its fence was not accepted"), (0, True, "no time was left")]
)
async def test_no_grant_without_an_accepted_fence_in_time(
    nodes: list[RealNode], killed: int, leaps: bool, why: str
) -> None:
    def clock_ns() -> int:
        return time.monotonic_ns() + (client.leap_ns if leaps else 0)

    client = Disturbed([node.address for node in nodes], PATIENT, Surroundings(clock_ns=clock_ns))
    client.nodes_to_kill = nodes[:killed]
    with pytest.raises(NotAcquired, match=why):
        await client.acquire("k", 60 * S)
    while any([await node.get("k") for node in nodes[killed:]]):
        await asyncio.sleep(0.001)
    await client.close()


async def test_a_counter_never_falls(nodes: list[RealNode]) -> None:
    """A and B know of a larger number, but were not heard; the smaller one arrives there late."""
    for node in nodes[:2]:
        await node.control.call("SET", counter_key("k"), 100)
    client = lock(FencedRedlock, nodes)
    await client.open()
    for node in nodes[:2]:
        node.stop()
    lease = await client.acquire("k", 60 * S)
    assert lease.fence == 1
    for node in nodes[:2]:
        node.go_on()
    await client.release_report(lease)  # answered by all: what was on its way to A and B has arrived
    assert (await counters(nodes))[:2] == [100, 100]
    await client.close()


async def test_nodes_that_forget_break_it_visibly(nodes: list[RealNode]) -> None:
    client = lock(FencedRedlock, nodes)
    first = await client.acquire("k", 60 * S)
    await until_all_hold(nodes)
    while await counters(nodes) != [1] * 5:
        await asyncio.sleep(0.001)
    for node in nodes:
        await node.control.call("FLUSHALL")
    assert fence_of(await client.acquire("k", 60 * S)) <= fence_of(first)
    await client.close()
