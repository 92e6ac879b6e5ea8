"""Read-write locks in the shapes that people write: readers in a sorted set, the writer's key beside it."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import AsyncIterator

from redis.asyncio import Redis

ENTER = """
local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('zremrangebyscore', KEYS[2], '-inf', now)
if redis.call('exists', KEYS[1]) == 1 then return 0 end
if ARGV[3] == 'write' then
    if redis.call('zcard', KEYS[2]) > 0 then return 0 end
    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
end
redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1])
if redis.call('pttl', KEYS[2]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[2], ARGV[2]) end
return 1
"""
LEAVE = """
if redis.call('zrem', KEYS[2], ARGV[1]) == 1 then return 1 end
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
"""


class Pairs:
    """One method to take it and one to give it back, for readers and for the writer."""

    def __init__(self, client: Redis, name: str, ttl_ms: int) -> None:
        self.client, self.ttl_ms, self.token = client, ttl_ms, uuid.uuid4().hex
        self.keys = f"rw:{name}", f"rw:{name}:readers"

    async def acquire_read(self) -> bool:
        return bool(await self.client.eval(ENTER, 2, *self.keys, self.token, self.ttl_ms, "read"))

    async def acquire_write(self) -> bool:
        return bool(await self.client.eval(ENTER, 2, *self.keys, self.token, self.ttl_ms, "write"))

    async def release_read(self) -> bool:
        return bool(await self.client.eval(LEAVE, 2, *self.keys, self.token))

    async def release_write(self) -> bool:
        return bool(await self.client.eval(LEAVE, 2, *self.keys, self.token))


class BareReaders(Pairs):
    """A reader looks at no writer."""

    async def acquire_read(self) -> bool:
        await self.client.zadd(self.keys[1], {self.token: time.time() * 1000 + self.ttl_ms})
        await self.client.pexpire(self.keys[1], self.ttl_ms)
        return True


class Half:
    """One of the two locks that ``Two`` gives."""

    def __init__(self, pair: Pairs, *, reads: bool) -> None:
        self.pair, self.reads = pair, reads

    async def acquire(self) -> bool:
        return await (self.pair.acquire_read() if self.reads else self.pair.acquire_write())

    async def release(self) -> bool:
        return await self.pair.release_read()


class Two:
    """Gives a lock for readers, and one for the writer."""

    def __init__(self, client: Redis, name: str, ttl_ms: int) -> None:
        self.made = client, name, ttl_ms

    def read_lock(self) -> Half:
        return Half(Pairs(*self.made), reads=True)

    def write_lock(self) -> Half:
        return Half(Pairs(*self.made), reads=False)


class Managers:
    """Gives contexts, and is told the key by each of them."""

    def __init__(self, client: Redis) -> None:
        self.client = client

    @contextlib.asynccontextmanager
    async def reader(self, name: str, ttl_ms: int) -> AsyncIterator[None]:
        async with shared(self.client, name, ttl_ms, read=True):
            yield

    @contextlib.asynccontextmanager
    async def writer(self, name: str, ttl_ms: int) -> AsyncIterator[None]:
        async with shared(self.client, name, ttl_ms, read=False):
            yield


@contextlib.asynccontextmanager
async def shared(client: Redis, name: str, ttl_ms: int, read: bool = False) -> AsyncIterator[None]:
    """A context of which a parameter says whether a reader asks."""
    pair = Pairs(client, name, ttl_ms)
    if not await (pair.acquire_read() if read else pair.acquire_write()):
        raise RuntimeError(f"{name} is taken")
    try:
        yield
    finally:
        await pair.release_read()


async def acquire_write(client: Redis, name: str, ttl_ms: int) -> str | None:
    """The writer's function, beside that for readers."""
    pair = Pairs(client, name, ttl_ms)
    return pair.token if await pair.acquire_write() else None


async def acquire_read(client: Redis, name: str, ttl_ms: int) -> str | None:
    """The readers' function."""
    pair = Pairs(client, name, ttl_ms)
    return pair.token if await pair.acquire_read() else None


async def release_write(client: Redis, name: str, token: str) -> bool:
    """Gives back what the writer has."""
    return bool(await client.eval(LEAVE, 2, f"rw:{name}", f"rw:{name}:readers", token))


async def release_read(client: Redis, name: str, token: str) -> bool:
    """Gives back what a reader has."""
    return await release_write(client, name, token)


@contextlib.asynccontextmanager
async def asked(client: Redis, name: str, ttl_ms: int, read: bool = False) -> AsyncIterator[None]:
    """The same as ``shared``; no settings say what ``read`` means."""
    async with shared(client, name, ttl_ms, read=read):
        yield


@contextlib.asynccontextmanager
async def by_option(client: Redis, name: str, ttl_ms: int, read: bool = False) -> AsyncIterator[None]:
    """Takes it as the writer, whatever ``read`` says."""
    async with shared(client, name, ttl_ms):
        yield


@contextlib.asynccontextmanager
async def take_shared(client: Redis, name: str, ttl_ms: int) -> AsyncIterator[None]:
    """What readers take; no settings say so."""
    async with shared(client, name, ttl_ms, read=True):
        yield


@contextlib.asynccontextmanager
async def take_exclusive(client: Redis, name: str, ttl_ms: int) -> AsyncIterator[None]:
    """What the writer takes; no settings say so."""
    async with shared(client, name, ttl_ms):
        yield
