"""A lock on one node as one writes it with redis-py: with the client as it comes, and without its retries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from lab.addresses import Address
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Options, Surroundings

MS_NS = 1_000_000
IF_OURS = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call({}) else return 0 end"
RELEASE = IF_OURS.format("'del', KEYS[1]")
EXTEND = IF_OURS.format("'pexpire', KEYS[1], ARGV[2]")


class AsItComes:
    """The client of redis-py repeats a command whose reply got lost, ten times by default."""

    name: ClassVar[str] = "as-it-comes"
    hands_out_fences: ClassVar[bool] = False
    retries: ClassVar[dict[str, Any]] = {}

    def __init__(self, node: Address, around: Surroundings) -> None:
        self._clock_ns, self._new_token = around.clock_ns, around.new_token
        self._redis = Redis(
            host=node.host, port=node.port, socket_timeout=0.5, socket_connect_timeout=0.5, **self.retries
        )

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        return cls(nodes[0], surroundings)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        return ttl_ns // 100 + 2 * MS_NS

    async def open(self) -> None:
        """It connects with the first command."""

    async def close(self) -> None:
        await self._redis.aclose()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, start_ns = self._new_token(), self._clock_ns()
        if not await self._ask(self._redis.set(key, token, nx=True, px=ttl_ns // MS_NS)):
            raise NotAcquired("taken", [token])
        return self._lease(key, token, ttl_ns, start_ns)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._clock_ns()
        if not await self._ask(self._redis.eval(EXTEND, 1, lease.key, lease.token, str(ttl_ns // MS_NS))):
            raise LeaseLost("not ours", no_effect=True)
        return self._lease(lease.key, lease.token, ttl_ns, start_ns)

    async def release(self, lease: Lease) -> None:
        if not await self._ask(self._redis.eval(RELEASE, 1, lease.key, lease.token)):
            raise LeaseLost("not ours")

    def believes(self, lease: Lease) -> bool:
        return self._clock_ns() < lease.deadline_ns

    def _lease(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease:
        deadline_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        if self._clock_ns() >= deadline_ns:
            raise Indeterminate("no time is left")
        return Lease(key, token, ttl_ns, deadline_ns, attempt_ns=start_ns)

    async def _ask(self, reply: Any) -> Any:
        try:
            return await reply
        except RedisError as error:
            raise Indeterminate(str(error)) from error


class WithoutRetries(AsItComes):
    """Nothing is sent twice, and what may have been set is undone."""

    retries: ClassVar[dict[str, Any]] = {"retry": Retry(NoBackoff(), 0)}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, start_ns = self._new_token(), self._clock_ns()
        try:
            if not await self._ask(self._redis.set(key, token, nx=True, px=ttl_ns // MS_NS)):
                raise NotAcquired("taken", [token])
            return self._lease(key, token, ttl_ns, start_ns)
        except (Indeterminate, asyncio.CancelledError):
            await self._undo(key, token)
            raise

    async def _undo(self, key: str, token: str) -> None:
        try:
            await self._ask(self._redis.eval(RELEASE, 1, key, token))
        except Indeterminate:
            return
