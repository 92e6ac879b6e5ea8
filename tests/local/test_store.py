"""The protected resource, and what clients that announce their tokens to it get."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lab.client.log import Recording
from lab.client.points import Points
from lab.client.worker import Worker
from lab.client_protocol import POINTS, Answer, Command, Outcome
from lab.locks import lock_class
from lab.locks.base import Options, Surroundings
from lab.store import ReadRejected, StoreClient, StoreError, WriteResult
from tests.local.conftest import RealNode

S = 1_000_000_000
PATIENT: Options = {"node_timeout": "2s", "retry_count": 1}


def store_of(
    node: RealNode, *, checks_fences: bool = False, fences_reads: bool = False, timeout_s: float = 10.0
) -> StoreClient:
    return StoreClient(
        node.address.host,
        node.address.port,
        checks_fences=checks_fences,
        fences_reads=fences_reads,
        timeout_s=timeout_s,
    )


async def write(
    store: StoreClient, value: str, fence: int | None = None, token: str | None = None
) -> WriteResult:
    return await store.write("k", value, grant_id="g", fence=fence, version_read=None, token=token)


async def test_writes_are_numbered_and_remembered(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0]) as store:
        assert (await store.read("k")).version == 0
        assert (await store.read("k")).value is None
        assert [(await write(store, value)).version for value in ("a", "b")] == [1, 2]
        await write(store, "c", fence=7)
        stored = await store.read("k")
        assert (stored.version, stored.value) == (3, "c")
        log = await store.log("k")
        assert [(entry.version, entry.value, entry.fence) for entry in log] == [
            (1, "a", None),
            (2, "b", None),
            (3, "c", 7),
        ]
        assert (await store.read("another")).version == 0


async def test_a_lower_fence_is_rejected_an_equal_one_is_not(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0], checks_fences=True) as store:
        assert (await write(store, "a", fence=34)).accepted
        assert (await write(store, "b", fence=34)).accepted
        late = await write(store, "c", fence=33)
        assert (late.accepted, late.version, late.reason) == (False, 2, "fenced: 33 after 34")
        assert not (await write(store, "d")).accepted
        assert not (await write(store, "4", fence=4)).accepted, "fences are numbers, not text"
        huge = 2**53
        assert (await write(store, "e", fence=huge)).accepted
        assert not (await write(store, "f", fence=huge - 1)).accepted
        assert [entry.value for entry in await store.log("k")] == ["a", "b", "e"]
        assert (await store.read("k")).value == "e"


async def test_a_read_is_fenced_and_remembered_like_a_write(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0], checks_fences=True, fences_reads=True) as store:
        assert (await write(store, "a", fence=9)).accepted
        assert (await store.read("k", fence=10)).value == "a"
        late = await write(store, "b", fence=9)
        assert (late.accepted, late.reason) == (False, "fenced: 9 after 10"), "the read has shown its fence"
        with pytest.raises(ReadRejected, match=r"^fenced: 9 after 10$"):
            await store.read("k", fence=9)
        with pytest.raises(ReadRejected, match=r"^no fence was given$"):
            await store.read("k")
        assert (await store.read("k", fence=10)).version == 1
        assert (await write(store, "c", fence=10)).accepted


async def test_without_being_asked_no_read_is_fenced(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0], checks_fences=True) as store:
        assert (await write(store, "a", fence=9)).accepted
        assert (await store.read("k", fence=10)).value == "a"
        assert (await store.read("k", fence=8)).value == "a"
        assert (await write(store, "b", fence=9)).accepted, "a read that is not checked leaves no trace"


async def test_a_store_that_does_not_check_takes_what_comes(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0]) as store:
        assert [(await write(store, f"v{fence}", fence=fence)).accepted for fence in (34, 33)] == [True, True]
        await store.announce("k", "somebody's")
        assert (await write(store, "blind")).accepted


async def test_only_the_last_announced_token_may_write(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0]) as store:
        early = await write(store, "a", token="t1")
        assert (early.accepted, early.reason) == (False, "token: t1 after none was announced")
        await store.announce("k", "t1")
        assert [(await write(store, value, token="t1")).accepted for value in ("b", "c")] == [True, True]
        await store.announce("k", "t2")
        late = await write(store, "d", token="t1")
        assert (late.accepted, late.version, late.reason) == (False, 2, "token: t1 after t2 was announced")
        assert (await write(store, "e", token="t2")).accepted
        assert not (await store.read("another")).version
        assert not (
            await store.write("another", "x", grant_id="g", fence=None, version_read=0, token="t2")
        ).accepted
        assert [entry.value for entry in await store.log("k")] == ["b", "c", "e"]


async def test_fences_and_tokens_are_checked_together(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0], checks_fences=True) as store:
        await store.announce("k", "t")
        assert (await write(store, "a", fence=5, token="t")).accepted
        assert not (await write(store, "b", fence=4, token="t")).accepted
        assert not (await write(store, "c", fence=9, token="other")).accepted
        assert (await write(store, "d", fence=6, token="t")).accepted, "a rejected write must raise no fence"


async def test_a_store_that_is_gone_is_an_error_of_its_own(nodes: list[RealNode]) -> None:
    nodes[0].kill()
    async with store_of(nodes[0]) as store:
        for call in (store.announce("k", "t"), store.read("k"), write(store, "a"), store.log("k")):
            with pytest.raises(StoreError):
                await call


class Client:
    """A worker whose events and clock are the test's."""

    def __init__(self, name: str, lock: str, nodes: list[RealNode]) -> None:
        self.events: list[dict[str, Any]] = []
        self.leap_ns = 0
        points = Points()
        surroundings = Surroundings(clock_ns=self.clock_ns, at=points.at)
        addresses = [node.address for node in nodes[:3]]
        self.lock = lock_class(lock).build(addresses, PATIENT, surroundings, name)
        self.store = store_of(nodes[4])
        self.worker = Worker(
            Recording(name, self.events.append),
            self.lock,
            self.store,
            key="k",
            ttl_ns=60 * S,
            check_before_write=False,
            points=points,
            clock_ns=self.clock_ns,
        )

    def clock_ns(self) -> int:
        return time.monotonic_ns() + self.leap_ns

    async def __call__(self, verb: Any, until: str | None = None) -> Answer:
        assert until is None or until in POINTS
        return await self.worker.run(Command(1, verb, until))

    @property
    def reported(self) -> list[tuple[str, str]]:
        return [(event["type"], event["f"]) for event in self.events]


