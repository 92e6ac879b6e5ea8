"""A lock on one node, written from scratch: what the other locks here are made of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from typing import Any, ClassVar, Self

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Options, Surroundings
from lab.locks.options import read_options

MS_NS = 1_000_000
S_NS = 1_000_000_000
TAKE = "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 else return 0 end"
PROLONG = """
if redis.call('get',KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl',KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end
return 1
"""
GIVE_BACK = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


@dataclass(frozen=True, slots=True)
class PlainOptions:
    """How long a node may take to answer, how often is tried, how long a lock that waits waits."""

    node_timeout_ns: int = 500 * MS_NS
    retry_count: int = 3
    retry_delay_ns: int = 200 * MS_NS
    wait_ns: int = 4 * S_NS


class Plain:
    """Everything by EVALSHA, with the script itself where the node does not know it (any more)."""

    name: ClassVar[str] = "plain"
    hands_out_fences: ClassVar[bool] = False

    def __init__(self, node: Address, options: PlainOptions, around: Surroundings, owner: str) -> None:
        self.options, self._around, self._node, self._owner = options, around, node, owner
        self._timeout_s = options.node_timeout_ns / S_NS
        self._channel = self._connection()

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        return cls(nodes[0], read_options(PlainOptions, options), surroundings, owner)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        return ttl_ns // 50 + MS_NS

    def _connection(self) -> Channel:
        return self._around.channel(
            self._node, connect_timeout_s=self._timeout_s, stale_after_s=5.0, client_name=self._owner
        )

    async def open(self) -> None:
        with contextlib.suppress(NodeError):
            await self._channel.connect()

    async def close(self) -> None:
        await self._channel.close()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        tokens: list[str] = []
        silent = False
        for attempt in range(self.options.retry_count):
            if attempt:
                await self._pause()
            tokens.append(self._new_token())
            start_ns = self._around.clock_ns()
            try:
                lease = await self._try(key, tokens[-1], ttl_ns, start_ns)
            except NodeError:
                silent = True
                await self._undo(key, tokens[-1])
                continue
            except asyncio.CancelledError:
                await self._undo(key, tokens[-1])
                raise
            if lease is not None and self.believes(lease):
                return lease
            if lease is not None:
                await self._undo(key, tokens[-1])
        if silent:
            raise Indeterminate(f"{key}: a request was not answered")
        raise NotAcquired(f"{key}: taken", tokens)

    def _new_token(self) -> str:
        return self._around.new_token()

    async def _pause(self) -> None:
        share = 0.5 + self._around.random.random()
        await asyncio.sleep(share * self.options.retry_delay_ns / S_NS)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._around.clock_ns()
        if start_ns >= lease.deadline_ns:
            raise LeaseLost(f"{lease.key}: over", no_effect=True)
        try:
            prolonged = await self._prolong(lease, ttl_ns)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not prolonged:
            raise LeaseLost(f"{lease.key}: not ours", no_effect=True)
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        if self._around.clock_ns() >= min(over_ns, lease.deadline_ns):
            raise LeaseLost(f"{lease.key}: extended too late")
        return replace(
            lease,
            ttl_ns=ttl_ns,
            deadline_ns=over_ns,
            extensions=lease.extensions + 1,
            attempt_ns=start_ns,
        )

    async def release(self, lease: Lease) -> None:
        try:
            deleted = await self._give_back(lease)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not deleted:
            raise LeaseLost("not-held")

    def believes(self, lease: Lease) -> bool:
        return self._around.clock_ns() < lease.deadline_ns

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        """Ask once. Raises ``NodeError``: not known."""
        if not await self._take(key, token, ttl_ns):
            return None
        return Lease(key, token, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}), attempt_ns=start_ns)

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(TAKE, key, token, ttl_ns // MS_NS)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(PROLONG, lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run(GIVE_BACK, lease.key, lease.token)

    async def _undo(self, key: str, token: str) -> None:
        with contextlib.suppress(LeaseLost, Indeterminate):
            await Plain.release(self, Lease(key, token, 0, 0))

    async def _run(self, script: str, key: str, *arguments: str | int) -> Any:
        digest = sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return await self._call("EVALSHA", digest, 1, key, *arguments)
        except NodeError as error:
            if "NOSCRIPT" not in str(error):
                raise
        return await self._call("EVAL", script, 1, key, *arguments)

    async def _call(self, *command: str | int) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._channel.call(*command)
        except TimeoutError as error:
            raise NodeError("no answer in time") from error
