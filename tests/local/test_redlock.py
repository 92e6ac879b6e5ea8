"""Redlock against real nodes, both ways of asking them: what it promises, and what it leaves behind."""

from __future__ import annotations

import asyncio
import time

import pytest

from lab.locks.base import Indeterminate, LeaseLost, NotAcquired, Surroundings
from lab.locks.redlock import Redlock, RedlockOptions, SequentialRedlock
from tests.local.conftest import RealNode

MS = 1_000_000
S = 1_000_000_000
PATIENT = RedlockOptions(node_timeout_ns=2 * S, retry_count=1)
HASTY = RedlockOptions(node_timeout_ns=500 * MS, retry_count=1)

both_ways = pytest.mark.parametrize("kind", [Redlock, SequentialRedlock])


def lock(
    kind: type[Redlock], nodes: list[RealNode], options: RedlockOptions = PATIENT, **more: object
) -> Redlock:
    return kind([node.address for node in nodes], options, **more)  # type: ignore[arg-type]


async def values(nodes: list[RealNode], key: str = "k") -> list[str | None]:
    return [await node.get(key) for node in nodes]


async def until_everywhere(nodes: list[RealNode], token: str) -> None:
    """A grant counts from the third yes; wait until the last node has said it too."""
    while await values(nodes) != [token] * len(nodes):
        await asyncio.sleep(0.005)


async def until_gone(nodes: list[RealNode]) -> None:
    while any(await values(nodes)):
        await asyncio.sleep(0.005)


@both_ways
async def test_a_grant_stands_on_a_majority_and_release_removes_it_everywhere(
    kind: type[Redlock], nodes: list[RealNode]
) -> None:
    redlock = lock(kind, nodes)
    await redlock.open()
    before_ns = time.monotonic_ns()
    lease = await redlock.acquire("k", 10 * S)
    assert (await values(nodes)).count(lease.token) >= 3
    drift_ns = 100 * MS + 2 * MS
    assert before_ns + 10 * S - drift_ns <= lease.deadline_ns <= time.monotonic_ns() + 10 * S - drift_ns
    assert redlock.believes(lease)
    await redlock.release(lease)
    await until_gone(nodes)
    await redlock.close()


async def test_asking_one_after_the_other_asks_all_of_them(nodes: list[RealNode]) -> None:
    """Step 2 of the text names all N instances: the grant stands on five nodes, and so does an extension."""
    redlock = lock(SequentialRedlock, nodes)
    lease = await redlock.acquire("k", 60 * S)
    assert await values(nodes) == [lease.token] * 5
    await redlock.extend(lease, 3600 * S)
    left_ms = [await node.control.call("PTTL", "k") for node in nodes]
    assert all(int(left) > 60_000 for left in left_ms), left_ms
    await redlock.close()


@both_ways
async def test_the_second_client_is_refused_and_leaves_nothing(
    kind: type[Redlock], nodes: list[RealNode]
) -> None:
    alice, bob = lock(kind, nodes), lock(kind, nodes)
    lease = await alice.acquire("k", 10 * S)
    with pytest.raises(NotAcquired) as refusal:
        await bob.acquire("k", 10 * S)
    assert len(refusal.value.tokens) == 1
    assert refusal.value.refused_by
    # a node that bob reached first learns a moment later that he gave up
    while not set(await values(nodes)) <= {lease.token, None}:
        await asyncio.sleep(0.005)
    await alice.close()
    await bob.close()


@both_ways
async def test_a_minority_down_is_survived_a_majority_down_is_not(
    kind: type[Redlock], nodes: list[RealNode]
) -> None:
    redlock = lock(kind, nodes)
    nodes[0].kill()
    nodes[1].kill()
    lease = await redlock.acquire("k", 10 * S)
    await redlock.release(lease)
    await until_gone(nodes[2:])
    nodes[2].kill()
    with pytest.raises(NotAcquired, match="3 are needed") as silence:
        await redlock.acquire("k", 10 * S)
    assert not silence.value.refused_by
    await until_gone(nodes[3:])
    await redlock.close()


@both_ways
async def test_the_clock_is_looked_at_after_the_replies(kind: type[Redlock], nodes: list[RealNode]) -> None:
    """The clock leaps past the TTL once a SET is executed: the majority's yes is worth nothing."""
    leap_ns = 0

    def clock_ns() -> int:
        return time.monotonic_ns() + leap_ns

    redlock = lock(kind, nodes, surroundings=Surroundings(clock_ns=clock_ns))
    await redlock.open()
    for node in nodes:
        node.stop()
    attempt = asyncio.create_task(redlock.acquire("k", 10 * S))
    await asyncio.sleep(0)
    leap_ns = 11 * S if kind is Redlock else 0
    if kind is SequentialRedlock:
        nodes[0].go_on()
        while await nodes[0].get("k") is None:
            await asyncio.sleep(0.001)
        leap_ns = 11 * S
    for node in nodes:
        node.go_on()
    with pytest.raises(NotAcquired):
        await attempt
    await until_gone(nodes)
    await redlock.close()


async def test_what_a_late_node_sets_is_deleted_again(nodes: list[RealNode]) -> None:
    """Three nodes stand still: the attempt is given up, and their late SETs do not outlive it."""
    redlock = lock(Redlock, nodes, HASTY)
    await redlock.open()
    for node in nodes[:3]:
        node.stop()
    with pytest.raises(NotAcquired, match=r"[0-2] of 5"):  # on a busy machine two are late as well
        await redlock.acquire("k", 60 * S)
    for node in nodes[:3]:
        node.go_on()
    await until_gone(nodes)
    await redlock.close()