@asynccontextmanager
async def clients(lock: str, nodes: list[RealNode]) -> AsyncIterator[tuple[Client, Client]]:
    alice, bob = Client("alice", lock, nodes), Client("bob", lock, nodes)
    yield alice, bob
    for client in (alice, bob):
        await client.lock.close()
        await client.store.close()


async def forget_the_lock(nodes: list[RealNode]) -> None:
    """As if every lease had expired."""
    for node in nodes[:3]:
        while await node.get("k") is None:
            pass
        await node.control.call("DEL", "k")


async def test_an_announced_token_prevents_the_lost_update(nodes: list[RealNode]) -> None:
    async with clients("redlock-cas", nodes) as (alice, bob):
        assert (await alice("work", "before-write")).outcome is Outcome.HELD
        await forget_the_lock(nodes)
        assert (await bob("work")).outcome is Outcome.OK
        late = await alice("continue")
        assert late.outcome is Outcome.FAIL
        rejected = next(event for event in alice.events if event["f"] == "write" and event["type"] == "fail")
        assert rejected["error"].startswith("token: ")
        assert alice.reported[:2] == [("invoke", "acquire"), ("ok", "acquire")], (
            "announcing is part of acquiring"
        )
        assert (await bob.store.read("k")).value == "bob:1"


async def test_without_announcing_the_update_is_lost(nodes: list[RealNode]) -> None:
    async with clients("redlock", nodes) as (alice, bob):
        await alice("work", "before-write")
        await forget_the_lock(nodes)
        await bob("work")
        await alice("continue")
        log = await bob.store.log("k")
        assert [entry.value for entry in log] == ["bob:1", "alice:1"]
        written = [event for event in alice.events if event["f"] == "write"]
        assert written[0]["version_read"] == 0
        assert written[1]["version_written"] == 2


async def test_a_late_announcement_overtakes_the_rightful_holder(nodes: list[RealNode]) -> None:
    async with clients("redlock-cas", nodes) as (alice, bob):
        assert (await alice("work", "before-announce")).text == "before-announce"
        await forget_the_lock(nodes)
        assert (await bob("work", "before-write")).outcome is Outcome.HELD
        alice.leap_ns = 61 * S
        assert (await alice("continue")).outcome is Outcome.FAIL
        assert alice.reported == [("invoke", "acquire"), ("fail", "acquire")]
        assert "no time was left" in alice.events[-1]["error"]
        assert (await bob("continue")).outcome is Outcome.FAIL
        assert ("fail", "write") in bob.reported
        assert ("ok", "release") in bob.reported, "alice's clean-up must not touch bob's lock"


async def test_an_unanswered_announcement_leaves_the_grant_in_doubt(nodes: list[RealNode]) -> None:
    nodes[4].kill()
    async with clients("redlock-cas", nodes) as (alice, _):
        assert (await alice("acquire")).outcome is Outcome.INFO
        assert alice.reported == [("invoke", "acquire"), ("info", "acquire")]
        assert alice.events[-1]["error"].startswith("announce: ")
        assert (await alice("write")).outcome is Outcome.SKIPPED
        await alice("acquire")
        assert alice.events[-1]["process"] == "alice/2"


async def test_a_scenario_can_hold_a_client_between_setnx_and_expire(nodes: list[RealNode]) -> None:
    async with clients("setnx-expire", nodes) as (alice, bob):
        held = await alice("work", "between-setnx-and-expire")
        assert (held.outcome, held.text) == (Outcome.HELD, "between-setnx-and-expire")
        assert await nodes[0].control.call("PTTL", "k") == -1
        assert (await bob("work", "between-setnx-and-expire")).outcome is Outcome.FAIL
        assert (await alice("continue", "acquired")).outcome is Outcome.HELD
        assert await nodes[0].control.call("PTTL", "k") > 0
        assert (await alice("continue")).outcome is Outcome.OK
        assert (await bob("acquire")).outcome is Outcome.OK, "the point was for the scenario's work only"


async def test_the_store_tells_when_it_carried_out_each_write_and_announcement(nodes: list[RealNode]) -> None:
    async with store_of(nodes[0], checks_fences=True) as store:
        before_us = time.time_ns() // 1000
        assert (await write(store, "a", fence=2, token=None)).accepted
        await store.announce("k", "mine")
        assert not (await write(store, "b", fence=1)).accepted
        assert not (await write(store, "c", fence=3, token="other")).accepted
        assert not (await write(store, "d")).accepted
        after_us = time.time_ns() // 1000
        reported = await store.executions("k")
        assert [(one.verb, one.whose, one.value, one.version) for one in reported] == [
            ("write", "g", "a", 1),
            ("announce", "mine", "", 1),
            ("write", "g", "b", 0),
            ("write", "g", "c", 0),
            ("write", "g", "d", 0),
        ]
        stamps = [one.at_us for one in reported]
        assert stamps == sorted(stamps)
        assert before_us <= stamps[0]
        assert stamps[-1] <= after_us
        assert await store.executions("another") == []
