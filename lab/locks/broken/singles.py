"""Broken locks on one node, a few lines away from ``single``."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace

from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, NotAcquired
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import look_away
from lab.locks.single import NotSent, Single


class GetThenSet(Single):
    """Looks with GET whether the key is free, then sets it: two clients can both see it free."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        if await self._call("GET", key) is not None:
            return False
        return await self._call("SET", key, token, "PX", ttl_ns // NS_PER_MS) is not None


class SetnxThenPexpire(Single):
    """SETNX, then PEXPIRE: if the second command is lost, the key never expires."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        if not await self._call("SETNX", key, token):
            return False
        with contextlib.suppress(NodeError):
            await self._call("PEXPIRE", key, ttl_ns // NS_PER_MS)
        return True


class TtlInWholeSeconds(Single):
    """SET with EX and the TTL in whole seconds, rounded down: the key is gone before the lease is over."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return await self._call("SET", key, token, "NX", "EX", max(1, ttl_ns // NS_PER_S)) is not None


class PxatByClientClock(Single):
    """The key expires at a time of day (PXAT) that the client takes from its own wall clock."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        over_ms = (time.time_ns() + ttl_ns) // NS_PER_MS
        return await self._call("SET", key, token, "NX", "PXAT", over_ms) is not None


class SilenceIsYes(Single):
    """A SET that is not answered in time is taken for one that worked."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        try:
            return await super()._set(key, token, ttl_ns)
        except NotSent:
            raise
        except NodeError:
            return True


class UnansweredSetStays(Single):
    """A SET that was not answered counts as refused, and is not taken back."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Silence is a no."""
        try:
            return await super().acquire(key, ttl_ns)
        except Indeterminate as error:
            raise NotAcquired(str(error), refused_by=0) from error

    async def _undo(self, key: str, token: str) -> None:
        """Nothing is sent."""


class CancelledSetStays(Single):
    """An acquire that is cancelled does not take its SET back."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """As always, but nothing is undone once the caller has gone."""
        attempt = asyncio.ensure_future(super().acquire(key, ttl_ns))
        attempt.add_done_callback(look_away)
        return await asyncio.shield(attempt)


class DeadlineFromReply(Single):
    """The lease counts from the reply to SET; the node counts from when it executed it."""

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str]:
        lease, reason = await super()._attempt(key, token, ttl_ns)
        if lease is not None:
            over_ns = self._surroundings.clock_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
            lease = replace(lease, deadline_ns=over_ns)
        return lease, reason


class DeadlineByWallClock(Single):
    """The end of a lease is kept, and looked up, by the wall clock."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._over_ns: dict[str, int] = {}

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str]:
        over_ns = time.time_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
        lease, reason = await super()._attempt(key, token, ttl_ns)
        if lease is not None:
            self._over_ns[token] = over_ns
        return lease, reason

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """As always, and note the new end."""
        over_ns = time.time_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
        extended = await super().extend(lease, ttl_ns)
        self._over_ns[lease.token] = over_ns
        return extended

    def believes(self, lease: Lease) -> bool:
        """Whether that time of day has not come yet."""
        return time.time_ns() < self._over_ns[lease.token]


class ComparesOtherUnits(Single):
    """Compares the time in milliseconds with a deadline in nanoseconds, which never comes."""

    def believes(self, lease: Lease) -> bool:
        """Always, in effect."""
        return self._surroundings.clock_ns() // NS_PER_MS < lease.deadline_ns


class GetThenDel(Single):
    """Releases by GET, a comparison in the client, and DEL: the key may change hands in between."""

    async def _give_back(self, lease: Lease) -> bool:
        if await self._call("GET", lease.key) != lease.token.encode():
            return False
        return bool(await self._call("DEL", lease.key))


class MarginAdded(Single):
    """The margin for drifting clocks is added to the lease instead of being taken off it."""

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str]:
        lease, reason = await super()._attempt(key, token, ttl_ns)
        if lease is not None:
            lease = replace(lease, deadline_ns=lease.deadline_ns + 2 * self.options.drift_ns(ttl_ns))
        return lease, reason


class RetriesForEver(Single):
    """Tries until it gets the lock, whatever the limits say: a call for a taken key does not come back."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Again and again."""
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired:
                await asyncio.sleep(self.options.retry_delay_ns / NS_PER_S)
