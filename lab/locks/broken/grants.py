"""Broken ways to decide whether the lock was granted, and for how long."""

from __future__ import annotations

import time
from dataclasses import replace

from lab.locks.base import Lease, Options
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import Agrees, Command, Redlock, SequentialRedlock, Taken, Vote, count_votes


class QuorumOffByOne(Redlock):
    """Two of five nodes are enough."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.quorum -= 1


class QuorumOfReachable(Redlock):
    """A majority of the nodes that answered is enough."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        self.quorum = len(self._channels) // 2 + 1
        taken = await super()._take(key, token, ttl_ns)
        self.quorum = (len(taken.votes) - count_votes(taken.votes, "silent")) // 2 + 1
        return taken


class CountsAs(Redlock):
    """Takes one kind of vote for another."""

    mistaken: Vote = "silent"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        votes: dict[str, Vote] = {n: "yes" if v == self.mistaken else v for n, v in taken.votes.items()}
        return replace(taken, votes=votes)


class CountsSilence(CountsAs):
    """A node that does not answer will have set the key."""


class CountsRefusals(CountsAs):
    """Any reply is a yes: the reply itself is not looked at."""

    mistaken: Vote = "no"


class OtherSet(Redlock):
    """Sets the key by another command."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        command = self.command(key, token, ttl_ns)
        return Taken(await self._ask_all(command, lambda reply: reply is not None, stop_early=True))

    def command(self, key: str, token: str, ttl_ns: int) -> tuple[str | int, ...]:
        """The command that is sent instead."""
        raise NotImplementedError


class SetWithoutNx(OtherSet):
    """SET without NX: whoever comes last has the key."""

    def command(self, key: str, token: str, ttl_ns: int) -> tuple[str | int, ...]:
        """Without NX."""
        return "SET", key, token, "PX", ttl_ns // NS_PER_MS


class SetWithoutExpiry(OtherSet):
    """SET without PX: the key of a client that dies stays for ever."""

    def command(self, key: str, token: str, ttl_ns: int) -> tuple[str | int, ...]:
        """Without PX."""
        return "SET", key, token, "NX"


class SecondsForMilliseconds(OtherSet):
    """EX with a number of milliseconds: keys stay a thousand times as long."""

    def command(self, key: str, token: str, ttl_ns: int) -> tuple[str | int, ...]:
        """EX for PX."""
        return "SET", key, token, "NX", "EX", ttl_ns // NS_PER_MS


class ShortKeys(OtherSet):
    """The nodes keep the key for half of the time that the client is told."""

    def command(self, key: str, token: str, ttl_ns: int) -> tuple[str | int, ...]:
        """Half the TTL."""
        return "SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS // 2


class NoElapsedCheck(Redlock):
    """Does not measure how long it took: a lease that is over is returned as granted just now."""

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, int]:
        start_ns = self._surroundings.clock_ns()
        taken = await self._take(key, token, ttl_ns)
        if count_votes(taken.votes, "yes") < self.quorum:
            await self._undo(key, token)
            return None, "no majority", 0
        deadline_ns = self._surroundings.clock_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
        return Lease(key, token, ttl_ns, deadline_ns, attempt_ns=start_ns), "", 0


class CountsFromReplies(Redlock):
    """The lease is counted from when the replies were in, not from before the requests."""

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, int]:
        lease, reason, refused_by = await super()._attempt(key, token, ttl_ns)
        if lease is not None:
            over_ns = self._surroundings.clock_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
            lease = replace(lease, deadline_ns=over_ns)
        return lease, reason, refused_by


class WallClock(Redlock):
    """Measures by the wall clock, which somebody may step, how much of a lease is left."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._monotonic_ns = self._surroundings.clock_ns
        self._surroundings = replace(self._surroundings, clock_ns=time.time_ns)

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, int]:
        began_ns = self._monotonic_ns()
        lease, reason, refused_by = await super()._attempt(key, token, ttl_ns)
        if lease is not None:
            left_ns = lease.deadline_ns - self._surroundings.clock_ns()
            lease = replace(lease, attempt_ns=began_ns, deadline_ns=self._monotonic_ns() + left_ns)
        return lease, reason, refused_by

    def believes(self, lease: Lease) -> bool:
        """The deadline itself was told by another clock."""
        return self._monotonic_ns() < lease.deadline_ns


class NoDriftMargin(Redlock):
    """Keeps no margin for clocks that run at different rates."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.options = replace(self.options, drift_factor=0.0, drift_constant_ns=0)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """None."""
        return 0


def wait_for_nodes(lock: Redlock, timeout_ns: int) -> None:
    """Let a lock wait so long for each node, for its connection as for its replies."""
    lock.options = replace(lock.options, node_timeout_ns=timeout_ns)
    for channel in lock._channels:
        channel._connect_timeout_s = timeout_ns / NS_PER_S


class TimeoutOfTtl(SequentialRedlock):
    """Waits for each node as long as a lease lasts, and asks them one after the other."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """As always, with another time-out."""
        wait_for_nodes(self, ttl_ns)
        return await super().acquire(key, ttl_ns)


class WaitsForAll(Redlock):
    """Waits for the replies of all nodes, each for as long as a lease lasts."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """As always, with another time-out."""
        wait_for_nodes(self, ttl_ns)
        return await super().acquire(key, ttl_ns)

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        return await super()._ask_all(command, agrees, stop_early=False)


class NeedsAllNodes(Redlock):
    """All nodes must say yes, so one that is away is one too many."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.quorum = len(self._channels)


class StopsAtMajority(SequentialRedlock):
    """Asks one node after the other, and asks no more nodes once a majority has said yes."""

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        votes: dict[str, Vote] = {channel.address.name: "silent" for channel in self._channels}
        for channel in self._channels:
            votes[channel.address.name] = await self._ask(channel, command, agrees)
            if stop_early and count_votes(votes, "yes") >= self.quorum:
                break
        return votes


class BelievesForEver(Redlock):
    """Says that a lease is held without looking at the clock."""

    def believes(self, lease: Lease) -> bool:
        """Yes."""
        return True


class BelievesByWallClock(Redlock):
    """Asked whether a lease is still held, it looks at the wall clock."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._apart_ns = self._surroundings.clock_ns() - time.time_ns()

    def believes(self, lease: Lease) -> bool:
        """Whether the deadline has passed on the wall."""
        return time.time_ns() + self._apart_ns < lease.deadline_ns
