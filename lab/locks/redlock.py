"""Redlock: a lock on a majority of independent Redis nodes.

The algorithm is the one of "Distributed Locks with Redis" (redis.io): the same ``SET key token NX PX ttl``
on all N nodes, held only if a majority granted it and time is left *after* their replies; otherwise it is
undone on every node, also on those that seemed to refuse. This lab tests what it promises, and under which
assumptions.

As a library::

    async with Redlock(["127.0.0.1:7000", ...]).lock("invoice-17", ttl=10) as held:
        ...                       # held.valid, held.remaining_s, await held.extend()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from lab.addresses import Address
from lab.channel import Channel, NodeError, Reply
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Surroundings
from lab.locks.held import HeldLock
from lab.locks.lease_options import NS_PER_MS, NS_PER_S, LeaseOptions
from lab.locks.leased import OnRedis

IF_OURS = "if redis.call('get',KEYS[1])==ARGV[1] then return {} else return 0 end"
UNLOCK_SCRIPT = IF_OURS.format("redis.call('del',KEYS[1])")
EXTEND_SCRIPT = (
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end "
    "if redis.call('pttl',KEYS[1])<=tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end "
    "return 1"
)
"""Make the client's own key last at least so long; never shorter, since a delayed one may come last."""

Vote = Literal["yes", "no", "silent"]
Command = tuple[str | int, ...]
Agrees = Callable[[Reply], bool]
"""Whether a node's reply to a command is a yes."""


@dataclass(frozen=True, slots=True)
class RedlockOptions(LeaseOptions):
    """``LeaseOptions``, and the ``quorum``: how many nodes must grant it; 0 means a majority."""

    quorum: int = 0


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    """The replies to a release: ``yes`` deleted, ``no`` not ours (any more), ``silent`` no reply."""

    votes: dict[str, Vote]

    def count(self, vote: Vote) -> int:
        """How many nodes voted so."""
        return count_votes(self.votes, vote)


@dataclass(frozen=True, slots=True)
class Taken:
    """The votes of all nodes on the key, and the fence, for locks that have one.

    ``obstacle``: why the grant does not count although a majority voted yes.
    """

    votes: dict[str, Vote]
    fence: int | None = None
    obstacle: str = ""


