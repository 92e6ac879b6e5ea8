"""A correct lock on one Redis node: the building block of Redlock, and what Redlock is meant to improve."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from lab.channel import Channel, ErrorReply, NodeError
from lab.locks.base import Indeterminate, Lease, NotAcquired
from lab.locks.lease_options import NS_PER_MS, NS_PER_S, LeaseOptions
from lab.locks.leased import InOnePlace, OnRedis
from lab.locks.redlock import EXTEND_SCRIPT, UNLOCK_SCRIPT, look_away

T = TypeVar("T")
TAKEN = "another client holds it"


@dataclass(frozen=True, slots=True)
class SingleOptions(LeaseOptions):
    """``LeaseOptions`` with a longer time-out, since there is no other node."""

    node_timeout_ns: int = 500 * NS_PER_MS


class NotSent(NodeError):
    """The node certainly did not execute it: it could not be reached, or it refused the command."""


class Single(OnRedis[SingleOptions], InOnePlace[SingleOptions]):
    """One node, ``SET key token NX PX ttl``; released and extended by scripts that compare the token first.

    Source: "Distributed Locks with Redis", section "Correct implementation with a single instance".

    It promises mutual exclusion and freedom from deadlock while the node keeps its data and its clock runs at
    the client's rate. A node that restarts without its data, or whose clock jumps, grants the lock to two
    clients; while the node is down no client gets it. No fence: a client that is paused after it got the lock
    may write when its lease has ended.
    """

    name: ClassVar[str] = "single"
    OPTIONS = SingleOptions
    nodes_used: ClassVar[int | None] = 1
    extend_script: ClassVar[str] = EXTEND_SCRIPT
    unlock_script: ClassVar[str] = UNLOCK_SCRIPT

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try up to ``retry_count`` times, each time with a token of its own.

        Raises:
            NotAcquired: another client held it, the node could not be reached, or the reply came too late.
            Indeterminate: a SET was sent that was never answered.
        """
        return await self._tries(key, ttl_ns, self._new_token)

    async def _tries(self, key: str, ttl_ns: int, new_token: Callable[[], str]) -> Lease:
        clock_ns = self._surroundings.clock_ns
        give_up_ns = clock_ns() + self.options.acquire_timeout_ns
        tokens: list[str] = []
        reason = doubt = ""
        refused = True
        for attempt in range(self.options.retry_count):
            if attempt:
                pause_ns = self.options.pause_ns(self._surroundings.random)
                if clock_ns() + pause_ns >= give_up_ns:
                    break
                await asyncio.sleep(pause_ns / NS_PER_S)
            token = new_token()
            tokens.append(token)
            try:
                lease, reason = await self._attempt(key, token, ttl_ns)
            except NodeError as error:
                doubt = str(error)
                await self._undo(key, token)
                continue
            except asyncio.CancelledError:
                await self._undo(key, token)
                raise
            if lease is not None:
                return lease
            refused = refused and reason == TAKEN
        if doubt:
            raise Indeterminate(f"{key}: {doubt}")
        raise NotAcquired(f"{key}: {reason} ({len(tokens)} tries)", tokens, refused_by=int(refused))

    async def _attempt(self, key: str, token: str, ttl_ns: int) -> tuple[Lease | None, str]:
        start_ns = self._surroundings.clock_ns()
        try:
            granted = await self._set(key, token, ttl_ns)
        except NotSent as error:
            return None, str(error)
        if not granted:
            return None, TAKEN
        deadline_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
        if self._surroundings.clock_ns() >= deadline_ns:
            await self._undo(key, token)
            return None, "it was granted, but too late: no time was left"
        return Lease(key, token, ttl_ns, deadline_ns, attempt_ns=start_ns), ""

    # The methods that subclasses with mistakes override.

    def _new_token(self) -> str:
        return self._surroundings.new_token()

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // NS_PER_MS) is not None

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return bool(
            await self._call("EVAL", self.extend_script, 1, lease.key, lease.token, ttl_ns // NS_PER_MS)
        )

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._call("EVAL", self.unlock_script, 1, lease.key, lease.token))

    async def _undo(self, key: str, token: str) -> None:
        """Undo a SET that may have been executed, or may still be: this follows it on the same connection."""
        with contextlib.suppress(NodeError):
            await self._call("EVAL", self.unlock_script, 1, key, token)

    async def _node(self) -> Channel:
        """A connected channel to the node. Raises ``NotSent``."""
        channel = self._channels[0]
        try:
            await self._in_time(channel.connect())
        except NodeError as error:
            raise NotSent(str(error)) from error
        return channel

    async def _call(self, *arguments: str | int) -> Any:
        """Send one command and wait for its reply.

        Raises:
            NotSent: it certainly had no effect.
            NodeError: it is unknown whether it had an effect.
        """
        channel = await self._node()
        try:
            return await self._in_time(self._send(channel, *arguments))
        except NodeError as error:
            if isinstance(error.__cause__, ErrorReply):
                raise NotSent(str(error)) from error
            raise

    def _send(self, channel: Channel, *arguments: str | int) -> Awaitable[Any]:
        return channel.call(*arguments)

    async def _in_time(self, call: Awaitable[T]) -> T:
        """Wait for ``node_timeout``; a command that was sent may still arrive. Raises ``NodeError``."""
        task = asyncio.ensure_future(call)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._timeout_s)
        finally:
            if not task.done():
                task.add_done_callback(look_away)
        if not done:
            raise NodeError(f"no answer after {self.options.node_timeout_ns / NS_PER_MS:.0f} ms")
        return task.result()
