"""Broken ways to ask several nodes: whom, how many of them, how often, and for how long."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lab.channel import Reply
from lab.locks.base import Lease, LeaseLost
from lab.locks.broken.releases import RemembersVotes
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import (
    UNLOCK_SCRIPT,
    Agrees,
    Command,
    Redlock,
    ReleaseReport,
    SequentialRedlock,
    Taken,
    Vote,
    count_votes,
)


class QuorumIsThree(Redlock):
    """Three nodes, however many there are: right for five, too few for six and more, and all of three."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.quorum = min(3, len(self._channels))


class QuorumIsTwo(Redlock):
    """Two nodes are enough, however many there are: right for three, too few for four and more."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.quorum = min(2, len(self._channels))


class QuorumIsHalf(Redlock):
    """Half of the nodes are enough, rounded up: right for an odd number, one too few for an even one."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self.quorum = (len(self._channels) + 1) // 2


class AddsUpTries(Redlock):
    """Goes on counting where the last try left off: two tries with two votes each make four."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Begin to count."""
        self._granted = 0
        return await super().acquire(key, ttl_ns)

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        self._granted += count_votes(taken.votes, "yes")
        if self._granted < self.quorum:
            return taken
        yes: dict[str, Vote] = dict.fromkeys(taken.votes, "yes")
        return replace(taken, votes=yes)


class UndoesLastTryOnly(Redlock):
    """Undoes what the last try left on the nodes; what the tries before it left blocks the later ones."""

    _pending: tuple[str, str] | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Undo when all tries have failed."""
        try:
            return await super().acquire(key, ttl_ns)
        finally:
            pending, self._pending = self._pending, None
            if pending is not None:
                await super()._undo(*pending)

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        self._pending = key, token
        return {}

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """The release itself is as always."""
        return ReleaseReport(await super()._undo(lease.key, lease.token))


class ExtendsAtReachable(Redlock):
    """An extension needs a majority of the nodes that answer, not of all."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """With a quorum of its own."""
        self._extending = True
        try:
            return await super().extend(lease, ttl_ns)
        finally:
            self._extending, self.quorum = False, len(self._channels) // 2 + 1

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        extending = getattr(self, "_extending", False)
        votes = await super()._ask_all(command, agrees, stop_early=stop_early and not extending)
        if extending:
            self.quorum = max(1, (len(votes) - count_votes(votes, "silent")) // 2 + 1)
        return votes


class ExtendsWhereGranted(RemembersVotes):
    """An extension is asked of the nodes that had said yes by the time of the grant, and of no others."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """At some nodes."""
        everywhere = self._channels
        self._channels = [each for each in everywhere if self._votes.get(each.address.name) == "yes"]
        try:
            return await super().extend(lease, ttl_ns)
        finally:
            self._channels = everywhere


class UndoesWhereGranted(RemembersVotes):
    """A failed attempt is undone at the nodes that said yes: one that was silent may have set the key."""

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        return await self._undo_at(key, token, ("yes",))

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """The release itself is as always."""
        return ReleaseReport(await self._undo_at(lease.key, lease.token, ("yes", "no", "silent")))


class ElapsedPerNode(SequentialRedlock):
    """Takes off the lease the time of the slowest reply, not the time that all of them took together."""

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        clock_ns, votes = self._surroundings.clock_ns, {}
        self._slowest_ns = 0
        for channel in self._channels:
            start_ns = clock_ns()
            votes[channel.address.name] = await self._ask(channel, command, agrees)
            self._slowest_ns = max(self._slowest_ns, clock_ns() - start_ns)
        return votes

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, int]:
        lease, reason, refused_by = await super()._attempt(key, token, ttl_ns)
        if lease is not None:
            left_ns = ttl_ns - self._slowest_ns - self.options.drift_ns(ttl_ns)
            lease = replace(lease, deadline_ns=self._surroundings.clock_ns() + left_ns)
        return lease, reason, refused_by


class ElapsedInWholeSeconds(Redlock):
    """Takes the time that the replies took off the lease in whole seconds, rounded down."""

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, int]:
        lease, reason, refused_by = await super()._attempt(key, token, ttl_ns)
        if lease is not None and lease.attempt_ns is not None:
            fraction_ns = (self._surroundings.clock_ns() - lease.attempt_ns) % NS_PER_S
            lease = replace(lease, deadline_ns=lease.deadline_ns + fraction_ns)
        return lease, reason, refused_by


class SamplesNodes(Redlock):
    """Asks three of the nodes, chosen at random, and is satisfied with two of those."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        everywhere, quorum = self._channels, self.quorum
        self._channels = self._surroundings.random.sample(everywhere, min(3, len(everywhere)))
        self.quorum = len(self._channels) // 2 + 1
        try:
            taken = await super()._take(key, token, ttl_ns)
        finally:
            self._channels, self.quorum = everywhere, quorum
        if count_votes(taken.votes, "yes") < len(taken.votes) // 2 + 1:
            return taken
        yes: dict[str, Vote] = {channel.address.name: "yes" for channel in everywhere}
        return replace(taken, votes=yes)


