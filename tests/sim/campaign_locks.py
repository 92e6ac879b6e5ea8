"""Locks for the tests of campaigns, in a module that workers can import."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from lab.addresses import Address
from lab.channel import Channel
from lab.locks.base import Lease, LockError, NotAcquired, Options, Surroundings
from lab.locks.redlock import Redlock


class Hasty(Redlock):
    """A Redlock that is satisfied with two nodes of five."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.quorum = 2


class Faulty(Redlock):
    """A Redlock that cannot be opened."""

    async def open(self) -> None:
        raise RuntimeError("out of order")


class SaysReleased(Redlock):
    """A Redlock that says it has released the lock, whatever came of that."""

    async def release(self, lease: Lease) -> None:
        with suppress(LockError):
            await super().release(lease)


class OwnConnections(Redlock):
    """A Redlock that takes no connections from anybody: it speaks the protocol itself."""

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        """With channels of its own."""
        return super().build(nodes, options, replace(surroundings, channel=Channel), owner)


class OtherKey(Redlock):
    """A Redlock whose key has another name on the nodes."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """The same, on that key."""
        return await super().acquire(f"lock:{key}", ttl_ns)


class ByHash(Redlock):
    """A lock that keeps its key as a hash."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """On every node, whatever lies there."""
        for channel in self._channels:
            await channel.call("HSET", key, "owner", "1")
            await channel.call("PEXPIRE", key, ttl_ns // 1_000_000)
        raise NotAcquired("not a lock to be relied on")


class LastThree(Redlock):
    """A Redlock on the last three of its nodes; it connects to all of them."""

    async def open(self) -> None:
        """Connect to all, and forget the first."""
        await super().open()
        del self._channels[:-3]
        self.quorum = 2


class Last(LastThree):
    """A lock on the last of its nodes."""

    async def open(self) -> None:
        """Connect to all, and forget all others."""
        await super().open()
        del self._channels[:-1]
        self.quorum = 1
