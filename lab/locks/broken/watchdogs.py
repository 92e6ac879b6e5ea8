"""Broken locks on one node that extend their leases by themselves, in the background, until the release.

What such a lock says a lease is worth is what ``believes`` answers; ``Watched`` itself is right.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import ClassVar

from lab.channel import NodeError
from lab.locks.base import Belief, Lease, LockError
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.single import Single


class Watched(Single):
    """Extends every third of a TTL, and believes a lease until the end of its last extension."""

    renews: ClassVar[bool] = True

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._current: dict[str, Lease] = {}
        self._watchdogs: dict[str, asyncio.Task[None]] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """As always, and watch over it from then on."""
        lease = await super().acquire(key, ttl_ns)
        self._current[lease.token] = lease
        self._watchdogs[lease.token] = asyncio.ensure_future(self._watch(lease))
        return lease

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Extend what the watchdog has made of it."""
        current = self._current.get(lease.token, lease)
        self._current[lease.token] = extended = await super().extend(current, ttl_ns)
        return extended

    async def release(self, lease: Lease) -> None:
        """No more extensions; then as always."""
        self._stop(lease)
        await super().release(lease)

    async def close(self) -> None:
        """No more extensions; then as always."""
        for lease in list(self._current.values()):
            self._stop(lease)
        await super().close()

    def believes(self, lease: Lease) -> bool:
        """Whether its last extension is not over yet."""
        current = self._current.get(lease.token)
        return current is not None and super().believes(current)

    async def held(self, lease: Lease) -> Belief:
        """What it believes."""
        return Belief(self.believes(lease))

    async def wall_clock_ns(self) -> int:
        """The client's own."""
        return time.time_ns()

    def _stop(self, lease: Lease) -> None:
        self._current.pop(lease.token, None)
        if (watchdog := self._watchdogs.pop(lease.token, None)) is not None:
            watchdog.cancel()

    async def _watch(self, lease: Lease) -> None:
        while self.believes(lease):
            await asyncio.sleep(lease.ttl_ns / 3 / NS_PER_S)
            with contextlib.suppress(LockError):
                await self._renew(lease)

    async def _renew(self, lease: Lease) -> None:
        """Extend once. Raises ``LockError``."""
        await self.extend(lease, lease.ttl_ns)


class WatchdogSetsAfterRelease(Watched):
    """The watchdog is not stopped by a release, and sets the key again, and again."""

    def _stop(self, lease: Lease) -> None:
        """Leave it running."""

    async def _renew(self, lease: Lease) -> None:
        with contextlib.suppress(NodeError):
            await self._call("SET", lease.key, lease.token, "PX", lease.ttl_ns // NS_PER_MS)
            await super()._renew(lease)


class WatchdogFailsUnnoticed(Watched):
    """The watchdog ends with the first extension that fails, and the lease is believed until the release."""

    def believes(self, lease: Lease) -> bool:
        """Whether it has not been released."""
        return lease.token in self._current

    async def _watch(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(lease.ttl_ns / 3 / NS_PER_S)
            try:
                await self._renew(lease)
            except LockError:
                return


class WatchdogKeepsFirstToken(Watched):
    """The watchdog extends under the token of the client's first lease, and takes any answer for a yes."""

    _first: Lease | None = None

    async def _renew(self, lease: Lease) -> None:
        self._first = self._first or lease
        start_ns = self._surroundings.clock_ns()
        with contextlib.suppress(NodeError):
            await self._prolong(self._first, lease.ttl_ns)
            now_ns = self._surroundings.clock_ns()
            self._current[lease.token] = self.options.extended(
                self._current[lease.token], lease.ttl_ns, start_ns, now_ns
            )


class WatchdogExtendsAnybodys(Watched):
    """The watchdog extends by PEXPIRE, also somebody else's key, and then believes that it holds it."""

    async def _renew(self, lease: Lease) -> None:
        start_ns = self._surroundings.clock_ns()
        with contextlib.suppress(NodeError):
            if await self._call("PEXPIRE", lease.key, lease.ttl_ns // NS_PER_MS):
                over_ns = start_ns + lease.ttl_ns - self.options.drift_ns(lease.ttl_ns)
                self._current[lease.token] = replace(lease, deadline_ns=over_ns)


class OneWatchdogForAllKeys(Watched):
    """One watchdog renews the lease that was taken last, and every lease counts as held until its release."""

    _watchdog: asyncio.Task[None] | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """As always, and watch over this one from then on."""
        lease = await Single.acquire(self, key, ttl_ns)
        self._current[lease.token] = lease
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watchdog = asyncio.ensure_future(self._watch(lease))
        return lease

    def believes(self, lease: Lease) -> bool:
        """Whether it has not been released."""
        return lease.token in self._current


class WatchdogOfCancelled(Watched):
    """An acquire that is cancelled goes on in the background, and its watchdog renews what nobody has."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Do not let it be interrupted."""
        return await asyncio.shield(super().acquire(key, ttl_ns))
