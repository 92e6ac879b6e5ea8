"""Broken ways to extend a lease."""

from __future__ import annotations

from dataclasses import replace

from lab.locks.base import Lease, LeaseLost
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import EXTEND_SCRIPT, IF_OURS, Agrees, Command, Redlock, count_votes


class OtherExtend(Redlock):
    """Extends in a way of its own, and does not look whether its time is over."""

    async def _prolonged(self, lease: Lease, ttl_ns: int, command: Command, agrees: Agrees = bool) -> Lease:
        start_ns = self._surroundings.clock_ns()
        votes = await self._ask_all(command, agrees, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
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
        return await self._prolonged(lease, ttl_ns, ("PEXPIRE", lease.key, ttl_ns // NS_PER_MS))


class ExtendReacquires(OtherExtend):
    """An extension that finds the key gone sets it again."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Take it again if need be."""
        script = f"redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) {EXTEND_SCRIPT}"
        command = ("EVAL", script, 1, lease.key, lease.token, ttl_ns // NS_PER_MS)
        return await self._prolonged(lease, ttl_ns, command)


class ExtendsLocally(OtherExtend):
    """Looks whether the key is still its own, and prolongs it nowhere."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """GET, and no PEXPIRE."""
        ours = (lease.token, lease.token.encode())
        return await self._prolonged(lease, ttl_ns, ("GET", lease.key), lambda reply: reply in ours)


class ExtendsInSeconds(OtherExtend):
    """PEXPIRE with a number of seconds: the keys are gone at once."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """The wrong unit."""
        script = IF_OURS.format("redis.call('pexpire',KEYS[1],ARGV[2])")
        command = ("EVAL", script, 1, lease.key, lease.token, ttl_ns // NS_PER_S)
        return await self._prolonged(lease, ttl_ns, command)


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
