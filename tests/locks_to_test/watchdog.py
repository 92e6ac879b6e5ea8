"""A lock on one node that extends its leases by itself until they are released."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import ClassVar

from lab.addresses import Address
from lab.locks.base import Belief, Lease, LockError, Surroundings
from tests.locks_to_test.plain import S_NS, Plain, PlainOptions


class Watchdog(Plain):
    """Extends every quarter of a TTL; what it believes is what the last extension that worked is worth."""

    name = "watchdog"
    renews: ClassVar[bool] = True

    def __init__(self, node: Address, options: PlainOptions, around: Surroundings, owner: str) -> None:
        super().__init__(node, options, around, owner)
        self._leases: dict[str, Lease] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        self._leases[lease.token] = lease
        self._tasks[lease.token] = asyncio.create_task(self._go_on(lease.token, ttl_ns))
        return lease

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        extended = await super().extend(self._leases.get(lease.token, lease), ttl_ns)
        if lease.token in self._leases:  # or it was released in the meantime
            self._leases[lease.token] = extended
        return extended

    async def release(self, lease: Lease) -> None:
        await self._stop(lease.token)
        await super().release(lease)

    async def close(self) -> None:
        for token in list(self._tasks):
            await self._stop(token)
        await super().close()

    def believes(self, lease: Lease) -> bool:
        return super().believes(self._leases.get(lease.token, lease))

    async def held(self, lease: Lease) -> Belief:
        return Belief(lease.token in self._leases and self.believes(lease))

    async def wall_clock_ns(self) -> int:
        return time.time_ns()

    async def _stop(self, token: str) -> None:
        self._leases.pop(token, None)
        task = self._tasks.pop(token, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _go_on(self, token: str, ttl_ns: int) -> None:
        while (lease := self._leases.get(token)) is not None and self.believes(lease):
            await asyncio.sleep(ttl_ns / 4 / S_NS)
            with contextlib.suppress(LockError):
                await self.extend(lease, ttl_ns)
