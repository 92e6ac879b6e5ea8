"""The lock that is modelled on redlock-hyperf, against real nodes: what its source says that it does."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from lab.drivers.place import place_on
from lab.locks import lock_class
from lab.locks.base import Indeterminate, LeaseLost, Lock, NotAcquired, OptionError, Options, Surroundings
from lab.locks.hyperf import HyperfRedlock
from lab.run.lock_properties import properties_of
from tests.local.conftest import RealNode

MS = 1_000_000
S = 1_000_000_000
ONE_TRY: Options = {"node_timeout": "2s", "retry_count": 1}


@asynccontextmanager
async def lock_on(nodes: list[RealNode], options: Options = ONE_TRY, **more: object) -> AsyncIterator[Lock]:
    surroundings = Surroundings(**more)  # type: ignore[arg-type]
    lock = lock_class("redlock-hyperf").build([n.address for n in nodes], options, surroundings, "tester")
    await lock.open()
    yield lock
    await lock.close()


async def values(nodes: list[RealNode]) -> list[str | None]:
    return [await node.get("k") for node in nodes]


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (6, 4)])
async def test_as_many_yes_votes_as_half_the_nodes_and_one_unrounded(
    nodes: list[RealNode], count: int, needed: int
) -> None:
    """Two nodes for one, if there are not that many: what counts is how many have to agree."""
    some = [nodes[at % len(nodes)] for at in range(count)]
    quorum = HyperfRedlock([node.address for node in some]).quorum
    assert next(yes for yes in range(count + 1) if yes >= quorum) == needed


@pytest.mark.parametrize("taken", [0, 1, 2])
async def test_four_of_five_are_enough_and_three_are_not(nodes: list[RealNode], taken: int) -> None:
    for node in nodes[:taken]:
        await node.control.call("SET", "k", "another's")
    async with lock_on(nodes) as lock:
        if taken < 2:
            lease = await lock.acquire("k", 60 * S)
            assert (await values(nodes)).count(lease.token) == 5 - taken
            await lock.release(lease)
        else:
            with pytest.raises(NotAcquired, match=r"3 of 5 nodes granted it, 3\.5 are needed") as refusal:
                await lock.acquire("k", 60 * S)
            assert refusal.value.refused_by > 0
        assert await values(nodes) == ["another's"] * taken + [None] * (5 - taken)


async def test_all_tries_share_one_token(nodes: list[RealNode]) -> None:
    drawn = iter(["first", "second"])
    for node in nodes[:2]:
        await node.control.call("SET", "k", "another's")
    more: Options = {"node_timeout": "2s", "retry_count": 3, "retry_delay": "10ms"}
    async with lock_on(nodes, more, new_token=lambda: next(drawn)) as lock:
        with pytest.raises(NotAcquired) as refusal:
            await lock.acquire("k", 60 * S)
    assert refusal.value.tokens == ("first",)
    assert next(drawn) == "second"


async def test_an_exception_leaves_the_keys_of_the_nodes_before_it(nodes: list[RealNode]) -> None:
    async with lock_on(nodes) as lock:
        nodes[3].kill()
        with pytest.raises(Indeterminate, match="an exception"):
            await lock.acquire("k", 60 * S)
    held = [await node.get("k") for at, node in enumerate(nodes) if at != 3]
    assert None not in held[:3]
    assert len(set(held[:3])) == 1
    assert held[3] is None, "the node behind it was not asked"


async def test_a_release_that_is_interrupted_leaves_the_keys_behind_it(nodes: list[RealNode]) -> None:
    async with lock_on(nodes) as lock:
        lease = await lock.acquire("k", 60 * S)
        nodes[1].kill()
        with pytest.raises(Indeterminate):
            await lock.release(lease)
    assert [await nodes[at].get("k") for at in (0, 2, 3, 4)] == [None, lease.token, lease.token, lease.token]


async def test_a_release_does_not_look_at_what_nodes_answer(nodes: list[RealNode]) -> None:
    async with lock_on(nodes) as lock:
        lease = await lock.acquire("k", 60 * S)
        for node in nodes:
            await node.control.call("SET", "k", "another's")
        await lock.release(lease)
    assert await values(nodes) == ["another's"] * 5


@pytest.mark.parametrize(("step_s", "seconds"), [(-3600, 3659), (0, 59)])
async def test_the_validity_is_measured_by_the_wall_clock(
    nodes: list[RealNode], monkeypatch: pytest.MonkeyPatch, step_s: int, seconds: int
) -> None:
    shown = iter([0, step_s * S])
    monkeypatch.setattr(time, "time_ns", lambda: next(shown, step_s * S))
    async with lock_on(nodes, clock_ns=lambda: 0) as lock:
        lease = await lock.acquire("k", 60 * S)
    assert lease.deadline_ns // S == seconds
    assert lease.attempt_ns == 0


async def test_no_time_left_is_a_refusal_that_undoes_everything(
    nodes: list[RealNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = iter([0, 61 * S])
    monkeypatch.setattr(time, "time_ns", lambda: next(shown, 61 * S))
    async with lock_on(nodes) as lock:
        with pytest.raises(NotAcquired, match="no time was left") as refusal:
            await lock.acquire("k", 60 * S)
    assert refusal.value.refused_by == 0, "nobody else had it"
    assert await values(nodes) == [None] * 5


async def test_a_command_is_sent_once_more_on_a_new_connection(nodes: list[RealNode]) -> None:
    async with lock_on(nodes) as lock:
        await nodes[2].control.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        lease = await lock.acquire("k", 60 * S)
        assert await values(nodes) == [lease.token] * 5
        with pytest.raises(LeaseLost, match="no extension"):
            await lock.extend(lease, 60 * S)


def test_what_a_run_knows_of_it() -> None:
    traits = properties_of("redlock-hyperf", 10 * S, {}, place_on("local"))
    assert (traits.extends, traits.hands_out_fences, traits.margin_ns) == (False, False, 102 * MS)
    assert properties_of("redlock", 10 * S, {}, place_on("local")).extends
    with pytest.raises(OptionError, match="at least 1"):
        lock_class("redlock-hyperf").margin_ns(S, {"retry_count": 0})
