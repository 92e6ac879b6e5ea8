"""Locks in a sorted set, a list or a set: with one permit, with a queue; and what breaks them."""

from __future__ import annotations

import asyncio
from typing import Any

from lab.locks.base import Lease
from tests.locks_to_test.plain import MS_NS, Plain

NOW = "local t = redis.call('time') local now = t[1] * 1000 + math.floor(t[2] / 1000)"
DROP_OVER = "redis.call('zremrangebyscore', KEYS[1], '-inf', now)"


class OnePermit(Plain):
    """A semaphore with one permit: holders in a sorted set, scored by when they end."""

    name = "one-permit"
    TAKE = f"""{NOW} {DROP_OVER}
        if redis.call('zcard', KEYS[1]) >= 1 and not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end
        redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1"""
    PROLONG = f"""{NOW} {DROP_OVER}
        if not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end
        redis.call('zadd', KEYS[1], 'XX', 'GT', now + ARGV[2], ARGV[1])
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
        return 1"""
    GIVE_BACK = "return redis.call('zrem', KEYS[1], ARGV[1])"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.TAKE, key, token, ttl_ns // MS_NS)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(self.PROLONG, lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run(self.GIVE_BACK, lease.key, lease.token)


class OneTooMany(OnePermit):
    """Compares with the limit by ``>``."""

    name = "one-too-many"
    TAKE = OnePermit.TAKE.replace(">= 1", "> 1")


class MakesRoom(OnePermit):
    """Takes the permit away from whoever has it."""

    name = "makes-room"
    TAKE = OnePermit.TAKE.replace(DROP_OVER, "redis.call('zremrangebyrank', KEYS[1], 0, -1)")


class InAList(OnePermit):
    """The holder is the one element of a list."""

    name = "in-a-list"
    TAKE = """
        local first = redis.call('lindex', KEYS[1], 0)
        if first then return first == ARGV[1] and 1 or 0 end
        redis.call('rpush', KEYS[1], ARGV[1])
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1"""
    PROLONG = """
        if redis.call('lindex', KEYS[1], 0) ~= ARGV[1] then return 0 end
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
        return 1"""
    GIVE_BACK = "return redis.call('lrem', KEYS[1], 0, ARGV[1])"


class PopsFirst(InAList):
    """A release takes the first element, whoever's it is."""

    name = "pops-first"
    GIVE_BACK = "return redis.call('lpop', KEYS[1]) and 1 or 0"

    async def _undo(self, key: str, token: str) -> None:
        await self._run(InAList.GIVE_BACK, key, token)


class InASet(OnePermit):
    """The holder is the one member of a set."""

    name = "in-a-set"
    TAKE = """
        if redis.call('scard', KEYS[1]) > 0 then return redis.call('sismember', KEYS[1], ARGV[1]) end
        redis.call('sadd', KEYS[1], ARGV[1])
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1"""
    PROLONG = """
        if redis.call('sismember', KEYS[1], ARGV[1]) == 0 then return 0 end
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
        return 1"""
    GIVE_BACK = "return redis.call('srem', KEYS[1], ARGV[1])"


class Queue(OnePermit):
    """Who waits has a place in a queue, which is lost when it is not renewed; the first one gets the key."""

    name = "queue"
    PLACE_MS, TURNS = 400, 4
    TAKE = f"""{NOW}
        local queue = KEYS[1] .. ':queue'
        redis.call('zremrangebyscore', queue .. ':seen', '-inf', now)
        for _, each in ipairs(redis.call('zrange', queue, 0, -1)) do
            if not redis.call('zscore', queue .. ':seen', each) then redis.call('zrem', queue, each) end
        end
        redis.call('zadd', queue, 'NX', now, ARGV[1])
        redis.call('zadd', queue .. ':seen', now + ARGV[3], ARGV[1])
        if redis.call('zrank', queue, ARGV[1]) > 0 then return 0 end
        if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
        redis.call('zrem', queue, ARGV[1])
        redis.call('zrem', queue .. ':seen', ARGV[1])
        return 1"""
    PROLONG = """
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
        return 1"""
    GIVE_BACK = """
        redis.call('zrem', KEYS[1] .. ':queue', ARGV[1])
        redis.call('zrem', KEYS[1] .. ':queue:seen', ARGV[1])
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('del', KEYS[1])"""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        for turn in range(self.TURNS):
            if turn:
                await asyncio.sleep(0.1)
            if await self._run(self.TAKE, key, token, ttl_ns // MS_NS, self.PLACE_MS):
                return 1
        await self._undo(key, token)
        return 0


class SeenBeforeItStands(Queue):
    """Who waits has a key that says so, and a place in a list; who has none is taken out by the others."""

    name = "seen-before-it-stands"
    TURNS = 80
    SEEN = "return redis.call('set', KEYS[1] .. ':alive:' .. ARGV[1], 1, 'PX', ARGV[2])"
    JOIN = "return redis.call('rpush', KEYS[1] .. ':line', ARGV[1])"
    TAKE = """
        local line, first = KEYS[1] .. ':line', nil
        while true do
            first = redis.call('lindex', line, 0)
            if not first then return 0 end
            if redis.call('exists', KEYS[1] .. ':alive:' .. first) == 1 then break end
            redis.call('lpop', line)
        end
        redis.call('pexpire', KEYS[1] .. ':alive:' .. ARGV[1], ARGV[3])
        if first ~= ARGV[1] or not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
        redis.call('lpop', line)
        redis.call('del', KEYS[1] .. ':alive:' .. ARGV[1])
        return 1"""
    GIVE_BACK = """
        redis.call('lrem', KEYS[1] .. ':line', 0, ARGV[1])
        redis.call('del', KEYS[1] .. ':alive:' .. ARGV[1])
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('del', KEYS[1])"""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        await self._begin(key, token)
        return await super()._take(key, token, ttl_ns)

    async def _begin(self, key: str, token: str) -> None:
        await self._run(self.SEEN, key, token, self.PLACE_MS)
        await self._run(self.JOIN, key, token)


class StandsUnseen(SeenBeforeItStands):
    """Has its place first: who asks meanwhile takes it out, and it waits for a turn that never comes."""

    name = "stands-unseen"

    async def _begin(self, key: str, token: str) -> None:
        await self._run(self.JOIN, key, token)
        await self._run(self.SEEN, key, token, self.PLACE_MS)


class KeepsPlaces(Queue):
    """A place in the queue is never lost: a client that died blocks everybody behind it."""

    name = "keeps-places"
    TAKE = Queue.TAKE.replace("redis.call('zremrangebyscore', queue .. ':seen', '-inf', now)", "")