class TokenPerClient(Redlock):
    """The token is the client's: a second try while it holds the lock fails, and undoes the first grant."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        token = self._surroundings.new_token()
        self._surroundings = replace(self._surroundings, new_token=lambda: token)


class StopsAtFirstSilence(SequentialRedlock):
    """Asks one node after the other, and gives up with the first that does not answer."""

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        votes: dict[str, Vote] = {channel.address.name: "silent" for channel in self._channels}
        for channel in self._channels:
            votes[channel.address.name] = vote = await self._ask(channel, command, agrees)
            if stop_early and vote == "silent":
                break
        return votes


class GatherRaises(Redlock):
    """Asks with ``gather``: the error of one node that is away is what the caller of acquire gets."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        command = ("SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS)
        timeout_s = self.options.node_timeout_ns / NS_PER_S
        async with asyncio.timeout(timeout_s):
            replies = await asyncio.gather(*(channel.call(*command) for channel in self._channels))
        votes: dict[str, Vote] = {
            channel.address.name: "yes" if reply else "no"
            for channel, reply in zip(self._channels, replies, strict=True)
        }
        return Taken(votes)


class CannotReadSilence(Redlock):
    """Reads the reply of every node, also where there is none: a node that is silent is a TypeError."""

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """Add up the replies."""
        replies: dict[str, Reply] = {channel.address.name: None for channel in self._channels}
        command = ("EVAL", UNLOCK_SCRIPT, 1, lease.key, lease.token)
        posted = {channel.address.name: channel.post(*command) for channel in self._channels}
        done, _ = await asyncio.wait(posted.values(), timeout=self.options.node_timeout_ns / NS_PER_S)
        for name, reply in posted.items():
            if reply in done and reply.exception() is None:
                replies[name] = reply.result()
        if sum(replies.values()) == 0:
            return ReleaseReport(dict.fromkeys(replies, "no"))
        return ReleaseReport({name: "yes" if reply else "no" for name, reply in replies.items()})


class ReleaseWaitsForAll(Redlock):
    """A release waits for every node without a time-out: one lost reply makes it hang for ever."""

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """However long it takes."""
        command = ("EVAL", UNLOCK_SCRIPT, 1, lease.key, lease.token)
        posted = {channel.address.name: channel.post(*command) for channel in self._channels}
        await asyncio.wait(posted.values())
        votes: dict[str, Vote] = {
            name: "silent" if reply.exception() else "yes" if reply.result() else "no"
            for name, reply in posted.items()
        }
        return ReleaseReport(votes)


class DropsFailedNodes(Redlock):
    """A node that did not answer once is not asked again, and the quorum is one of those that are left."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._votes: dict[str, Vote] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Of the nodes that answered the last time, if any did."""
        there = [each for each in self._channels if self._votes.get(each.address.name) != "silent"]
        self._channels = there or self._channels
        self.quorum = len(self._channels) // 2 + 1
        return await super().acquire(key, ttl_ns)

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        self._votes = await super()._ask_all(command, agrees, stop_early=False)
        return self._votes


class FailedExtensionForgets(Redlock):
    """A lease whose extension failed is forgotten: its release sends nothing, wherever the keys are."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)  # type: ignore[arg-type]
        self._forgotten: set[str] = set()

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Forget it if that does not work."""
        try:
            return await super().extend(lease, ttl_ns)
        except LeaseLost:
            self._forgotten.add(lease.token)
            raise

    async def release(self, lease: Lease) -> None:
        """Only what is known."""
        if lease.token in self._forgotten:
            raise LeaseLost("not-held")
        await super().release(lease)


class NodesOfTheStart(Redlock):
    """Nodes that do not answer when it is opened are left out for good; the others make up the quorum."""

    async def open(self) -> None:
        """See who is there."""
        await super().open()
        votes = await self._ask_all(("PING",), bool, stop_early=False)
        self._channels = [each for each in self._channels if votes[each.address.name] == "yes"]
        self.quorum = len(self._channels) // 2 + 1
