"""Locks that their holder may take again: the client counts, and its nodes see the outermost lease alone.

These are the references of such locks, on one node and on a majority of several.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from lab.locks.base import Lease, LeaseLost, NotAcquired
from lab.locks.lease_options import LeaseOptions
from lab.locks.leased import OnRedis
from lab.locks.redlock import Redlock
from lab.locks.single import Single


@dataclass(slots=True)
class _Held:
    """What a client has of a key: the lease that its nodes keep, and how often it was taken."""

    lease: Lease
    times: int = 1


class Counts:
    """How often a client has each key, beside the lock that it has on the nodes.

    Args:
        options: of that lock: its margin for drift.
        clock_ns: the monotonic clock that leases end by.
    """

    def __init__(self, options: LeaseOptions, clock_ns: Callable[[], int]) -> None:
        self._options, self._clock_ns = options, clock_ns
        self._held: dict[str, _Held] = {}

    async def acquire(
        self,
        key: str,
        ttl_ns: int,
        take: Callable[[str, int], Awaitable[Lease]],
        prolong: Callable[[Lease, int], Awaitable[Lease]],
    ) -> Lease:
        """Take it on the nodes, or once more where it is held, for which it must last as long as is asked.

        Raises:
            NotAcquired: another client has it, or it could not be prolonged.
            Indeterminate: the nodes did not answer; it was not taken once more.
        """
        held, start_ns = self._held.get(key), self._clock_ns()
        if held is None or start_ns >= held.lease.deadline_ns:
            lease = await take(key, ttl_ns)
            self._held[key] = _Held(lease)
            return lease
        until_ns = start_ns + ttl_ns - self._options.drift_ns(ttl_ns)
        if until_ns > held.lease.deadline_ns:
            try:
                held.lease = await prolong(held.lease, ttl_ns)
            except LeaseLost as error:
                raise NotAcquired(str(error), [held.lease.token]) from error
        held.times += 1
        until_ns = min(until_ns, held.lease.deadline_ns)
        return replace(held.lease, ttl_ns=ttl_ns, deadline_ns=until_ns, attempt_ns=start_ns)

    async def extend(
        self, lease: Lease, ttl_ns: int, prolong: Callable[[Lease, int], Awaitable[Lease]]
    ) -> Lease:
        """Prolong it on the nodes. Raises what ``prolong`` does."""
        extended, held = await prolong(lease, ttl_ns), self._held.get(lease.key)
        is_held = held is not None and held.lease.token == lease.token
        if held is not None and is_held and extended.deadline_ns > held.lease.deadline_ns:
            held.lease = extended
        return extended

    async def release(self, lease: Lease, give_back: Callable[[Lease], Awaitable[None]]) -> None:
        """Give it back once, on the nodes if that is the last time. Raises what ``give_back`` does."""
        held = self._held.get(lease.key)
        if held is not None and held.lease.token == lease.token:
            held.times -= 1
            if held.times and self._clock_ns() < held.lease.deadline_ns:
                return
            del self._held[lease.key]
        await give_back(lease)


class _TakenAgain(OnRedis[Any]):
    """What a lock has besides, whose client counts."""

    reentrant: ClassVar[bool] = True

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._counts = Counts(self.options, self._surroundings.clock_ns)

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """As ``Counts`` has it."""
        take, prolong = super().acquire, super().extend  # type: ignore[misc]
        return await self._counts.acquire(key, ttl_ns, take, prolong)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """As ``Counts`` has it."""
        return await self._counts.extend(lease, ttl_ns, super().extend)  # type: ignore[misc]

    async def release(self, lease: Lease) -> None:
        """As ``Counts`` has it."""
        await self._counts.release(lease, super().release)  # type: ignore[misc]


class ReentrantSingle(_TakenAgain, Single):
    """``Single``, which its holder may take again."""

    name: ClassVar[str] = "single that its holder may take again"


class ReentrantRedlock(_TakenAgain, Redlock):
    """``Redlock``, which its holder may take again."""

    name: ClassVar[str] = "redlock that its holder may take again"
