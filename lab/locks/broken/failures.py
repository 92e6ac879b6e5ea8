"""Broken locks on one node that go on the wrong way after a refusal, or after a request without an answer."""

from __future__ import annotations

from typing import Any, ClassVar

from lab.channel import NodeError
from lab.locks.base import Lease, NotAcquired
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.single import NotSent, Single


class ReleaseExpiresAnybodys(Single):
    """Releases by an expiry of one millisecond, whoever holds the key by then."""

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._call("PEXPIRE", lease.key, 1))


class PoolRunsDry(Single):
    """A connection whose request was not answered never gets back into the pool, which has four."""

    _free = 4

    async def _call(self, *arguments: str | int) -> Any:
        if not self._free:
            raise NotSent("no connection is left in the pool")
        self._free -= 1
        reply = await super()._call(*arguments)
        self._free += 1
        return reply


class CircuitStaysOpen(Single):
    """After three requests in a row without an answer it asks nothing for a minute, and refuses everybody."""

    OPEN_NS: ClassVar[int] = 60 * NS_PER_S
    _failed = 0
    _until_ns = 0

    async def _call(self, *arguments: str | int) -> Any:
        if self._surroundings.clock_ns() < self._until_ns:
            raise NotSent("the circuit is open")
        try:
            reply = await super()._call(*arguments)
        except NodeError:
            self._failed += 1
            if self._failed >= 3:
                self._until_ns = self._surroundings.clock_ns() + self.OPEN_NS
            raise
        self._failed = 0
        return reply


class RemembersRefusal(Single):
    """Asks when the key of the holder would expire, and refuses by itself until then, released or not."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._taken_until_ns: dict[str, int] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Ask the node only if the key may be free."""
        if self._surroundings.clock_ns() < self._taken_until_ns.get(key, 0):
            raise NotAcquired(f"{key}: another client held it")
        try:
            return await super().acquire(key, ttl_ns)
        except NotAcquired:
            left_ms = await self._call("PTTL", key)
            self._taken_until_ns[key] = self._surroundings.clock_ns() + left_ms * NS_PER_MS
            raise


class LibraryRepeatsSet(Single):
    """Repeats what was not answered: a SET that had arrived refuses its own repetition, and stays."""

    async def _call(self, *arguments: str | int) -> Any:
        try:
            return await super()._call(*arguments)
        except NotSent:
            raise
        except NodeError:
            return await super()._call(*arguments)
