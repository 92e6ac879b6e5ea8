"""The order of things in the conformance test, without a driver and without a node."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from lab.drivers import conformance
from lab.drivers.conformance import Checks, Servers
from lab.drivers.look import Look, Looker
from lab.drivers.messages import Done, Granted, Hello
from lab.drivers.process import DriverProcess


class OneLock:
    """A node with one lock, and who waits for it."""

    nodes = ()

    def __init__(self) -> None:
        self.owner: str | None = None
        self.freed = asyncio.Event()

    async def look(self, key: str) -> list[Look]:
        return [Look("A", there=self.owner is not None, left_ms=1000)]


class WokenAtOnce:
    """A client whose acquire waits, and has the lock before the release that frees it is answered."""

    def __init__(self, name: str, lock: OneLock) -> None:
        self.name, self.lock = name, lock

    async def hello(self, options: Any) -> Hello:
        return Hello("toy", "1", ())

    async def acquire(self, key: str, ttl_ms: int, timeout_s: float | None = None) -> Granted:
        while self.lock.owner is not None:
            await self.lock.freed.wait()
        self.lock.owner = self.name
        return Granted("h1")

    async def release(self, lease: str, timeout_s: float | None = None) -> Done:
        self.lock.owner = None
        self.lock.freed.set()
        for _ in range(5):
            await asyncio.sleep(0)
        return Done()


async def test_who_waited_gives_the_lock_back_even_if_he_had_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conformance, "PATIENCE_S", 0.01)
    lock = OneLock()
    alice, bob = (cast("DriverProcess", WokenAtOnce(name, lock)) for name in ("alice", "bob"))
    checks = Checks(alice, bob, Servers(cast("Looker", lock), ()), {})
    await checks.hello()
    await checks.acquire()
    assert await checks.excluded() == "it waits"
    assert await checks.release() == ""
    assert lock.owner is None
