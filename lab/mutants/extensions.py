"""Broken ways to extend a lease."""

from __future__ import annotations

from dataclasses import replace

from lab.channel import Channel
from lab.locks.base import Lease, LeaseLost
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import IF_OURS, Ask, Redlock, count_votes


class OtherExtend(Redlock):
    """Extends in a way of its own, and does not look whether its time is over."""

    async def _prolonged(self, lease: Lease, ttl_ns: int, ask: Ask) -> Lease:
        start_ns = self._surroundings.clock_ns()
        votes = await self._ask_all(ask, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            raise LeaseLost(f"{lease.key}: not held")
        deadline_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
        return replace(
            lease,
            ttl_ns=ttl_ns,
            deadline_ns=deadline_ns,
            extensions=lease.extensions + 1,
            attempt_ns=start_ns,
        )


class ExtendsAnybodys(OtherExtend):
    """PEXPIRE, whoever's key it is."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Without a look at the value."""

        async def prolong(channel: Channel) -> bool:
            return bool(await channel.call("PEXPIRE", lease.key, ttl_ns // NS_PER_MS))

        return await self._prolonged(lease, ttl_ns, prolong)


class ExtendReacquires(OtherExtend):
    """An extension that finds the key gone sets it again."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Take it again if need be."""

        async def retake(channel: Channel) -> bool:
            ttl_ms = ttl_ns // NS_PER_MS
            await channel.call("SET", lease.key, lease.token, "NX", "PX", ttl_ms)
            prolong = IF_OURS.format("redis.call('pexpire',KEYS[1],ARGV[2])")
            return bool(await channel.call("EVAL", prolong, 1, lease.key, lease.token, ttl_ms))

        return await self._prolonged(lease, ttl_ns, retake)


class ExtendsLocally(OtherExtend):
    """Looks whether the key is still its own, and prolongs it nowhere."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """GET, and no PEXPIRE."""

        async def look(channel: Channel) -> bool:
            held = await channel.call("GET", lease.key)
            return held is not None and held in (lease.token, lease.token.encode())

        return await self._prolonged(lease, ttl_ns, look)


class ExtendsInSeconds(OtherExtend):
    """PEXPIRE with a number of seconds: the keys are gone at once."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """The wrong unit."""

        async def prolong(channel: Channel) -> bool:
            script = IF_OURS.format("redis.call('pexpire',KEYS[1],ARGV[2])")
            return bool(await channel.call("EVAL", script, 1, lease.key, lease.token, ttl_ns // NS_PER_S))

        return await self._prolonged(lease, ttl_ns, prolong)


class ExtendOnMinority(Redlock):
    """Two of five nodes are enough to extend."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """With a smaller quorum."""
        self.quorum -= 1
        try:
            return await super().extend(lease, ttl_ns)
        finally:
            self.quorum += 1


class FailedExtensionBelieved(Redlock):
    """An extension that failed is taken for one that worked."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Whatever the nodes said."""
        start_ns = self._surroundings.clock_ns()
        try:
            return await super().extend(lease, ttl_ns)
        except LeaseLost:
            deadline_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
            return replace(lease, ttl_ns=ttl_ns, deadline_ns=deadline_ns, attempt_ns=start_ns)


class FailedExtensionReleases(Redlock):
    """An extension that failed deletes the keys, though the old deadline still stands."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """And if not, away with it."""
        try:
            return await super().extend(lease, ttl_ns)
        except LeaseLost:
            await self._undo(lease.key, lease.token)
            raise


class ExtensionAddsUp(Redlock):
    """An extension adds a TTL to the old deadline; the nodes count from now."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Old deadline plus TTL."""
        extended = await super().extend(lease, ttl_ns)
        return replace(extended, deadline_ns=lease.deadline_ns + ttl_ns)


class ExtensionFromReplies(Redlock):
    """An extension is counted from when the replies were in."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Now plus TTL."""
        extended = await super().extend(lease, ttl_ns)
        now_ns = self._surroundings.clock_ns()
        return replace(extended, deadline_ns=now_ns + ttl_ns - self.options.drift_ns(ttl_ns))
