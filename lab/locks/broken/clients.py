"""Broken locks on one node whose client keeps the wrong things in mind, or does not cope with a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, TypeVar

from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired
from lab.locks.lease_options import NS_PER_MS
from lab.locks.redlock import UNLOCK_SCRIPT
from lab.locks.single import NotSent, Single

T = TypeVar("T")


class OneTokenForAllKeys(Single):
    """The client keeps one token, that of its last grant, and releases every key with it."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Keep the token in mind."""
        lease = await super().acquire(key, ttl_ns)
        self._token = lease.token
        return lease

    async def _give_back(self, lease: Lease) -> bool:
        return await super()._give_back(replace(lease, token=self._token))


class OneDeadlineForAllKeys(Single):
    """The client keeps one deadline, that of its last grant, and believes any lease until then."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Keep the deadline in mind."""
        lease = await super().acquire(key, ttl_ns)
        self._deadline_ns = lease.deadline_ns
        return lease

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Keep the new one in mind."""
        extended = await super().extend(lease, ttl_ns)
        self._deadline_ns = extended.deadline_ns
        return extended

    def believes(self, lease: Lease) -> bool:
        """Whichever lease it is."""
        return self._surroundings.clock_ns() < self._deadline_ns


class LeaseFromCache(Single):
    """A second acquire returns the cached lease of the first, also after that was released."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._cached: dict[str, Lease] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Ask the node only if the cached lease is over."""
        cached = self._cached.get(key)
        if cached is not None and self.believes(cached):
            return cached
        self._cached[key] = lease = await super().acquire(key, ttl_ns)
        return lease


class _NotesLeases(Single):
    """Keeps the last lease of each key in mind."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._leases: dict[str, Lease] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Note the lease."""
        self._leases[key] = lease = await super().acquire(key, ttl_ns)
        return lease


class DelWhenForgotten(_NotesLeases):
    """Forgets the token of a lease that is over, and releases by DEL where it knows no token."""

    async def _give_back(self, lease: Lease) -> bool:
        known = self._leases.pop(lease.key, lease)
        if self.believes(known):
            return await super()._give_back(lease)
        return bool(await self._call("DEL", lease.key))


class NeverReconnects(Single):
    """Connects once, when it is opened: after an error of the connection every call fails."""

    _is_connected = False

    async def open(self) -> None:
        """Connect."""
        await super().open()
        self._is_connected = True

    async def _call(self, *arguments: str | int) -> Any:
        if not self._is_connected:
            raise NotSent("not connected")
        try:
            return await super()._call(*arguments)
        except NotSent:
            raise
        except NodeError:
            self._is_connected = False
            raise


ACQUIRE_SCRIPT = "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 else return 0 end"


class NoScriptFallback(Single):
    """Loads each script once and calls it by EVALSHA: a node that has restarted does not know it any more."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._digests: dict[str, str] = {}

    async def _run(self, script: str, *arguments: str | int) -> Any:
        if script not in self._digests:
            self._digests[script] = (await self._call("SCRIPT", "LOAD", script)).decode()
        return await self._call("EVALSHA", self._digests[script], 1, *arguments)

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._run(ACQUIRE_SCRIPT, key, token, ttl_ns // NS_PER_MS))

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._run(UNLOCK_SCRIPT, lease.key, lease.token))


class RaisesNodeError(Single):
    """A node that cannot be reached makes acquire raise the connection's own error."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Ask whether the node is there, and do not translate the error if it is not."""
        await self._in_time(self._channels[0].call("PING"))
        return await super().acquire(key, ttl_ns)


class ReleaseRaisesKeyError(_NotesLeases):
    """Keeps leases by key and drops one whose extension failed: its release ends with a KeyError."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Drop it if that does not work."""
        try:
            return await super().extend(lease, ttl_ns)
        except (LeaseLost, Indeterminate):
            self._leases.pop(lease.key, None)
            raise

    async def release(self, lease: Lease) -> None:
        """Look it up, and give it back."""
        await super().release(self._leases.pop(lease.key))


class NoTimeOut(Single):
    """Waits for every reply without a time-out: one that is lost makes the call hang for ever."""

    async def _in_time(self, call: Awaitable[T]) -> T:
        return await call


class IsEmptyWhenAway(Single):
    """While its node is away acquire returns None instead of raising, and the caller trips over that."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Catch all that goes wrong with the node."""
        try:
            return await super().acquire(key, ttl_ns)
        except NotAcquired:
            raise
        except Indeterminate:
            return None  # type: ignore[return-value]  # that is the defect


class OneKeyForAll(Single):
    """Uses the same key on the node whatever the lock is called, so that who holds one lock holds all."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Under another name."""
        return replace(await super().acquire("lock", ttl_ns), key=key)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await super()._prolong(replace(lease, key="lock"), ttl_ns)

    async def _give_back(self, lease: Lease) -> bool:
        return await super()._give_back(replace(lease, key="lock"))


class DoublesItsPauses(Single):
    """Waits a second before its second try, then two, then four: the lock is free for long before it asks."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Four tries."""
        for pause_s in (1, 2, 4):
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired:
                await asyncio.sleep(pause_s)
        return await super().acquire(key, ttl_ns)


class MutexStaysLocked(Single):
    """Lets one task of the client acquire at a time, and does not let go of that after a failed acquire."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._turn = asyncio.Lock()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """One after the other."""
        await self._turn.acquire()
        lease = await super().acquire(key, ttl_ns)
        self._turn.release()
        return lease


class ReleaseAsserts(Single):
    """A release that finds the key gone ends with an AssertionError."""

    async def _give_back(self, lease: Lease) -> bool:
        deleted = await super()._give_back(lease)
        assert deleted, "the lock was not ours any more"
        return deleted


class ReleaseEmptiesKey(Single):
    """A release sets the key to nothing instead of deleting it, and NX still finds it there."""

    async def _give_back(self, lease: Lease) -> bool:
        emptied = UNLOCK_SCRIPT.replace("redis.call('del',KEYS[1])", "redis.call('set',KEYS[1],'','KEEPTTL')")
        return bool(await self._call("EVAL", emptied, 1, lease.key, lease.token))
