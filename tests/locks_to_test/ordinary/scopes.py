"""Objects that are used by ``with``, also inside of themselves, or wait: right ones, and what breaks them."""

import asyncio
import time
import uuid

import redis as blocking
import redis.asyncio as redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Refusing:
    """Refuses whoever asks while it is held, itself as well."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def __aenter__(self):
        if not await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            raise TimeoutError(self.name)
        return self

    async def __aexit__(self, *error):
        await self.client.eval(UNLOCK, 1, self.name, self.token)


class GivesAllBack(Refusing):
    """Knows that it holds the lock, and gives it back at the first end."""

    async def __aenter__(self):
        if await self.client.get(self.name) == self.token:
            return self
        return await super().__aenter__()


class Counting(GivesAllBack):
    """Counts, and gives the lock back at the last end."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        super().__init__(client, name, ttl_ms)
        self.depth = 0

    async def __aenter__(self):
        await super().__aenter__()
        self.depth += 1
        return self

    async def __aexit__(self, *error):
        self.depth -= 1
        if not self.depth:
            await super().__aexit__(*error)


class Waiting(Refusing):
    """Asks again until its time-out is over."""

    async def acquire(self, timeout: float = 2.0):
        give_up = time.monotonic() + timeout
        while not await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            if time.monotonic() > give_up:
                return False
            await asyncio.sleep(0.1)
        return True

    async def release(self):
        return bool(await self.client.eval(UNLOCK, 1, self.name, self.token))


class WaitingOn(Waiting):
    """Takes a time-out, and never looks at it."""

    async def acquire(self, timeout: float = 2.0):
        while not await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            await asyncio.sleep(0.1)
        return True


class CountsItsTries(Waiting):
    """Counts seconds as tries of a tenth of a second, which are of a whole one."""

    async def acquire(self, timeout: float = 2.0):
        for _ in range(int(timeout * 10)):
            if await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
                return True
            await asyncio.sleep(1)
        return False


class GivesAllBackInThreads:
    """The same as a lock that blocks."""

    def __init__(self, client: blocking.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    def __enter__(self):
        if self.client.get(self.name) == self.token:
            return self
        if not self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            raise TimeoutError(self.name)
        return self

    def __exit__(self, *error):
        self.client.eval(UNLOCK, 1, self.name, self.token)
