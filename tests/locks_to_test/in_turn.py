"""Redlock written from scratch, asking one node after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Options, Surroundings
from lab.locks.options import read_options
from tests.locks_to_test.plain import GIVE_BACK, MS_NS, PROLONG, S_NS, PlainOptions


class InTurn:
    """Five nodes, one at a time, beginning with another one each time; a majority decides."""

    name: ClassVar[str] = "in-turn"
    hands_out_fences: ClassVar[bool] = False

    def __init__(self, channels: list[Channel], options: PlainOptions, around: Surroundings) -> None:
        self._channels, self.options, self._around = channels, options, around
        self._majority = len(channels) // 2 + 1
        self._first = 0

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        read = replace(PlainOptions(), node_timeout_ns=100 * MS_NS)
        if options:
            read = read_options(PlainOptions, options)
        timeout_s = read.node_timeout_ns / S_NS
        channels = [
            surroundings.channel(node, connect_timeout_s=timeout_s, stale_after_s=5.0, client_name=owner)
            for node in nodes
        ]
        return cls(channels, read, surroundings)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        return ttl_ns // 100 + 3 * MS_NS

    async def open(self) -> None:
        for channel in self._channels:
            with contextlib.suppress(NodeError):
                await channel.connect()

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        tokens: list[str] = []
        refused_by = len(self._channels)
        for attempt in range(self.options.retry_count):
            if attempt:
                share = 0.5 + self._around.random.random()
                await asyncio.sleep(share * self.options.retry_delay_ns / S_NS)
            tokens.append(self._around.new_token())
            start_ns = self._around.clock_ns()
            try:
                yes, no = await self._ask("SET", key, tokens[-1], "NX", "PX", ttl_ns // MS_NS)
                over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
                if yes >= self._majority and self._around.clock_ns() < over_ns:
                    return Lease(key, tokens[-1], ttl_ns, over_ns, attempt_ns=start_ns)
                await self._undo(key, tokens[-1])
            except asyncio.CancelledError:  # also half-way through undoing it
                await self._undo(key, tokens[-1])
                raise
            ruled_out = no > len(self._channels) - self._majority
            refused_by = min(refused_by, no if ruled_out else 0)
        raise NotAcquired(f"{key}: no majority", tokens, refused_by=refused_by)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._around.clock_ns()
        if start_ns >= lease.deadline_ns:
            raise LeaseLost(f"{lease.key}: over", no_effect=True)
        yes, _ = await self._ask("EVAL", PROLONG, 1, lease.key, lease.token, ttl_ns // MS_NS)
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        if yes < self._majority or self._around.clock_ns() >= min(over_ns, lease.deadline_ns):
            raise LeaseLost(f"{lease.key}: not extended by a majority in time")
        more = lease.extensions + 1
        return replace(lease, ttl_ns=ttl_ns, deadline_ns=over_ns, extensions=more, attempt_ns=start_ns)

    async def release(self, lease: Lease) -> None:
        yes, no = await self._undo(lease.key, lease.token)
        if yes >= self._majority:
            return
        if no > len(self._channels) - self._majority:
            raise LeaseLost("not-held")
        raise Indeterminate(f"{lease.key}: too few nodes answered the release")

    def believes(self, lease: Lease) -> bool:
        return self._around.clock_ns() < lease.deadline_ns

    async def _undo(self, key: str, token: str) -> tuple[int, int]:
        return await self._ask("EVAL", GIVE_BACK, 1, key, token)

    async def _ask(self, *command: str | int) -> tuple[int, int]:
        """Ask all nodes: how many said yes, and how many no."""
        answers: list[Any] = []
        self._first = (self._first + 1) % len(self._channels)
        for channel in self._channels[self._first :] + self._channels[: self._first]:
            with contextlib.suppress(NodeError, TimeoutError):
                # in Python 3.11.2, asyncio.timeout raises no TimeoutError in a task that has been cancelled
                timeout_s = self.options.node_timeout_ns / S_NS
                answers.append(await asyncio.wait_for(channel.call(*command), timeout_s))
        yes = sum(bool(answer) for answer in answers)
        return yes, len(answers) - yes


class ConnectsEachTime(InTurn):
    """The same with a connection of its own for each request, as a cancelled one ends a connection."""

    async def open(self) -> None:
        """There is nothing to connect yet."""

    async def _ask(self, *command: str | int) -> tuple[int, int]:
        answers: list[Any] = []
        for channel in self._channels:
            with contextlib.suppress(NodeError, TimeoutError):
                timeout_s = self.options.node_timeout_ns / S_NS
                answers.append(await asyncio.wait_for(self._on_its_own(channel, *command), timeout_s))
        yes = sum(bool(answer) for answer in answers)
        return yes, len(answers) - yes

    async def _on_its_own(self, channel: Channel, *command: str | int) -> Any:
        await channel.connect()
        try:
            return await channel.call(*command)
        finally:
            await channel.close()
