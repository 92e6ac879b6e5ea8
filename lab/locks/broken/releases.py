"""Broken ways to give the lock back, to undo an attempt, and to tell clients apart."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from random import Random

from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_S
from lab.locks.redlock import Redlock, ReleaseReport, Taken, Vote


class BareDel(Redlock):
    """Releases with DEL, whoever's key it is."""

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """Delete without a look at the value."""
        return ReleaseReport(await self._ask_all(("DEL", lease.key), bool, stop_early=False))


class UndoByBareDel(Redlock):
    """An attempt that failed is undone with DEL, whoever's key it is."""

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        return await self._ask_all(("DEL", key), bool, stop_early=False)


class NoRelease(Redlock):
    """A release is said to have worked, and nothing is sent."""

    async def release(self, lease: Lease) -> None:
        """Nothing."""


class ReleaseAtMajority(Redlock):
    """Releases at just as many nodes as make a majority."""

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """At the first few nodes."""
        everywhere, self._channels = self._channels, self._channels[: self.quorum]
        try:
            return await super().release_report(lease)
        finally:
            self._channels = everywhere


class RetryWithoutUnlock(Redlock):
    """Tries again, or gives up, and leaves on the nodes what it got there."""

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        return {}

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """The release itself is as always."""
        return ReleaseReport(await super()._undo(lease.key, lease.token))


class RemembersVotes(Redlock):
    """Knows what each node said to its last attempt."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._votes: dict[str, Vote] = {}

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        self._votes = taken.votes
        return taken

    async def _undo_at(self, lease_key: str, token: str, votes: tuple[Vote, ...]) -> dict[str, Vote]:
        everywhere = self._channels
        self._channels = [each for each in everywhere if self._votes.get(each.address.name) in votes]
        try:
            return await super()._undo(lease_key, token) if self._channels else {}
        finally:
            self._channels = everywhere


class LateSetNotUndone(RemembersVotes):
    """A node that did not answer in time is not asked to undo: its SET may still come."""

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        return await self._undo_at(key, token, ("yes", "no"))

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """The release itself is as always."""
        return ReleaseReport(await self._undo_at(lease.key, lease.token, ("yes", "no", "silent")))


class UnlockWhereAcquired(RemembersVotes):
    """Releases only at the nodes that had said yes by then."""

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """At some nodes."""
        return ReleaseReport(await self._undo_at(lease.key, lease.token, ("yes",)))


class ReleaseBeforeWrite(Redlock):
    """Asked once more before a write, it says yes, and gives the lock back already."""

    def believes(self, lease: Lease) -> bool:
        """Yes, and the end of it."""
        self._early = asyncio.ensure_future(self._undo(lease.key, lease.token))
        return super().believes(lease)


class TokenReused(Redlock):
    """The token is the machine's name, so that all clients there have the same."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._surroundings = replace(self._surroundings, new_token=lambda: "this-machine")


class TokenFromTime(Redlock):
    """The token is the time, which is the same for two clients at once: here in whole hours."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        hour_ns = 3600 * NS_PER_S
        self._surroundings = replace(
            self._surroundings, new_token=lambda: str((time.time_ns() + hour_ns // 2) // hour_ns)
        )


class TokenFromSeed(Redlock):
    """The token comes from a source of randomness that every client seeds alike."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        random = Random(1)
        self._surroundings = replace(self._surroundings, new_token=lambda: f"{random.getrandbits(160):040x}")
