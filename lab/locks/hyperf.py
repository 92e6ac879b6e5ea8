"""The Redlock of a PHP package that a text about Redlock describes, reimplemented from its source."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from lab.channel import Channel, NodeError, Reply
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.leased import OnRedis
from lab.locks.redlock import UNLOCK_SCRIPT


@dataclass(frozen=True, slots=True)
class HyperfOptions:
    """The defaults are the library's, and for the time-out those of its connections (PHP's, for reads).

    ``retry_count`` is the total number of tries; the delay between two is drawn from half ``retry_delay_ns``
    to all of it. ``drift_factor``·TTL + 2 ms is the margin. Durations are in nanoseconds.
    """

    node_timeout_ns: int = 60 * NS_PER_S
    retry_count: int = 2
    retry_delay_ns: int = 200 * NS_PER_MS
    drift_factor: float = 0.01

    def __post_init__(self) -> None:
        if self.retry_count < 1:
            raise ValueError("retry_count is the number of tries: at least 1")

    def drift_ns(self, ttl_ns: int) -> int:
        """The margin for clock drift, in nanoseconds."""
        return int(ttl_ns * self.drift_factor) + 2 * NS_PER_MS


class HyperfRedlock(OnRedis[HyperfOptions]):
    """Redlock as ``zonghay/redlock-hyperf`` implements it, for the Hyperf framework.

    Source: the package's ``src/RedLock.php`` of March 2021, the version that the text "Implementation of
    redis based distributed lock algorithm redlock and redlock hyperf" describes; and ``hyperf/redis`` 2.1,
    whose connections it uses. Nothing is copied: this is the same algorithm, reimplemented.

    It sends to one node after the other, as the algorithm's page says, and reads the clock after the last
    reply. It differs from that page, and from the text that describes it, in this:

    - **The quorum is N/2 + 1 in floating point**, at most N: 3.5 for five nodes, so four must grant it where
      the text says three. For an even N it is the usual majority. A larger quorum makes the lock safer and
      less available: with five nodes it tolerates one refusal, not two.
    - **The elapsed time is the difference of two readings of the wall clock.** A clock that steps back in
      between makes the validity longer than the TTL.
    - **An error of a node ends the attempt with an exception**, after the connection has tried the command
      once more; keys that other nodes have granted stay there until they expire, and so do those of a release
      that was interrupted. One node that is down is enough.
    - **All tries of one call share one token.**
    - A release ignores the replies of the nodes, and there is no extension, no check whether a lease is held,
      and no fence. The caller gets the validity, which counts from the return of the call.

    The wall clock is always the system's, not that of the surroundings.
    """

    name: ClassVar[str] = "redlock-hyperf"
    extends: ClassVar[bool] = False
    OPTIONS = HyperfOptions

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.quorum = min(float(len(self._nodes)), len(self._nodes) / 2 + 1)
        """How many nodes must grant it, at least; not always a whole number."""

    def _stale_after_s(self) -> float:
        return math.inf

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try up to ``retry_count`` times, with one token for all of them.

        Raises:
            NotAcquired: fewer than ``quorum`` nodes granted it, or no time was left by the wall clock.
            Indeterminate: a node could not be asked. Nothing is undone.
        """
        token = self._surroundings.new_token()
        reason, refused_by = "", len(self._channels)
        for attempt in range(self.options.retry_count):
            if attempt:
                share = self._surroundings.random.uniform(0.5, 1)
                await asyncio.sleep(share * self.options.retry_delay_ns / NS_PER_S)
            attempt_ns, wall_ns = self._surroundings.clock_ns(), time.time_ns()
            granted = 0
            for channel in self._channels:
                reply = await self._call(channel, "SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS)
                granted += reply is not None
            validity_ns = ttl_ns - (time.time_ns() - wall_ns) - self.options.drift_ns(ttl_ns)
            if granted >= self.quorum and validity_ns > 0:
                deadline_ns = self._surroundings.clock_ns() + validity_ns
                return Lease(key, token, ttl_ns, deadline_ns, attempt_ns=attempt_ns)
            outvoted = granted < self.quorum
            reason = (
                f"{granted} of {len(self._channels)} nodes granted it, {self.quorum:g} are needed"
                if outvoted
                else "enough nodes granted it, but by the wall clock no time was left"
            )
            refused_by = min(refused_by, len(self._channels) - granted if outvoted else 0)
            await self._unlock(key, token)
        raise NotAcquired(
            f"{key}: {reason} ({self.options.retry_count} tries)", [token], refused_by=refused_by
        )

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Raise ``LeaseLost``: the library has no extension."""
        raise LeaseLost(f"{lease.key}: {self.name} has no extension")

    async def release(self, lease: Lease) -> None:
        """Delete the key on one node after the other, without a look at their replies.

        Raises:
            Indeterminate: a node could not be asked; those after it were not.
        """
        await self._unlock(lease.key, lease.token)

    async def _unlock(self, key: str, token: str) -> None:
        for channel in self._channels:
            await self._call(channel, "EVAL", UNLOCK_SCRIPT, 1, key, token)

    async def _call(self, channel: Channel, *command: str | int) -> Reply:
        """Send a command, and once more on a new connection if it fails. Raises ``Indeterminate``."""
        try:
            return await self._ask(channel, command)
        except NodeError:
            await channel.close()
        try:
            return await self._ask(channel, command)
        except NodeError as error:
            await channel.close()
            raise Indeterminate(f"an exception: {error}") from error

    async def _ask(self, channel: Channel, command: tuple[str | int, ...]) -> Reply:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await channel.call(*command)
        except TimeoutError as error:
            raise NodeError(f"{channel.address.name}: no answer within {self._timeout_s:g} s") from error
