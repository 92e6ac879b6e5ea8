"""Broken Redlocks, each one line away from the real one. The lab must catch every one of them."""

from __future__ import annotations

from dataclasses import replace

from lab.locks.base import Lease
from lab.locks.redlock import Redlock


class NoElapsedCheck(Redlock):
    """Never looks at the clock again after the replies: a lease that is over is returned as granted."""

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, bool]:
        start_ns = self._surroundings.clock_ns()
        taken = await self._take(key, token, ttl_ns)
        granted = sum(1 for vote in taken.votes.values() if vote == "yes")
        if granted < self.quorum:
            await self._undo(key, token)
            return None, "no majority", False
        return (
            Lease(key, token, ttl_ns, self._surroundings.clock_ns() + ttl_ns, attempt_ns=start_ns),
            "",
            False,
        )


class QuorumOffByOne(Redlock):
    """Two of five are enough."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.quorum -= 1


class BareDelete(Redlock):
    """Releases with DEL, whoever's key it is."""

    async def release(self, lease: Lease) -> None:
        for channel in self._channels:
            await channel.call("DEL", lease.key)


class ExtendReacquires(Redlock):
    """An extension that finds the key missing sets it again."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        for channel in self._channels:
            await channel.call("SET", lease.key, lease.token, "PX", ttl_ns // 1_000_000, "NX")
        held = replace(lease, deadline_ns=self._surroundings.clock_ns() + ttl_ns)
        return await super().extend(held, ttl_ns)
