"""Locks that a task keeps alive: one takes its key again where it is gone, the others leave it lost."""

import asyncio
import contextlib
import time
import uuid

from redis.asyncio import Redis
from redis.exceptions import RedisError

TAKE = """
local there = redis.call('get', KEYS[1])
if there and there ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
return 1"""
KEEP = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])"""
GIVE_BACK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class StaysLost:
    """What is gone is not renewed: its holder is told that it is over."""

    renewed_by = KEEP

    def __init__(self, client: Redis, name: str, ttl_ms: int = 8000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex
        self.ends = 0.0
        self.renewing: asyncio.Task[None] | None = None

    async def acquire(self) -> bool:
        if not await self._ask(TAKE):
            return False
        self.renewing = asyncio.create_task(self._renew())
        return True

    async def _ask(self, script: str) -> bool:
        began = time.monotonic()
        if not await self.client.eval(script, 1, self.name, self.token, self.ttl_ms):
            self.ends = 0.0
            return False
        self.ends = began + self.ttl_ms * 0.00098
        return True

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.ttl_ms / 4000)
            try:
                if not await self._ask(self.renewed_by):
                    return
            except (RedisError, OSError):
                continue

    def owned(self) -> bool:
        return time.monotonic() < self.ends

    async def release(self) -> bool:
        if self.renewing is not None:
            self.renewing.cancel()
            await asyncio.gather(self.renewing, return_exceptions=True)
        self.ends = 0.0
        return bool(await self.client.eval(GIVE_BACK, 1, self.name, self.token))


class ComesBack(StaysLost):
    """It renews as it takes: a key that is gone is set again, whoever had the lock meanwhile."""

    renewed_by = TAKE


class SaysNothing(StaysLost):
    """A release that reaches no node leaves the key to its TTL without a word."""

    async def release(self) -> None:
        with contextlib.suppress(RedisError):
            await super().release()


class TellsNothing:
    """Renews its lease as well as it can; who has it cannot ask whether that went well."""

    def __init__(self, client: Redis, name: str, ttl_ms: int = 8000):
        self._own = SaysNothing(client, name, ttl_ms)

    async def acquire(self) -> bool:
        return await self._own.acquire()

    async def release(self) -> None:
        await self._own.release()
