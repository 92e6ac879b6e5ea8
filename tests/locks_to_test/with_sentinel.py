"""Ordinary locks that are given the client library's Sentinel, and ask it for the master each time."""

from __future__ import annotations

import secrets
from typing import Any

import redis.asyncio
import redis.sentinel
from redis.asyncio.sentinel import Sentinel

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class OnMaster:
    """Async, and correct as far as its master goes."""

    def __init__(self, sentinel: Sentinel, service_name: str, name: str, ttl_ms: int = 10_000) -> None:
        self.client: redis.asyncio.Redis = sentinel.master_for(service_name)
        self.name, self.ttl_ms, self.token = name, ttl_ms, secrets.token_hex(16)

    async def acquire(self) -> bool:
        return bool(await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    async def release(self) -> bool:
        return bool(await self.client.eval(RELEASE, 1, self.name, self.token))


class Blocking:
    """The same with a client that blocks."""

    def __init__(self, sentinel: Any, service_name: str, name: str, ttl_ms: int = 10_000) -> None:
        self.client = sentinel.master_for(service_name)
        self.name, self.ttl_ms, self.token = name, ttl_ms, secrets.token_hex(16)

    def acquire(self) -> bool:
        return bool(self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    def release(self) -> bool:
        return bool(self.client.eval(RELEASE, 1, self.name, self.token))
