"""Locks that are wrong between two commands of one call, or by what one command does beside; right ones."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from typing import Any, ClassVar

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from lab.locks.base import Indeterminate, Lease, LeaseLost
from tests.locks_to_test.plain import MS_NS, Plain
from tests.locks_to_test.with_redis_py import RELEASE, WithoutRetries


class WatchesThenLooks(WithoutRetries):
    """Compares under WATCH, and changes the key in MULTI and EXEC."""

    name = "watches-then-looks"

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._clock_ns()
        if not await self._ask(self._if_ours(lease, "PEXPIRE", lease.key, ttl_ns // MS_NS)):
            raise LeaseLost("not ours", no_effect=True)
        return self._lease(lease.key, lease.token, ttl_ns, start_ns)

    async def release(self, lease: Lease) -> None:
        if not await self._ask(self._if_ours(lease, "DEL", lease.key)):
            raise LeaseLost("not ours")

    async def _if_ours(self, lease: Lease, *change: str | int) -> bool:
        async with self._redis.pipeline() as transaction:
            if await self._value_of(lease.key, transaction) != lease.token.encode():
                return False
            transaction.multi()  # type: ignore[no-untyped-call]
            transaction.execute_command(*change)
            return bool((await transaction.execute())[0])

    async def _value_of(self, key: str, transaction: Pipeline) -> Any:
        await transaction.watch(key)
        return await transaction.get(key)


class LooksThenWatches(WatchesThenLooks):
    """Compares what it read before WATCH: what changed in between is not noticed."""

    name = "looks-then-watches"

    async def _value_of(self, key: str, transaction: Pipeline) -> Any:
        value = await self._redis.get(key)
        await transaction.watch(key)
        return value


class ProlongsThenCompares(WithoutRetries):
    """Its extension reads the value by a command that prolongs the key, whoever has it."""

    name = "prolongs-then-compares"

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._clock_ns()
        value = await self._ask(self._redis.getex(lease.key, px=ttl_ns // MS_NS))
        if value != lease.token.encode():
            raise LeaseLost("not ours", no_effect=True)
        return self._lease(lease.key, lease.token, ttl_ns, start_ns)


class ByDigest:
    """An ordinary lock that loads its script when it is taken, and sends it whole where a node forgot it."""

    def __init__(self, redis: Redis, name: str, ttl_ms: int) -> None:
        redis.set_retry(Retry(NoBackoff(), 0))  # else a SET that is sent again is refused by its own key
        self._redis, self._name, self._ttl_ms = redis, name, ttl_ms

    async def acquire(self) -> bool:
        self._digest = await self._redis.script_load(RELEASE)
        self._value = uuid.uuid4().hex
        return bool(await self._redis.set(self._name, self._value, nx=True, px=self._ttl_ms))

    async def release(self) -> None:
        try:
            await self._redis.evalsha(self._digest, 1, self._name, self._value)
        except NoScriptError:
            await self._redis.eval(RELEASE, 1, self._name, self._value)


class ByDigestOrByHand(ByDigest):
    """Loads its script when it is first needed, and compares by itself until then."""

    async def acquire(self) -> bool:
        self._digest, self._value = hashlib.sha1(RELEASE.encode()).hexdigest(), uuid.uuid4().hex
        return bool(await self._redis.set(self._name, self._value, nx=True, px=self._ttl_ms))

    async def release(self) -> None:
        try:
            await self._redis.evalsha(self._digest, 1, self._name, self._value)
        except NoScriptError:
            await self._redis.script_load(RELEASE)
            if await self._redis.get(self._name) == self._value.encode():
                await self._redis.delete(self._name)


class ByDigestAlone(ByDigest):
    """The same, which fails where a node forgot the script."""

    async def release(self) -> None:
        await self._redis.evalsha(self._digest, 1, self._name, self._value)


class SaysNothing(Plain):
    """A release whose request may be lost, and which says nothing of that: the key has an end."""

    name = "says-nothing"

    async def release(self, lease: Lease) -> None:
        with contextlib.suppress(Indeterminate):
            await super().release(lease)


class InATable(Plain):
    """All locks are fields of one hash, and each field has an end of its own."""

    name = "in-a-table"
    ENDS: ClassVar[str] = "redis.call('hpexpire', KEYS[1], ARGV[3], 'FIELDS', 1, ARGV[1])"
    IF_OURS: ClassVar[str] = "if redis.call('hget', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        script = (
            f"if redis.call('hsetnx', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end {self.ENDS} return 1"
        )
        return await self._run(script, "table", key, token, ttl_ns // MS_NS)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        script = f"{self.IF_OURS} {self.ENDS} return 1"
        return await self._run(script, "table", lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        script = f"{self.IF_OURS} return redis.call('hdel', KEYS[1], ARGV[1])"
        return await self._run(script, "table", lease.key, lease.token)


class EndsTheTable(InATable):
    """Each acquire and each extension says anew when the whole hash ends."""

    name = "ends-the-table"
    ENDS = "redis.call('pexpire', KEYS[1], ARGV[3])"
