"""What a client records of its lock's stalls, and what it does when it cannot write down what it saw."""

from __future__ import annotations

import asyncio
import errno
import random
import time
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.addresses import Address
from lab.client.log import Recording
from lab.client.points import Points
from lab.client.serve import _beat, _Workers, serve
from lab.client_protocol import Answer, Command, Loop, Setup
from lab.locks.base import BaseLock, Lease, Surroundings
from lab.locks.heartbeat import STALL_NS, watch_for_stalls


class Deaf:
    """A line on which nothing is told; what broke is kept."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def command(self) -> Command | None:
        return None

    def answer(self, answer: Answer) -> None:
        raise AssertionError(answer)

    def note(self, error: Exception) -> None:
        raise AssertionError(error)

    def broke(self, error: Exception) -> None:
        self.errors.append(error)


async def test_a_stall_that_cannot_be_recorded_ends_the_client() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    async def stalled() -> None:
        raise full

    line = Deaf()
    await _beat(line, stalled())
    assert line.errors == [full]


async def test_to_be_told_to_stop_is_no_failure() -> None:
    line = Deaf()
    beating = asyncio.create_task(_beat(line, asyncio.sleep(60)))
    await asyncio.sleep(0)
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    assert beating.cancelled()
    assert line.errors == []


async def test_stalls_of_a_lock_with_a_process_of_its_own_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Made(BaseException):
        """Enough is known."""

    def build(nodes: object, options: object, around: Surroundings, owner: str) -> None:
        assert around.stalled is not None
        around.stalled(5, 7)
        raise Made

    monkeypatch.setattr("lab.client.serve.lock_class", lambda _: SimpleNamespace(build=build))
    recorded: list[dict[str, Any]] = []
    setup = Setup("alice", "k", "mine", 10**9, {}, [], Address("store", "127.0.0.1", 1), False, True, "", 0)
    with pytest.raises(Made):
        await serve(setup, Deaf(), recorded.append, record_clock_ns=lambda: 12)
    assert [(each["f"], each["start_ns"], each["duration_ns"]) for each in recorded] == [("stall", 5, 7)]


class Answered(Deaf):
    """A line that answers are sent on."""

    def answer(self, answer: Answer) -> None:
        pass


class Slow(BaseLock):
    """A lock that is granted when the test lets it be."""

    def __init__(self) -> None:
        super().__init__([], {}, Surroundings(random=random.Random(0)), "alice")
        self.granted = asyncio.Event()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        await self.granted.wait()
        return Lease(key, "token", ttl_ns, time.monotonic_ns() + ttl_ns)

    async def release(self, lease: Lease) -> None:
        pass


async def test_stalls_matter_while_something_is_under_way_or_a_lease_is_held() -> None:
    setup = Setup("alice", "k", "slow", 10**12, {}, [], Address("store", "127.0.0.1", 1), False, True, "", 0)
    recording = partial(Recording, "alice", lambda event: None, time.monotonic_ns)
    lock = Slow()
    workers = _Workers(setup, lock, cast(Any, None), Points(), recording(), recording)

    async def ended() -> None:
        while workers._under_way:
            await asyncio.sleep(0)

    workers.settle()
    assert not workers.active.is_set()
    workers.begin(Command(1, "acquire"), Answered())
    assert workers.active.is_set()
    await asyncio.sleep(0)
    assert workers.active.is_set(), "it waits for the lock"
    lock.granted.set()
    await ended()
    assert workers.active.is_set(), "it holds the lock"
    workers.begin(Command(2, "release"), Answered())
    await ended()
    assert not workers.active.is_set()
    workers.rounds(Command(3, "work", loop=Loop(10**9, 1, 1, ["k"])))
    workers.settle()
    assert workers.active.is_set(), "rounds go on until the end"


async def test_an_idle_client_does_not_watch_for_stalls() -> None:
    stalls: list[tuple[int, int]] = []
    active = asyncio.Event()
    watching = asyncio.create_task(watch_for_stalls(lambda *stall: stalls.append(stall), active=active))
    await asyncio.sleep(0)
    time.sleep(2 * STALL_NS / 1e9)  # noqa: ASYNC251 - the process stands still
    begun_ns = time.monotonic_ns()
    active.set()
    await asyncio.sleep(0)
    time.sleep(2 * STALL_NS / 1e9)  # noqa: ASYNC251
    while not stalls:
        await asyncio.sleep(0.001)
    watching.cancel()
    assert stalls[0][0] >= begun_ns
