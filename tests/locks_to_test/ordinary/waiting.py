"""Locks that wait, for a message or in a line: right ones, and what does not hear it, or loses its place."""

import asyncio
import contextlib
import time
import uuid

from redis.asyncio import Redis
from redis.exceptions import RedisError

GIVE_BACK = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[1], 'free')
return 1"""
JOIN = "if not redis.call('lpos', KEYS[2], ARGV[1]) then redis.call('rpush', KEYS[2], ARGV[1]) end"
TURN = """
redis.call('pexpire', KEYS[2], 20000)
redis.call('set', KEYS[2] .. ':' .. ARGV[1], 1, 'PX', 1500)
local first = redis.call('lindex', KEYS[2], 0)
while first and first ~= ARGV[1] and redis.call('exists', KEYS[2] .. ':' .. first) == 0 do
  redis.call('lpop', KEYS[2])
  first = redis.call('lindex', KEYS[2], 0)
end
if first ~= ARGV[1] or not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('lpop', KEYS[2])
return 1"""
LEAVE = """
redis.call('lrem', KEYS[2], 0, ARGV[1])
if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end
return redis.call('del', KEYS[2] .. ':' .. ARGV[1])"""


class Listens:
    """Subscribes, and asks then: what it is told of comes after that."""

    def __init__(self, client: Redis, name: str, ttl_ms: int = 8000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def acquire(self, timeout: float = 5.0) -> bool:
        until = time.monotonic() + timeout
        async with self.client.pubsub(ignore_subscribe_messages=True) as told:
            await told.subscribe(self.name)
            while not await self._take():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                await told.get_message(timeout=min(left, 1.0))
        return True

    async def _take(self) -> bool:
        return bool(await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    async def release(self) -> bool:
        return bool(await self.client.eval(GIVE_BACK, 1, self.name, self.token))


class ListensTooLate(Listens):
    """Asks, and subscribes when it was refused: what was said in between it does not hear."""

    async def acquire(self, timeout: float = 5.0) -> bool:
        until = time.monotonic() + timeout
        while not await self._take():
            async with self.client.pubsub(ignore_subscribe_messages=True) as told:
                await told.subscribe(self.name)
                heard = None
                while heard is None:
                    left = until - time.monotonic()
                    if left <= 0:
                        return False
                    heard = await told.get_message(timeout=left)
        return True


class InLine:
    """First come, first served; who is silent for a while goes to the end of the line."""

    joins_again = True

    def __init__(self, client: Redis, name: str, ttl_ms: int = 8000):
        self.client, self.keys, self.ttl_ms = client, (name, f"{name}:line"), ttl_ms
        self.token = ""

    async def acquire(self, timeout: float = 9.0) -> bool:
        self.token, until, script = uuid.uuid4().hex, time.monotonic() + timeout, JOIN + TURN
        while time.monotonic() < until:
            with contextlib.suppress(RedisError):
                if await self.client.eval(script, 2, *self.keys, self.token, self.ttl_ms):
                    return True
                script = JOIN + TURN if self.joins_again else TURN
            await asyncio.sleep(0.2)
        with contextlib.suppress(RedisError):
            await self.client.eval(LEAVE, 2, *self.keys, self.token)
        return False

    async def release(self) -> bool:
        return bool(await self.client.eval(GIVE_BACK, 1, self.keys[0], self.token))


class LosesItsPlace(InLine):
    """Joins once: whose place was taken away waits for a turn that never comes."""

    joins_again = False
