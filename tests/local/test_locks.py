"""Every built-in lock on Redis against real nodes: what all of them promise, and each one's own weakness."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from lab import locks
from lab.errors import LabError
from lab.locks.base import Indeterminate, LeaseLost, Lock, NotAcquired, OptionError, Options, Surroundings
from tests.local.conftest import RealNode

MS = 1_000_000
S = 1_000_000_000
PATIENT: Options = {"node_timeout": "2s", "retry_count": 1}
HASTY: Options = {"node_timeout": "300ms", "retry_count": 1}
ON_ONE_NODE = ("single", "setnx-expire", "fixed-value", "plain-del", "failover")
FENCED = {"redlock-counter", "redlock-fenced"}

ON_REDIS = [
    name
    for name in locks.BUILT_IN
    # What a library promises less is tested in test_hyperf.py, and a record that never expires below.
    # What asks Sentinels or a Redis Cluster is tested where there is one.
    if locks.service_of(name) == "redis"
    and name not in ("redlock-hyperf", "observed-lease")
    and locks.lacks_around(name) is None
]

every_lock = pytest.mark.parametrize("name", ON_REDIS)


class World:
    """The nodes, the test's clock, and everybody's locks on them."""

    def __init__(self, nodes: list[RealNode]) -> None:
        self.nodes = nodes
        self.leap_ns = 0
        self._opened: list[Lock] = []

    def clock_ns(self) -> int:
        return time.monotonic_ns() + self.leap_ns

    def lock(
        self, name: str, options: Options = PATIENT, at: Callable[[str], Awaitable[None]] | None = None
    ) -> Lock:
        surroundings = Surroundings(clock_ns=self.clock_ns)
        if at is not None:
            surroundings = replace(surroundings, at=at)
        addresses = [node.address for node in self.nodes]
        lock = locks.lock_class(name).build(addresses, options, surroundings, "tester")
        self._opened.append(lock)
        return lock

    def used(self, name: str) -> list[RealNode]:
        """The nodes that a grant of this lock must stand on."""
        return self.nodes[:1] if name in ON_ONE_NODE else self.nodes

    async def values(self, key: str = "k") -> list[str | None]:
        return [await node.get(key) for node in self.nodes]

    async def until_held(self, name: str) -> None:
        """Until what is still on its way to a slower node has arrived."""
        while None in [await node.get("k") for node in self.used(name)]:
            await asyncio.sleep(0.001)

    async def until_gone(self) -> None:
        while any(await self.values()):
            await asyncio.sleep(0.001)

    async def expire(self, name: str) -> None:
        """Take the key away from under its owner, as an expiry would."""
        await self.until_held(name)
        for node in self.nodes:
            await node.control.call("DEL", "k")

    async def close(self) -> None:
        for lock in self._opened:
            await lock.close()


@pytest.fixture
async def world(nodes: list[RealNode]) -> AsyncIterator[World]:
    world = World(nodes)
    yield world
    await world.close()


# What all of them promise.


@every_lock
async def test_one_holds_it_at_a_time_and_release_leaves_nothing(name: str, world: World) -> None:
    alice, bob = world.lock(name), world.lock(name)
    await alice.open()
    first = await alice.acquire("k", 60 * S)
    await world.until_held(name)
    assert set(await world.values()) <= {first.token, None}
    assert (first.fence is not None) == locks.lock_class(name).hands_out_fences == (name in FENCED)
    with pytest.raises(NotAcquired) as refusal:
        await bob.acquire("k", 60 * S)
    assert len(refusal.value.tokens) == 1
    assert refusal.value.refused_by
    assert set(await world.values()) <= {first.token, None}
    await alice.release(first)
    await world.until_gone()
    second = await bob.acquire("k", 60 * S)
    assert (second.token != first.token) == (name != "fixed-value")
    await world.until_held(name)
    for node in world.used(name):
        assert 0 < await node.control.call("PTTL", "k") <= 60_000
    await bob.release(second)
    await world.until_gone()


@every_lock
async def test_belief_ends_with_the_deadline(name: str, world: World) -> None:
    lock = world.lock(name)
    called_ns = world.clock_ns()
    lease = await lock.acquire("k", 60 * S)
    margin_ns = locks.margin_ns(name, 60 * S, PATIENT)
    assert margin_ns == 602 * MS
    assert called_ns <= lease.deadline_ns - 60 * S + margin_ns <= world.clock_ns()
    assert lock.believes(lease)
    world.leap_ns = 50 * S
    assert lock.believes(lease)
    world.leap_ns = 60 * S - margin_ns
    assert not lock.believes(lease)


@every_lock
async def test_extension_moves_the_deadline_in_time_and_only_so_often(name: str, world: World) -> None:
    lock = world.lock(name, {**PATIENT, "max_extensions": 1})
    lease = await lock.acquire("k", 10 * S)
    await world.until_held(name)
    longer = await lock.extend(lease, 60 * S)
    assert longer.deadline_ns > lease.deadline_ns + 45 * S
    assert (longer.token, longer.fence) == (lease.token, lease.fence)
    left_ms = [await node.control.call("PTTL", "k") for node in world.used(name)]
    assert sum(left > 10_000 for left in left_ms) > len(left_ms) // 2
    with pytest.raises(LeaseLost, match="1 times"):
        await lock.extend(longer, 60 * S)
    world.leap_ns = 11 * S
    with pytest.raises(LeaseLost, match="already over"):
        await lock.extend(lease, 60 * S)


@every_lock
async def test_what_is_lost_is_neither_released_nor_extended(name: str, world: World) -> None:
    lock = world.lock(name)
    lease = await lock.acquire("k", 60 * S)
    await world.expire(name)
    with pytest.raises(LeaseLost):
        await lock.extend(lease, 60 * S)
    assert not any(await world.values()), "an extension must never take the lock again"
    with pytest.raises(LeaseLost, match="not-held"):
        await lock.release(lease)


@every_lock
async def test_a_grant_that_comes_too_late_is_none(name: str, world: World) -> None:
    """The clock leaps past the TTL while the nodes stand still."""
    lock = world.lock(name)
    await lock.open()
    for node in world.nodes:
        node.stop()
    attempt = asyncio.create_task(lock.acquire("k", 500 * MS))
    await asyncio.sleep(0)  # it has looked at its clock
    world.leap_ns = 1 * S
    for node in world.nodes:
        node.go_on()
    with pytest.raises(NotAcquired) as late:
        await attempt
    assert not late.value.refused_by
    await world.until_gone()


@every_lock
async def test_nodes_that_are_down_refuse(name: str, world: World) -> None:
    alice, bob = world.lock(name), world.lock(name)
    lease = await alice.acquire("k", 60 * S)
    for node in world.nodes:
        node.kill()
    with pytest.raises(NotAcquired) as silence:
        await bob.acquire("k", 60 * S)
    assert not silence.value.refused_by
    with pytest.raises(Indeterminate):
        await alice.release(lease)
    assert alice.believes(lease)


@every_lock
def test_options_are_checked(name: str) -> None:
    kind = locks.lock_class(name)
    assert kind.name == name
    with pytest.raises(OptionError):
        kind.build([], {"retry_cuont": 3}, Surroundings(), "tester")
    with pytest.raises(LabError, match="retry_count"):
        locks.margin_ns(name, S, {"retry_cuont": 3})
    with pytest.raises(OptionError):
        kind.build([], {"node_timeout": 50}, Surroundings(), "tester")
    with pytest.raises(OptionError, match="at least 1"):
        kind.build([], {"retry_count": 0}, Surroundings(), "tester")
    with pytest.raises(ValueError, match="at least one node"):
        kind.build([], {}, Surroundings(), "tester")


def test_only_redlocks_have_a_quorum() -> None:
    for name in ON_REDIS:
        if name in ON_ONE_NODE:
            with pytest.raises(LabError, match="quorum"):
                locks.margin_ns(name, S, {"quorum": 3})
        else:
            locks.margin_ns(name, S, {"quorum": 3})


def test_only_the_cas_lock_announces() -> None:
    announcing = [
        name for name in locks.BUILT_IN if getattr(locks.lock_class(name), "announces_token", False)
    ]
    assert announcing == ["redlock-cas"]


# What each of them lacks.

CARELESS = ["setnx-expire", "fixed-value", "plain-del"]


@pytest.mark.parametrize("name", CARELESS)
async def test_a_careless_release_removes_somebody_elses_lock(name: str, world: World) -> None:
    alice, bob, carol = (world.lock(name) for _ in range(3))
    late = await alice.acquire("k", 60 * S)
    await world.expire(name)
    lease = await bob.acquire("k", 60 * S)
    await alice.release(late)
    assert await world.nodes[0].get("k") is None
    await carol.acquire("k", 60 * S)
    assert bob.believes(lease), "two of them believe now"


@pytest.mark.parametrize("name", sorted(set(ON_REDIS) - set(CARELESS)))
async def test_a_careful_release_removes_only_its_own(name: str, world: World) -> None:
    alice, bob = world.lock(name), world.lock(name)
    late = await alice.acquire("k", 60 * S)
    await world.expire(name)
    lease = await bob.acquire("k", 60 * S)
    with pytest.raises(LeaseLost, match="not-held"):
        await alice.release(late)
    await world.until_held(name)
    assert set(await world.values()) <= {lease.token, None}


@pytest.mark.parametrize("name", ["setnx-expire", "fixed-value", "plain-del", "single"])
async def test_who_extends_somebody_elses_lock(name: str, world: World) -> None:
    alice, bob = world.lock(name), world.lock(name)
    late = await alice.acquire("k", 60 * S)
    await world.expire(name)
    await bob.acquire("k", 10 * S)
    if name in ("setnx-expire", "fixed-value"):
        assert alice.believes(await alice.extend(late, 60 * S))
        assert await world.nodes[0].control.call("PTTL", "k") > 10_000
    else:
        with pytest.raises(LeaseLost):
            await alice.extend(late, 60 * S)


async def test_a_crash_between_setnx_and_expire_leaks_the_lock_for_ever(world: World) -> None:
    reached = asyncio.Event()

    async def stay(point: str) -> None:
        assert point == "between-setnx-and-expire"
        reached.set()
        await asyncio.Event().wait()

    crash = asyncio.create_task(world.lock("setnx-expire", at=stay).acquire("k", 100 * MS))
    await reached.wait()
    crash.cancel()
    with pytest.raises(asyncio.CancelledError):
        await crash
    assert await world.nodes[0].control.call("PTTL", "k") == -1
    with pytest.raises(NotAcquired):
        await world.lock("setnx-expire").acquire("k", 100 * MS)


@pytest.mark.parametrize("name", ["single", "setnx-expire"])
async def test_a_set_without_an_answer_is_in_doubt(name: str, world: World) -> None:
    """`single` sends a delete after it, which follows the late SET; `setnx-expire` has nothing to send."""
    lock = world.lock(name, HASTY)
    await lock.open()
    world.nodes[0].stop()
    with pytest.raises(Indeterminate, match="no answer"):
        await lock.acquire("k", 60 * S)
    world.nodes[0].go_on()
    if name == "single":
        await world.until_gone()
    else:
        await world.until_held(name)
        assert await world.nodes[0].control.call("PTTL", "k") == -1


async def test_cancelling_single_leaves_nothing(world: World) -> None:
    lock = world.lock("single", HASTY)
    await lock.open()
    world.nodes[0].stop()
    attempt = asyncio.create_task(lock.acquire("k", 60 * S))
    await asyncio.sleep(0.005)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    world.nodes[0].go_on()
    await world.until_gone()


async def replicate(world: World) -> None:
    """Make B a replica of A, and all others replicas as well, so that A alone is the master."""
    master = world.nodes[0].address
    for node in world.nodes[1:]:
        await node.control.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        await node.control.call("REPLICAOF", master.host, master.port)
    while await world.nodes[0].control.call("WAIT", 4, 100) < 4:
        await asyncio.sleep(0.01)


async def test_failover_uses_the_master_and_finds_the_next_one(world: World) -> None:
    await replicate(world)
    world.nodes = world.nodes[::-1]  # the master comes last in everybody's list
    *_, b, a = world.nodes
    alice, bob, carol = (world.lock("failover") for _ in range(3))
    lease = await alice.acquire("k", 60 * S)
    while await b.get("k") is None:  # WAIT would wait for writes of its own connection, which made none
        await asyncio.sleep(0.01)
    with pytest.raises(NotAcquired, match="another client"):
        await bob.acquire("k", 60 * S)
    a.kill()
    await b.control.call("REPLICAOF", "NO", "ONE")
    with pytest.raises(NotAcquired, match="another client"):
        await carol.acquire("k", 60 * S)
    while await b.get("k") is not None:
        with contextlib.suppress(Indeterminate):  # until alice has seen that her connection broke
            await alice.release(lease)
    await carol.acquire("k", 60 * S)
    await b.control.call("REPLICAOF", world.nodes[0].address.host, world.nodes[0].address.port)
    await world.nodes[0].control.call("REPLICAOF", "NO", "ONE")
    assert (await carol.acquire("other", 60 * S)).token == await world.nodes[0].get("other")


async def test_failover_loses_what_was_not_replicated(world: World) -> None:
    await replicate(world)
    a, b, *others = world.nodes
    for node in world.nodes[1:]:  # the replication link is cut: they look for a master that is not there
        await node.control.call("REPLICAOF", "127.0.0.1", 1)
    alice, bob = world.lock("failover"), world.lock("failover")
    lease = await alice.acquire("k", 60 * S)
    a.kill()
    with pytest.raises(NotAcquired, match="says that it is the master"):
        await bob.acquire("k", 60 * S)
    await b.control.call("REPLICAOF", "NO", "ONE")
    await bob.acquire("k", 60 * S)
    assert alice.believes(lease), "two of them believe now"
    assert [await node.get("k") for node in others] == [None] * 3


async def test_an_observed_lease_is_replaced_when_it_was_seen_unchanged_for_its_length(world: World) -> None:
    alice, bob = world.lock("observed-lease", HASTY), world.lock("observed-lease", HASTY)
    held = await alice.acquire("k", 60 * S)
    node = world.nodes[0].control
    assert await node.call("PTTL", "k") == -1
    for leap_s in (0, 50):  # he sees it; and a little later, once more
        world.leap_ns += leap_s * S
        with pytest.raises(NotAcquired):
            await bob.acquire("k", 60 * S)
    await alice.extend(held, 60 * S)
    for leap_s in (0, 50):
        world.leap_ns += leap_s * S
        with pytest.raises(NotAcquired):
            await bob.acquire("k", 60 * S)
    world.leap_ns += 12 * S
    lease = await bob.acquire("k", 60 * S)
    assert not alice.believes(held)
    assert bob.believes(lease)
    with pytest.raises(LeaseLost, match="not-held"):
        await alice.release(held)
    await bob.release(lease)
    assert await node.call("EXISTS", "k") == 0
