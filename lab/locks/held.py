"""A lock that is held with ``async with``: the lease, its watchdog, and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from lab.locks.base import Indeterminate, Lease, LeaseLost

NS_PER_S = 1_000_000_000


class _LeaseService(Protocol):
    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def acquire(self, key: str, ttl_ns: int) -> Lease: ...
    async def extend(self, lease: Lease, ttl_ns: int) -> Lease: ...
    async def release(self, lease: Lease) -> None: ...
    def believes(self, lease: Lease) -> bool: ...


class HeldLock:
    """One key, held between ``__aenter__`` and ``__aexit__``.

    ``lost`` is set when the watchdog could not extend the lease. The nodes keep the lock only until its TTL:
    check ``valid`` before each access; the lease may still end between the check and the access.
    """

    def __init__(
        self, service: _LeaseService, key: str, ttl_ns: int, *, watchdog: bool, clock_ns: Callable[[], int]
    ) -> None:
        self._service = service
        self._key = key
        self._ttl_ns = ttl_ns
        self._clock_ns = clock_ns
        self._with_watchdog = watchdog
        self._watchdog: asyncio.Task[None] | None = None
        self._lease: Lease | None = None
        self.lost = asyncio.Event()

    @property
    def lease(self) -> Lease:
        """The current lease. Raises ``LeaseLost`` outside of ``async with``."""
        if self._lease is None:
            raise LeaseLost(f"{self._key}: not held")
        return self._lease

    @property
    def valid(self) -> bool:
        """Whether the lease's time is not over yet, by the monotonic clock."""
        return self._lease is not None and self._service.believes(self._lease)

    @property
    def remaining_s(self) -> float:
        """Seconds left before the lease is over; never negative."""
        return max(0, self.lease.deadline_ns - self._clock_ns()) / NS_PER_S

    async def extend(self, ttl: float | None = None) -> None:
        """Extend the lease by ``ttl`` seconds from now (its own TTL by default). Raises ``LeaseLost``."""
        ttl_ns = self._ttl_ns if ttl is None else round(ttl * NS_PER_S)
        self._lease = await self._service.extend(self.lease, ttl_ns)

    async def __aenter__(self) -> HeldLock:
        await self._service.open()
        try:
            self._lease = await self._service.acquire(self._key, self._ttl_ns)
        except BaseException:
            await self._service.close()
            raise
        if self._with_watchdog:
            self._watchdog = asyncio.create_task(self._keep_extending())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            await asyncio.gather(self._watchdog, return_exceptions=True)
        lease, self._lease = self._lease, None
        try:
            if lease is not None:
                await self._service.release(lease)
        except (LeaseLost, Indeterminate):
            self.lost.set()  # the keys expire
        finally:
            await self._service.close()

    async def _keep_extending(self) -> None:
        """Extend at a third of the TTL; after a failure try again after a tenth, while time is left."""
        pause_s = self._ttl_ns / 3 / NS_PER_S
        while self.valid:
            await asyncio.sleep(pause_s)
            try:
                await self.extend()
                pause_s = self._ttl_ns / 3 / NS_PER_S
            except (LeaseLost, Indeterminate):
                pause_s = self._ttl_ns / 10 / NS_PER_S
        self.lost.set()
