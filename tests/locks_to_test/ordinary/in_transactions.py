"""A lock that is given back in a transaction, without a script."""

import uuid

import redis.asyncio
from redis.exceptions import WatchError


class Watched:
    """Takes a connection that broke in its transaction for a key that has changed, as redis-py does."""

    def __init__(self, client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def acquire(self):
        return bool(await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    async def release(self):
        async with self.client.pipeline(transaction=True) as pipe:
            await pipe.watch(self.name)
            if await pipe.get(self.name) != self.token.encode():
                return False
            pipe.multi()
            pipe.delete(self.name)
            try:
                return bool(await pipe.execute())
            except WatchError:
                return False
