"""Locks on redis.asyncio: two whose task extends the lease (`renews = true`), one that hides its errors."""

import asyncio
import contextlib
import uuid

import redis.asyncio as redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
PROLONG = UNLOCK.replace("'del', KEYS[1]", "'pexpire', KEYS[1], ARGV[2]")


class Watching:
    """Goes on after an error, and says that the lease is held until its last extension is over."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 3_000) -> None:
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex
        self.task: asyncio.Task[None] | None = None
        self.until = 0.0

    async def acquire(self) -> bool:
        until = self._until()
        if not await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            return False
        self.until = until
        self.task = asyncio.create_task(self._watch())
        return True

    async def _watch(self) -> None:
        while self.owned():
            await asyncio.sleep(self.ttl_ms / 4_000)
            until = self._until()
            try:
                if not await self.client.eval(PROLONG, 1, self.name, self.token, self.ttl_ms):
                    self.until = 0.0
                    return
            except redis.RedisError:
                if self._ends_at_an_error():
                    return
                continue
            self.until = until

    def _ends_at_an_error(self) -> bool:
        return False

    def _until(self) -> float:
        return asyncio.get_running_loop().time() + self.ttl_ms / 1000 * 0.98

    def owned(self) -> bool:
        return asyncio.get_running_loop().time() < self.until

    async def release(self) -> None:
        self.until = 0.0
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.client.eval(UNLOCK, 1, self.name, self.token)


class EndsAtAnError(Watching):
    """The first error ends its task, so that the lease ends while its holder lives."""

    def _ends_at_an_error(self) -> bool:
        return True


class ReleasesQuietly:
    """Its release hides that the nodes were not told, so that the key stays until its TTL."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000) -> None:
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def acquire(self) -> bool:
        return bool(await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    async def release(self) -> None:
        with contextlib.suppress(redis.RedisError):
            await self.client.eval(UNLOCK, 1, self.name, self.token)
