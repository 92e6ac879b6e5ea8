"""Locks on several nodes that are taken in two rounds: for a moment first, then for the whole lease."""

import asyncio
import time
import uuid

import redis.asyncio
from redis.exceptions import RedisError

SHORTLY_MS = 1000
KEEP = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0"
UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"


class InTwoRounds:
    """A majority has to agree in each of them."""

    counts_both = True

    def __init__(self, clients: list[redis.asyncio.Redis], name: str, ttl_ms: int = 10_000):
        self.clients, self.name, self.ttl_ms = clients, name, ttl_ms
        self.token, self.ends = "", 0.0

    async def acquire(self):
        self.token = uuid.uuid4().hex
        try:
            if await self._most("SET", self.name, self.token, "NX", "PX", SHORTLY_MS):
                ends = time.monotonic() + self.ttl_ms * 0.99 / 1000 - 0.002
                kept = await self._most("EVAL", KEEP, 1, self.name, self.token, self.ttl_ms)
                if (kept or not self.counts_both) and time.monotonic() < ends:
                    self.ends = ends
                    return True
        except asyncio.CancelledError:
            await asyncio.shield(self.release())
            raise
        await self.release()
        return False

    async def release(self):
        self.ends = 0.0
        await self._most("EVAL", UNLOCK, 1, self.name, self.token)

    def is_held(self):
        return time.monotonic() < self.ends

    async def _most(self, *command):
        async def ask(client):
            try:
                return bool(await asyncio.wait_for(client.execute_command(*command), 0.2))
            except (RedisError, OSError):
                return False

        votes = await asyncio.gather(*map(ask, self.clients))
        return sum(votes) > len(self.clients) // 2


class CountsTheFirst(InTwoRounds):
    """Broken: does not count who has agreed in the second round."""

    counts_both = False
