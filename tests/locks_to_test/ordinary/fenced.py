"""Locks that hand out fencing tokens: as an attribute, as an answer, and as what a ``with`` block gets."""

import contextlib
import itertools
import uuid

import redis
import redis.asyncio

NUMBERED = """
if redis.call('exists', KEYS[1]) == 1 then return false end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('incr', KEYS[2])
"""
UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Numbered:
    """Takes the key and draws the number in one script."""

    def __init__(self, client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, f"lock:{name}", ttl_ms
        self.numbers = f"numbers:{name}"
        self.token, self.fencing_token = uuid.uuid4().hex, None

    async def acquire(self):
        self.fencing_token = await self._take()
        return self.fencing_token is not None

    async def _take(self):
        return await self.client.eval(NUMBERED, 2, self.name, self.numbers, self.token, self.ttl_ms)

    async def release(self):
        return bool(await self.client.eval(UNLOCK, 1, self.name, self.token))


class NumberedBefore(Numbered):
    """Draws the number, and then asks for the key."""

    async def _take(self):
        number = await self.client.incr(self.numbers)
        granted = await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms)
        return number if granted else None


class NumberedAnew(Numbered):
    """Forgets its number with the key."""

    async def _take(self):
        number = await super()._take()
        if number is not None:
            await self.client.pexpire(self.numbers, self.ttl_ms)
        return number


class NumberedHere(Numbered):
    """Each program counts by itself."""

    def __init__(self, client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
        super().__init__(client, name, ttl_ms)
        if not hasattr(client, "counted"):
            client.counted = itertools.count(1)

    async def _take(self):
        granted = await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms)
        return next(self.client.counted) if granted else None


def take_numbered(client: redis.Redis, name: str, token: str, ttl_ms: int = 10_000):
    """Returns the token and its number, or None."""
    number = client.eval(NUMBERED, 2, f"lock:{name}", f"numbers:{name}", token, ttl_ms)
    return None if number is None else (token, number)


def return_numbered(client: redis.Redis, name: str, token: tuple):
    return bool(client.eval(UNLOCK, 1, f"lock:{name}", token[0]))


@contextlib.asynccontextmanager
async def numbered(client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
    """Yields the number."""
    lock = Numbered(client, name, ttl_ms)
    if not await lock.acquire():
        raise BlockingIOError(name)
    try:
        yield {"number": lock.fencing_token}
    finally:
        await lock.release()
