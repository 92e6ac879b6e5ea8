"""Locks with one object for all keys, which two tasks of a client may use at once."""

import asyncio
import uuid

import redis.asyncio as redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Locks:
    """It notes a token when the key is set."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.held: dict[str, str] = {}

    async def acquire(self, key: str, ttl_ms: int) -> bool:
        token = uuid.uuid4().hex
        try:
            granted = await self.client.set(key, token, nx=True, px=ttl_ms)
        except BaseException:
            await asyncio.shield(self.client.eval(UNLOCK, 1, key, token))
            raise
        if not granted:
            return False
        self.held[key] = token
        return True

    async def release(self, key: str) -> None:
        await self.client.eval(UNLOCK, 1, key, self.held.pop(key, ""))


class NotesTooEarly(Locks):
    """It notes a token before it asks: a task that is refused replaces the token of the one that holds it."""

    async def acquire(self, key: str, ttl_ms: int) -> bool:
        self.held[key] = uuid.uuid4().hex
        return bool(await self.client.set(key, self.held[key], nx=True, px=ttl_ms))
