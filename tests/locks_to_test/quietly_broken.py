"""Locks on one node that are wrong in a way that a history alone does not prove."""

from __future__ import annotations

import asyncio

from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired
from tests.locks_to_test.plain import S_NS, Plain
from tests.locks_to_test.watchdog import Watchdog


class LateSuccess(Plain):
    """Waits for an answer as long as it takes, looks at no clock then, and says nothing of its attempt."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, start_ns = self._around.new_token(), self._around.clock_ns()
        try:
            taken = await self._take(key, token, ttl_ns)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not taken:
            raise NotAcquired(f"{key}: taken", [token])
        return Lease(key, token, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}))

    async def _call(self, *command: str | int) -> object:
        return await self._channel.call(*command)


class LateExtension(LateSuccess):
    """The same of an extension: one that the node made is a success, whenever the answer comes."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._around.clock_ns()
        try:
            prolonged = await self._prolong(lease, ttl_ns)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not prolonged:
            raise LeaseLost(f"{lease.key}: lost", no_effect=True)
        return Lease(lease.key, lease.token, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}))


class OutlivesLostRelease(Watchdog):
    """Its watchdog ends when a release was answered, and goes on for ever after one that was not."""

    async def release(self, lease: Lease) -> None:
        await Plain.release(self, lease)
        await self._stop(lease.token)


class SleepsOn(Plain):
    """Who is refused sleeps for two leases before it asks once more, whatever happens meanwhile."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        try:
            return await super().acquire(key, ttl_ns)
        except NotAcquired:
            await asyncio.sleep(2 * ttl_ns / S_NS)
            return await super().acquire(key, ttl_ns)
