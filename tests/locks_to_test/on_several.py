"""Locks on several nodes that are wrong in ways which none of the lab's own broken locks is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from lab.channel import NodeError, Reply
from lab.locks.base import BaseLock, Indeterminate, Lease, LockError, NotAcquired
from lab.locks.counter import counter_key
from lab.locks.fenced import FencedRedlock
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import (
    EXTEND_SCRIPT,
    UNLOCK_SCRIPT,
    Agrees,
    Command,
    Redlock,
    SequentialRedlock,
    Taken,
    Vote,
    count_votes,
)

SHORTEN_OR_PROLONG = """
if redis.call('get',KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire',KEYS[1],ARGV[2])
"""
SET_AND_COUNT = """
if not redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 0 end
return redis.call('incr',KEYS[2])
"""


class RefusedExtensionCounts(Redlock):
    """A node that answers has extended: also one whose script says that the key is not there."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        command = ("EVAL", EXTEND_SCRIPT, 1, lease.key, lease.token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, lambda _: True, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
        return self.options.extended(lease, ttl_ns, start_ns, self._surroundings.clock_ns())


class CountsFromReplies(Redlock):
    """A lease counts from when all had answered."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        late_ns = self._surroundings.clock_ns() + ttl_ns - self.options.drift_ns(ttl_ns)
        return replace(lease, deadline_ns=late_ns, attempt_ns=None)


class LeavesOutAtOpen(Redlock):
    """Nodes that refuse connections when it is opened are left out for good; of the others it takes most."""

    async def open(self) -> None:
        each = (channel.connect() for channel in self._channels)
        refused = await asyncio.gather(*each, return_exceptions=True)
        connected = [channel for channel, why in zip(self._channels, refused, strict=True) if why is None]
        self._channels = connected or self._channels
        self.quorum = len(self._channels) // 2 + 1


class ReleaseStops(Redlock):
    """Releases on one node after the other, and gives up at the first that does not answer."""

    async def release(self, lease: Lease) -> None:
        for channel in self._channels:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await channel.call("EVAL", UNLOCK_SCRIPT, 1, lease.key, lease.token)
            except (NodeError, TimeoutError) as error:
                raise Indeterminate(str(error)) from error


class UndoesAtTheEnd(Redlock):
    """Tries again without undoing the try before, and undoes all of them when it gives up."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        tokens: list[str] = []
        lease: Lease | None = None
        try:
            for attempt in range(self.options.retry_count):
                if attempt:
                    await asyncio.sleep(self.options.pause_ns(self._surroundings.random) / NS_PER_S)
                tokens.append(self._surroundings.new_token())
                if (lease := await self._tries(key, tokens[-1], ttl_ns)) is not None:
                    return lease
        finally:
            for token in tokens if lease is None else ():
                await self._undo(key, token)
        raise NotAcquired(f"{key}: no majority", tokens, refused_by=0)

    async def _tries(self, key: str, token: str, ttl_ns: int) -> Lease | None:
        start_ns = self._surroundings.clock_ns()
        taken = await self._take(key, token, ttl_ns)
        over_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
        in_time = self._surroundings.clock_ns() < over_ns
        if count_votes(taken.votes, "yes") < self.quorum or not in_time:
            return None
        return Lease(key, token, ttl_ns, over_ns, attempt_ns=start_ns)


class CountsFromFirstReply(SequentialRedlock):
    """A lease counts from when the first node has answered."""

    async def _ask_all(self, command: Command, agrees: Agrees, *, stop_early: bool) -> dict[str, Vote]:
        votes: dict[str, Vote] = {}
        for channel in self._channels:
            votes[channel.address.name] = await self._ask(channel, command, agrees)
            if len(votes) == 1:
                self._first_ns = self._surroundings.clock_ns()
        return votes

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        end_ns = self._first_ns + ttl_ns - self.options.drift_ns(ttl_ns)
        return replace(lease, deadline_ns=end_ns, attempt_ns=self._first_ns)


ADD = (
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end "
    "return redis.call('pexpire',KEYS[1],redis.call('pttl',KEYS[1])+ARGV[2])"
)


class AddsToWhatIsLeft(Redlock):
    """An extension adds its time to what each node's key has left; its client is told now plus that time."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        more_ms = self._added_ns(lease, ttl_ns, start_ns) // NS_PER_MS
        votes = await self._ask_all(("EVAL", ADD, 1, lease.key, lease.token, more_ms), bool, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
        return self.options.extended(lease, ttl_ns, start_ns, self._surroundings.clock_ns())

    def _added_ns(self, lease: Lease, ttl_ns: int, start_ns: int) -> int:
        return ttl_ns


class AddsTheDifference(AddsToWhatIsLeft):
    """An extension adds to each node's key what has passed since the last one: right if all got that."""

    def _added_ns(self, lease: Lease, ttl_ns: int, start_ns: int) -> int:
        return start_ns - (lease.attempt_ns or start_ns)


class UndoIsCancelled(SequentialRedlock):
    """Undoes a try that is cancelled, but not to its end if it was already undoing it, as it had failed."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        start_ns, token = self._surroundings.clock_ns(), self._surroundings.new_token()
        try:
            taken = await self._take(key, token, ttl_ns)
        except asyncio.CancelledError:
            await self._undo(key, token)
            raise
        over_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
        if count_votes(taken.votes, "yes") >= self.quorum and self._surroundings.clock_ns() < over_ns:
            return Lease(key, token, ttl_ns, over_ns, attempt_ns=start_ns)
        await self._undo(key, token)
        raise NotAcquired(f"{key}: no majority", [token], refused_by=count_votes(taken.votes, "no"))


class MarginOnTheKey(Redlock):
    """Takes the margin for clocks off what nodes are asked to keep as well, so that none is left."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        return await super()._take(key, token, ttl_ns - self.options.drift_ns(ttl_ns))


class OneAcquireAtATime(Redlock):
    """Clients' own acquires wait for each other; one that is cancelled keeps all later ones waiting."""

    _taking = False

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        while self._taking:
            await asyncio.sleep(0.02)
        self._taking = True
        try:
            lease = await super().acquire(key, ttl_ns)
        except LockError:
            self._taking = False
            raise
        self._taking = False
        return lease


class RemembersTheFirstTtl(Redlock):
    """A lease ends for its client as if it were as long as the first one of the key was."""

    _ttls_ns: dict[str, int] | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        self._ttls_ns = self._ttls_ns or {}
        first_ns = self._ttls_ns.setdefault(key, ttl_ns)
        return replace(lease, deadline_ns=lease.deadline_ns + first_ns - ttl_ns)


class ClaimsTheLater(Redlock):
    """An extension for less time than is left shortens the keys, and not what is claimed."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        command = ("EVAL", SHORTEN_OR_PROLONG, 1, lease.key, lease.token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, lambda reply: reply == 1, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
        extended = self.options.extended(lease, ttl_ns, start_ns, self._surroundings.clock_ns())
        return replace(extended, deadline_ns=max(lease.deadline_ns, extended.deadline_ns))


class HighestOfAnyMajority(FencedRedlock):
    """Each node counts for itself, and the highest number is the fence: other majorities have smaller."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        numbers: list[int] = []

        def is_granted(number: Reply) -> bool:
            if number > 0:
                numbers.append(int(number))
            return bool(number > 0)

        command = ("EVAL", SET_AND_COUNT, 2, key, counter_key(key), token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, is_granted, stop_early=True)
        return Taken(votes, max(numbers)) if count_votes(votes, "yes") >= self.quorum else Taken(votes)


class TakesBackBeside(BaseLock):
    """A failed try is taken back while the next one goes on, over connections of their own."""

    one_token: ClassVar[bool] = False
    PAUSE_S: ClassVar[float] = 0.06
    PATIENCE_S: ClassVar[float] = 0.2

    async def open(self) -> None:
        self._clients = [
            Redis(host=at.host, port=at.port, retry=Retry(NoBackoff(), 0), socket_timeout=self.PATIENCE_S)
            for at in self.addresses
        ]
        self._undoing: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        await asyncio.gather(*self._undoing, *(client.aclose() for client in self._clients))

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        tokens = [self.new_token()]
        for number in range(3):
            if number:
                await asyncio.sleep(self.PAUSE_S)
                tokens += [tokens[0] if self.one_token else self.new_token()]
            asked_ns = self.clock_ns()
            taken = await self._on_each("SET", key, tokens[-1], "NX", "PX", ttl_ns // NS_PER_MS)
            lease = self.lease(key, tokens[-1], ttl_ns, asked_ns)
            if sum(map(bool, taken)) > len(taken) // 2 and self.clock_ns() < lease.deadline_ns:
                return lease
            undo = asyncio.create_task(self._on_each("EVAL", UNLOCK_SCRIPT, 1, key, tokens[-1]))
            self._undoing.add(undo)
            undo.add_done_callback(self._undoing.discard)
        await undo
        raise NotAcquired("no majority", tokens)

    async def release(self, lease: Lease) -> None:
        await self._on_each("EVAL", UNLOCK_SCRIPT, 1, lease.key, lease.token)

    async def _on_each(self, *command: str | int) -> list[Any]:
        asked = (client.execute_command(*command) for client in self._clients)  # type: ignore[no-untyped-call]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return [None if isinstance(answer, BaseException) else answer for answer in answers]


class OneTokenForThreeTries(TakesBackBeside):
    """With one token for all of them, so that what takes back the first one deletes what a later one set."""

    one_token = True
