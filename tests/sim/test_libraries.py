"""Other people's asyncio locks, unmodified, in the simulation."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest
import redis.asyncio

from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.node import PORT, SimNode
from lab.substrates.sim.simulate import simulate

pytestmark = pytest.mark.usefixtures("_patched")

Log = list[tuple[float, str, str]]
Client = Callable[[str, Log], Coroutine[Any, Any, None]]


async def started(names: str) -> None:
    """Start a node for each letter."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HostLoop)
    numbers = count(1)
    for name in names:
        await SimNode(name, loop.network, lambda: next(numbers), "none").start()


def two_clients(nodes: str, client: Client, seed: int) -> Log:
    """Let two clients, each on a host of its own, want a lock; what they did, in order."""
    log: Log = []

    async def work() -> None:
        await started(nodes)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HostLoop)
        hosts = [host_with_loop(loop.host.world, name, loop.network) for name in ("alice", "bob")]
        tasks = [host.create_task(client(host.host.name, log)) for host in hosts]
        give_up = loop.time() + 60
        while not all(task.done() for task in tasks) and loop.time() < give_up:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.result()

    simulate(work, seed)
    return log


async def turns_with_redis_py(name: str, log: Log) -> None:
    """Three critical sections under ``redis.asyncio.lock``: retries, scripts, tokens from uuid1."""
    async with redis.asyncio.Redis(host="A", port=PORT) as connection:
        for _ in range(3):
            async with connection.lock("resource", timeout=5, sleep=0.05):
                log.append((time.monotonic(), name, "in"))
                await asyncio.sleep(0.3)
                log.append((time.monotonic(), name, "out"))


def test_the_lock_of_redis_py() -> None:
    log = two_clients("A", turns_with_redis_py, 1)
    assert len(log) == 12
    sections = [(log[at], log[at + 1]) for at in range(0, 12, 2)]
    assert all(entered[1:] == (left[1], "in") and left[2] == "out" for entered, left in sections)
    assert log == two_clients("A", turns_with_redis_py, 1), "the same seed, the same turns"
    assert log != two_clients("A", turns_with_redis_py, 2)


def test_a_lease_of_redis_py_runs_out_in_virtual_time() -> None:
    async def client(name: str, log: Log) -> None:
        async with redis.asyncio.Redis(host="A", port=PORT) as connection:
            await asyncio.sleep(0 if name == "alice" else 0.1)
            lock = connection.lock("resource", timeout=5, sleep=0.05)
            await lock.acquire()
            log.append((time.monotonic(), name, "in"))

    (first, _, _), (second, _, _) = two_clients("A", client, 1)
    assert 4.9 < second - first < 5.2


async def turns_with_pottery(name: str, log: Log) -> None:
    """One critical section under pottery's AIORedlock on five nodes; its masters stand in a frozenset."""
    pottery = importlib.import_module("pottery")
    masters = frozenset(redis.asyncio.Redis(host=node, port=PORT) for node in "ABCDE")
    lock = pottery.AIORedlock(key="resource", masters=masters, auto_release_time=5)
    if await lock.acquire():
        log.append((time.monotonic(), name, "in"))
        await asyncio.sleep(0.2)
        log.append((time.monotonic(), name, "out"))
        await lock.release()


async def turns_with_redlock_ng(name: str, log: Log) -> None:
    """One critical section under redlock-ng's AsyncRedlock on five nodes."""
    library = importlib.import_module("redlock")
    lock = library.AsyncRedlock([f"redis://{node}:{PORT}/0" for node in "ABCDE"], retry_count=20)
    held = await lock.acquire("resource", 5000)
    if held is not None:
        log.append((time.monotonic(), name, "in"))
        await asyncio.sleep(0.2)
        log.append((time.monotonic(), name, "out"))
        await lock.release(held)


@pytest.mark.parametrize(
    ("package", "client"), [("pottery", turns_with_pottery), ("redlock", turns_with_redlock_ng)]
)
def test_other_libraries_where_they_are_installed(package: str, client: Client) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed here")
    log = two_clients("ABCDE", client, 1)
    assert [what for _, _, what in log] == ["in", "out"] * (len(log) // 2)
    assert log
    assert log == two_clients("ABCDE", client, 1)