class Redlock(OnRedis[RedlockOptions]):
    """The full algorithm, with requests to all nodes at once. For the arguments see ``Leased``."""

    name: ClassVar[str] = "redlock"
    OPTIONS = RedlockOptions

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: RedlockOptions | None = None,
        surroundings: Surroundings | None = None,
        owner: str | None = None,
    ) -> None:
        super().__init__(nodes, options, surroundings, owner)
        self.quorum = self.options.quorum or len(self._channels) // 2 + 1
        self._users = 0

    async def open(self) -> None:
        """Connect to every node that can be reached; the others are tried again when they are needed."""
        self._users += 1
        await super().open()

    async def close(self) -> None:
        """Close all connections, once ``close`` was called as often as ``open``."""
        self._users -= 1
        if self._users <= 0:
            await super().close()

    def lock(self, key: str, ttl: float = 10.0, *, watchdog: bool = False) -> HeldLock:
        """A context manager that holds ``key`` for ``ttl`` seconds.

        With ``watchdog`` the lease is extended in the background, as often as ``max_extensions`` allows, and
        ``held.lost`` is set when that fails. Entering raises ``NotAcquired``.
        """
        return HeldLock(
            self, key, round(ttl * NS_PER_S), watchdog=watchdog, clock_ns=self._surroundings.clock_ns
        )

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try up to ``retry_count`` times, each time with a token of its own.

        Raises:
            NotAcquired: no majority, or no time left after the majority's replies.
        """
        clock_ns = self._surroundings.clock_ns
        give_up_ns = clock_ns() + self.options.acquire_timeout_ns
        tokens: list[str] = []
        reason, refusals = "", len(self._channels)
        for attempt in range(self.options.retry_count):
            if attempt:
                pause_ns = self.options.pause_ns(self._surroundings.random)
                if clock_ns() + pause_ns >= give_up_ns:
                    break
                await asyncio.sleep(pause_ns / NS_PER_S)
            token = self._surroundings.new_token()
            tokens.append(token)
            try:
                lease, reason, refused_by = await self._attempt(key, token, ttl_ns)
            except asyncio.CancelledError:
                await self._undo(key, token)
                raise
            if lease is not None:
                return lease
            refusals = min(refusals, refused_by)
        raise NotAcquired(f"{key}: {reason} ({len(tokens)} tries)", tokens, refused_by=refusals)

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str, int]:
        """One attempt: the lease; or why there is none, and how many nodes refused, if that ruled it out."""
        start_ns = self._surroundings.clock_ns()
        taken = await self._take(key, token, ttl_ns)
        elapsed_ns = self._surroundings.clock_ns() - start_ns  # after the replies
        validity_ns = ttl_ns - elapsed_ns - self.options.drift_ns(ttl_ns)
        granted = count_votes(taken.votes, "yes")
        if granted < self.quorum:
            reason = f"{granted} of {len(taken.votes)} nodes granted it, {self.quorum} are needed"
        elif taken.obstacle:
            reason = f"a majority granted it, but {taken.obstacle}"
        elif validity_ns <= 0:
            reason = f"a majority granted it, but after {elapsed_ns / NS_PER_MS:.0f} ms no time was left"
        else:
            deadline_ns = start_ns + elapsed_ns + validity_ns
            return Lease(key, token, ttl_ns, deadline_ns, taken.fence, attempt_ns=start_ns), "", 0
        await self._undo(key, token)
        refusals = count_votes(taken.votes, "no")
        return None, reason, refusals if len(taken.votes) - refusals < self.quorum else 0

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        """Ask all nodes for the key. A lock with fences gets its fence here too."""
        command = ("SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS)
        return Taken(await self._ask_all(command, _is_set, stop_early=True))

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Make a majority keep the key for ``ttl_ns`` from now on.

        Only inside the remaining validity, with the clock read after the replies as well, and at most
        ``max_extensions`` times. After a failure the earlier deadline remains. No node shortens the time for
        which it keeps the key, so a delayed extension does not undo a later one.

        Raises:
            LeaseLost: too late, too often, or no majority still held the key. It had no effect if so many
                nodes refused that the others are no quorum and cannot keep other clients from one.
        """
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        command = ("EVAL", EXTEND_SCRIPT, 1, lease.key, lease.token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, bool, stop_early=True)
        now_ns = self._surroundings.clock_ns()  # after the replies
        granted = count_votes(votes, "yes")
        if granted < self.quorum:
            raise self._not_extended(lease, votes)
        return self.options.extended(lease, ttl_ns, start_ns, now_ns)

    def _not_extended(self, lease: Lease, votes: dict[str, Vote]) -> LeaseLost:
        """The error of an extension without a quorum; a node without a reply may still execute it."""
        granted, refused = count_votes(votes, "yes"), count_votes(votes, "no")
        return LeaseLost(
            f"{lease.key}: {granted} of {len(votes)} nodes extended it, {self.quorum} are needed",
            no_effect=len(votes) - refused < self.quorum <= refused,
        )

    async def release(self, lease: Lease) -> None:
        """Delete the key on all nodes.

        Raises:
            LeaseLost: a majority no longer held it for this client.
            Indeterminate: too few nodes replied to decide.
        """
        report = await self.release_report(lease)
        if report.count("yes") >= self.quorum:
            return
        if report.count("no") > len(self._channels) - self.quorum:
            raise LeaseLost("not-held")
        raise Indeterminate(f"{lease.key}: {report.count('silent')} nodes did not answer the release")

    async def release_report(self, lease: Lease) -> ReleaseReport:
        """Delete the key on all nodes and return their votes; never raises for a node."""
        return ReleaseReport(await self._undo(lease.key, lease.token))

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        """Unlock every node, also those that seemed to refuse or did not reply."""
        return await self._ask_all(("EVAL", UNLOCK_SCRIPT, 1, key, token), bool, stop_early=False)

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        """Send to all nodes at once and collect votes until the per-node time-out.

        With ``stop_early`` the wait ends as soon as the outcome is certain. Commands already sent may still
        arrive; later ones on the same channel follow them in order.
        """
        votes: dict[str, Vote] = {channel.address.name: "silent" for channel in self._channels}
        granted, pending = 0, len(self._channels)
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def hear(name: str, reply: Reply | NodeError) -> None:
            nonlocal granted, pending
            pending -= 1
            try:
                votes[name] = vote = _vote(reply, agrees)
            except Exception as error:  # noqa: BLE001 - it is raised where the votes are waited for
                if not over.done():
                    over.set_exception(error)
                return
            granted += vote == "yes"
            if not over.done() and (not pending or (stop_early and self._is_decided(granted, pending))):
                over.set_result(None)

        for channel in self._channels:
            channel.send(partial(hear, channel.address.name), *command)
        timer = loop.call_later(self.options.node_timeout_ns / NS_PER_S, _end, over)
        try:
            await over
        finally:
            timer.cancel()
        return votes.copy()  # later replies do not count

    def _is_decided(self, granted: int, pending: int) -> bool:
        return granted >= self.quorum or granted + pending < self.quorum


class SequentialRedlock(Redlock):
    """The same with requests to one node after the other, as step 2 of the algorithm's text says.

    All N nodes are asked, also after a majority has granted it: a lease on only a majority would be lost with
    the first of these nodes that loses its key. It is slower than requests to all nodes at once, and the
    window in which clients split the vote is larger.
    """

    name: ClassVar[str] = "redlock-sequential"

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        return {channel.address.name: await self._ask(channel, command, agrees) for channel in self._channels}

    async def _ask(self, channel: Channel, command: Command, agrees: Agrees) -> Vote:
        """Send to one node, and wait for its reply until the per-node time-out."""
        reply = channel.post(*command)
        done, _ = await asyncio.wait({reply}, timeout=self.options.node_timeout_ns / NS_PER_S)
        if done:
            return _vote(reply.exception() or reply.result(), agrees)
        reply.add_done_callback(look_away)
        return "silent"


def _is_set(reply: Reply) -> bool:
    return reply is not None


def count_votes(votes: dict[str, Vote], vote: Vote) -> int:
    """How many nodes voted so."""
    return list(votes.values()).count(vote)


def _vote(reply: Reply | BaseException, agrees: Agrees) -> Vote:
    if isinstance(reply, NodeError):
        return "silent"
    if isinstance(reply, BaseException):
        raise reply
    return "yes" if agrees(reply) else "no"


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def look_away(reply: asyncio.Future[Any]) -> None:
    """Ignore a reply that comes too late."""
    if not reply.cancelled():
        reply.exception()  # marks it as retrieved, so that asyncio does not log it