async def test_a_minority_that_stands_still_costs_no_time(nodes: list[RealNode]) -> None:
    """The outcome is certain at the third yes: with a time-out of a minute this would never end otherwise."""
    redlock = lock(Redlock, nodes, RedlockOptions(node_timeout_ns=60 * S))
    await redlock.open()
    nodes[3].stop()
    nodes[4].stop()
    async with asyncio.timeout(20):
        lease = await redlock.acquire("k", 10 * S)
    assert (await values(nodes[:3])) == [lease.token] * 3
    nodes[3].go_on()
    nodes[4].go_on()
    await redlock.release(lease)
    await until_gone(nodes)
    await redlock.close()


async def test_cancelling_an_attempt_leaves_nothing(nodes: list[RealNode]) -> None:
    redlock = lock(Redlock, nodes, PATIENT)
    await redlock.open()
    for node in nodes[:3]:
        node.stop()
    attempt = asyncio.create_task(redlock.acquire("k", 60 * S))
    while await nodes[4].get("k") is None:
        await asyncio.sleep(0.001)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    for node in nodes[:3]:
        node.go_on()
    await until_gone(nodes)
    await redlock.close()


@both_ways
async def test_extension_moves_the_deadline_and_has_a_limit(
    kind: type[Redlock], nodes: list[RealNode]
) -> None:
    redlock = lock(kind, nodes, RedlockOptions(node_timeout_ns=2 * S, max_extensions=2))
    lease = await redlock.acquire("k", 20 * S)
    once = await redlock.extend(lease, 60 * S)
    assert once.deadline_ns > lease.deadline_ns + 30 * S
    twice = await redlock.extend(once, 60 * S)
    with pytest.raises(LeaseLost, match="2 times"):
        await redlock.extend(twice, 60 * S)
    await redlock.close()


async def test_extension_is_refused_once_the_time_is_over_or_the_majority_is_lost(
    nodes: list[RealNode],
) -> None:
    leap_ns = 0
    redlock = lock(Redlock, nodes, surroundings=Surroundings(clock_ns=lambda: time.monotonic_ns() + leap_ns))
    lease = await redlock.acquire("k", 20 * S)
    await until_everywhere(nodes, lease.token)
    for node in nodes[:3]:
        await node.control.call("DEL", "k")
    # It stops listening when the majority is out of reach, so how many had said yes by then is chance.
    with pytest.raises(LeaseLost, match=r"[0-2] of 5 nodes extended it"):
        await redlock.extend(lease, 20 * S)
    assert await nodes[0].get("k") is None, "an extension must never take the lock again"
    leap_ns = 21 * S
    with pytest.raises(LeaseLost, match="already over"):
        await redlock.extend(lease, 20 * S)
    await redlock.close()


async def test_release_tells_what_every_node_said(nodes: list[RealNode]) -> None:
    redlock = lock(Redlock, nodes)
    lease = await redlock.acquire("k", 20 * S)
    await until_everywhere(nodes, lease.token)
    nodes[1].kill()
    await nodes[0].control.call("SET", "k", "somebody else")
    report = await redlock.release_report(lease)
    assert report.votes == {"A": "no", "B": "silent", "C": "yes", "D": "yes", "E": "yes"}
    assert await nodes[0].get("k") == "somebody else"
    with pytest.raises(LeaseLost):
        await redlock.release(lease)
    for node in nodes[2:4]:
        node.kill()
    with pytest.raises(Indeterminate):
        await redlock.release(lease)
    await redlock.close()


async def test_retry_waits_and_uses_a_new_token_each_time(nodes: list[RealNode]) -> None:
    options = RedlockOptions(
        node_timeout_ns=2 * S, retry_count=3, retry_delay_ns=20 * MS, retry_jitter_ns=10 * MS
    )
    alice, bob = lock(Redlock, nodes), lock(Redlock, nodes, options)
    await alice.acquire("k", 20 * S)
    with pytest.raises(NotAcquired) as refusal:
        await bob.acquire("k", 20 * S)
    assert len(set(refusal.value.tokens)) == 3
    assert all(len(bytes.fromhex(token)) >= 20 for token in refusal.value.tokens)
    await alice.close()
    await bob.close()


async def test_as_a_library_with_a_watchdog(nodes: list[RealNode]) -> None:
    addresses = [f"127.0.0.1:{node.address.port}" for node in nodes]
    async with Redlock(addresses, PATIENT).lock("k", ttl=60) as held:
        assert held.valid
        assert 40 < held.remaining_s < 60
        with pytest.raises(NotAcquired):
            async with Redlock(addresses, PATIENT).lock("k", ttl=10):
                pass
    await until_gone(nodes)
    async with Redlock(addresses, PATIENT).lock("k", ttl=2, watchdog=True) as held:
        first = held.lease
        while held.lease.extensions < 2:
            await asyncio.sleep(0.01)
        assert held.lease.deadline_ns > first.deadline_ns
        await until_everywhere(nodes, first.token)
        for node in nodes:
            await node.control.call("DEL", "k")
        await held.lost.wait()
        assert not held.valid


async def test_two_locks_of_one_redlock_do_not_close_each_other(nodes: list[RealNode]) -> None:
    redlock = lock(Redlock, nodes)
    async with redlock.lock("one"):
        async with redlock.lock("two"):
            pass
        report = await redlock.release_report(await redlock.acquire("three", 10 * S))
        assert report.count("yes") >= 3
