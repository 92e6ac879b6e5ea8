"""Locks on redis.asyncio."""

import asyncio
import functools
import uuid
from contextlib import asynccontextmanager

import redis.asyncio as redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
PROLONG = UNLOCK.replace("'del', KEYS[1]", "'pexpire', KEYS[1], ARGV[2]")


class InScripts:
    """As the documentation of Redis has it."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000) -> None:
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def acquire(self) -> bool:
        return bool(await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    async def extend(self, ttl_ms: int) -> bool:
        return bool(await self.client.eval(PROLONG, 1, self.name, self.token, ttl_ms))

    async def release(self) -> bool:
        return bool(await self.client.eval(UNLOCK, 1, self.name, self.token))


@asynccontextmanager
async def bare_delete(client: redis.Redis, name: str, ttl: int = 10):
    if not await client.set(f"lock:{name}", "1", nx=True, ex=ttl):
        raise RuntimeError(f"{name} is taken")
    try:
        yield
    finally:
        await client.delete(f"lock:{name}")


class Manager:
    """A class that is only used by ``async with``; it waits for the lock."""

    def __init__(self, client, name, ttl_ms=10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms

    async def __aenter__(self):
        self.token = uuid.uuid4().hex
        while not await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *error):
        await self.client.eval(UNLOCK, 1, self.name, self.token)


async def take(client, key, ttl_ms=10_000):
    token = uuid.uuid4().hex
    return token if await client.set(key, token, nx=True, px=ttl_ms) else None


async def give_back(client, key, token):
    if await client.get(key) == token:
        await client.delete(key)


def exclusive(client, name, ttl=10):
    """Only one of the functions with this name runs at a time."""

    def decorate(function):
        @functools.wraps(function)
        async def wrapper(*args, **kwargs):
            async with client.lock(name, timeout=ttl, blocking=False):
                return await function(*args, **kwargs)

        return wrapper

    return decorate


class OnMost:
    """Redlock, all servers at once; what an attempt without a majority has set stays."""

    def __init__(self, clients: list[redis.Redis], name: str, ttl_ms: int = 10_000) -> None:
        self.clients, self.name, self.ttl_ms = clients, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def acquire(self) -> bool:
        asked = [each.set(self.name, self.token, nx=True, px=self.ttl_ms) for each in self.clients]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return sum(answer is True for answer in answers) > len(self.clients) // 2

    async def release(self) -> None:
        asked = [each.eval(UNLOCK, 1, self.name, self.token) for each in self.clients]
        await asyncio.gather(*asked, return_exceptions=True)


class KeepsAlive:
    """A task extends the lease, and nobody ends it when the lock is given back."""

    def __init__(self, client, name, ttl_ms=9000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms

    async def acquire(self):
        if not await self.client.set(self.name, "held", nx=True, px=self.ttl_ms):
            return False
        self.task = asyncio.create_task(self.renew())
        return True

    async def renew(self):
        while True:
            await asyncio.sleep(self.ttl_ms / 3000)
            await self.client.pexpire(self.name, self.ttl_ms)

    async def release(self):
        await self.client.delete(self.name)


class WrongUnit(InScripts):
    """It is told seconds, and sets as many milliseconds."""

    def __init__(self, client: redis.Redis, name: str, ttl_seconds: int = 10) -> None:
        super().__init__(client, name, ttl_seconds)


async def run_locked(client: redis.Redis, name: str, ttl_ms: int, func):
    """Run a job that nobody else runs; the lock of a job that is cancelled stays."""
    token = uuid.uuid4().hex
    if not await client.set(name, token, nx=True, px=ttl_ms):
        raise RuntimeError(f"{name} is running")
    try:
        result = await func()
    except Exception:
        await client.eval(UNLOCK, 1, name, token)
        raise
    await client.eval(UNLOCK, 1, name, token)
    return result


class TriesOnce:
    """Releases once: where that ends with an error its user knows, and the key has a TTL."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000) -> None:
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token: str | None = None

    async def acquire(self) -> bool:
        token = uuid.uuid4().hex
        if await self.client.set(self.name, token, nx=True, px=self.ttl_ms):
            self.token = token
        return self.token == token

    async def release(self) -> bool:
        if self.token is None:
            return False
        token, self.token = self.token, None
        return bool(await self.client.eval(UNLOCK, 1, self.name, token))
