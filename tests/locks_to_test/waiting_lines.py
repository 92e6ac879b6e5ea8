"""Locks whose clients wait in line: handed the lock, or taking it when they are first; and a dated record."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from lab.locks.base import BaseLock, Indeterminate, Lease, LeaseLost, NotAcquired
from tests.locks_to_test.in_collections import NOW
from tests.locks_to_test.plain import GIVE_BACK, MS_NS, PROLONG

PATIENCE_MS = 3000
"""So long a place in the line is kept for who does not come back."""


class _OneNode(BaseLock):
    POLLS, EVERY_S = 4, 0.4

    async def script(self, text: str, keys: list[str], *arguments: str | int) -> Any:
        return await self.ask("EVAL", text, len(keys), *keys, *arguments)

    def keys(self, key: str) -> list[str]:
        return [f"lock:{key}"]

    async def look(self, key: str, token: str, ttl_ms: int, *, first: bool) -> Any:
        """Whether the lock is this client's now."""
        raise NotImplementedError

    def leave(self, key: str, token: str, ttl_ms: int) -> asyncio.Future[Any]:
        """Go, whatever has been set: sent behind what was sent before."""
        raise NotImplementedError

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, ttl_ms = self.new_token(), ttl_ns // MS_NS
        try:
            for poll in range(self.POLLS):
                if poll:
                    await asyncio.sleep(self.EVERY_S)
                asked_ns = self.clock_ns()
                if await self.look(key, token, ttl_ms, first=not poll):
                    return self.lease(key, token, ttl_ns, asked_ns)
            await self.leave(key, token, ttl_ms)
        except BaseException as error:
            self.leave(key, token, ttl_ms).add_done_callback(
                lambda left: left.cancelled() or left.exception()
            )
            if isinstance(error, Exception) and not isinstance(error, Indeterminate):
                raise Indeterminate(f"{key}: {error}") from error
            raise
        raise NotAcquired("others were first", [token])

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        asked_ns = self.clock_ns()
        if not await self.script(PROLONG, self.keys(lease.key)[:1], lease.token, ttl_ns // MS_NS):
            raise LeaseLost("not ours any more")
        return self.lease(lease.key, lease.token, ttl_ns, asked_ns)

    async def release(self, lease: Lease) -> None:
        if not await self.script(GIVE_BACK, self.keys(lease.key)[:1], lease.token):
            raise LeaseLost("not ours any more")


class HandedOver(_OneNode):
    """A release gives the key to who waits longest, for as long as that one asked for it."""

    name: ClassVar[str] = "handed-over"
    ARRIVED: ClassVar[str] = "redis.call('pexpire', KEYS[1], ARGV[2])"
    LOOK = f"""{NOW}
        local place = ARGV[2] .. '/' .. ARGV[1]
        local holder = redis.call('get', KEYS[1])
        if holder == ARGV[1] then ARRIVED return 1 end
        if not holder then
            redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
            redis.call('zrem', KEYS[2], place)
            return 1
        end
        if ARGV[3] == '1' then
            redis.call('zadd', KEYS[2], now + {PATIENCE_MS}, place)
            redis.call('pexpire', KEYS[2], {PATIENCE_MS})
        end
        return 0"""
    PASS_ON = f"""{NOW}
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        redis.call('zremrangebyscore', KEYS[2], '-inf', now)
        local next = redis.call('zrange', KEYS[2], 0, 0)[1]
        if next then
            local ttl, token = string.match(next, '^(%d+)/(.*)$')
            redis.call('zrem', KEYS[2], next)
            redis.call('set', KEYS[1], token, 'PX', ttl)
        else
            redis.call('del', KEYS[1])
        end
        return 1"""

    def keys(self, key: str) -> list[str]:
        return [f"lock:{key}", f"line:{key}"]

    async def look(self, key: str, token: str, ttl_ms: int, *, first: bool) -> Any:
        text = self.LOOK.replace("ARRIVED", self.ARRIVED)
        return await self.script(text, self.keys(key), token, ttl_ms, int(first))

    def leave(self, key: str, token: str, ttl_ms: int) -> asyncio.Future[Any]:
        text = f"redis.call('zrem', KEYS[2], ARGV[2] .. '/' .. ARGV[1]) {self.PASS_ON}"
        return self.nodes[0].post("EVAL", text, 2, *self.keys(key), token, ttl_ms)

    async def release(self, lease: Lease) -> None:
        if not await self.script(self.PASS_ON, self.keys(lease.key), lease.token):
            raise LeaseLost("not ours any more")


class CountsFromItsLook(HandedOver):
    """Who finds that the key was handed over counts from there, and the node from when that was."""

    name = "counts-from-its-look"
    ARRIVED = ""


class FirstInLine(_OneNode):
    """Places in a sorted set, when each was last seen in a hash: only who is first takes the key."""

    name: ClassVar[str] = "first-in-line"
    POLLS, EVERY_S = 8, 0.1
    LOOK = f"""{NOW}
        if not redis.call('zscore', KEYS[2], ARGV[1]) then
            local last = redis.call('zrange', KEYS[2], -1, -1, 'WITHSCORES')
            redis.call('zadd', KEYS[2], (last[2] or 0) + 1, ARGV[1])
        end
        redis.call('hset', KEYS[3], ARGV[1], now)
        local head = redis.call('zrange', KEYS[2], 0, 0)[1]
        while head ~= ARGV[1] and now - (redis.call('hget', KEYS[3], head) or 0) > tonumber(ARGV[2]) do
            redis.call('zrem', KEYS[2], head)
            redis.call('hdel', KEYS[3], head)
            head = redis.call('zrange', KEYS[2], 0, 0)[1]
        end
        if head == ARGV[1] and redis.call('exists', KEYS[1]) == 0 then
            redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
            redis.call('zrem', KEYS[2], ARGV[1])
            redis.call('hdel', KEYS[3], ARGV[1])
            return 1
        end
        redis.call('pexpire', KEYS[2], 2 * ARGV[2])
        redis.call('pexpire', KEYS[3], 2 * ARGV[2])
        return 0"""
    LEAVE = """
        redis.call('zrem', KEYS[2], ARGV[1])
        redis.call('hdel', KEYS[3], ARGV[1])
        if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end
        return 1"""

    def keys(self, key: str) -> list[str]:
        return [f"lock:{key}", f"line:{key}", f"seen:{key}"]

    async def look(self, key: str, token: str, ttl_ms: int, *, first: bool) -> Any:
        return await self.script(self.LOOK, self.keys(key), token, ttl_ms)

    def leave(self, key: str, token: str, ttl_ms: int) -> asyncio.Future[Any]:
        return self.nodes[0].post("EVAL", self.LEAVE, 3, *self.keys(key), token)


class StaysInLine(FirstInLine):
    """Who was cancelled, or got no answer, undoes the key and keeps its place."""

    name = "stays-in-line"

    def leave(self, key: str, token: str, ttl_ms: int) -> asyncio.Future[Any]:
        return self.nodes[0].post("EVAL", GIVE_BACK, 1, *self.keys(key)[:1], token)


class Dated(BaseLock):
    """A record says until when it is held, by the clock of the node, and is replaced when that is over."""

    name: ClassVar[str] = "dated"
    TAKE = f"""{NOW}
        if now < tonumber(redis.call('hget', KEYS[1], 'until') or 0) then return 0 end
        redis.call('hset', KEYS[1], 'token', ARGV[1], 'until', now + ARGV[2])
        return 1"""
    GIVE_BACK = """
        if redis.call('hget', KEYS[1], 'token') ~= ARGV[1] then return 0 end
        return redis.call('del', KEYS[1])"""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, asked_ns = self.new_token(), self.clock_ns()
        try:
            if await self.ask("EVAL", self.TAKE, 1, key, token, ttl_ns // MS_NS):
                return self.lease(key, token, ttl_ns, asked_ns)
        except BaseException:
            left = self.nodes[0].post("EVAL", self.GIVE_BACK, 1, key, token)
            left.add_done_callback(lambda reply: reply.cancelled() or reply.exception())
            raise
        raise NotAcquired("taken", [token])

    async def release(self, lease: Lease) -> None:
        if not await self.ask("EVAL", self.GIVE_BACK, 1, lease.key, lease.token):
            raise LeaseLost("not ours any more")
