"""Locks that their holder may take again, by one object: right ones of different form, and broken ones."""

import time
import uuid

import redis.asyncio as redis

ENTER = """
local depth = redis.call('hget', KEYS[1], ARGV[1])
if not depth and (redis.call('exists', KEYS[1]) == 1 or tonumber(ARGV[2]) > 1) then return 0 end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
redis.call('pexpire', KEYS[1], ARGV[3])
return 1
"""
LEAVE = """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if tonumber(ARGV[2]) > 0 then return redis.call('hset', KEYS[1], ARGV[1], ARGV[2]) + 1 end
return redis.call('del', KEYS[1])
"""


class Taken(Exception):
    pass


class DepthIsSent:
    """Sends how often it has the lock then: a command that is executed twice does no harm."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.owner, self.depth, self.until = uuid.uuid4().hex, 0, 0.0

    async def __aenter__(self):
        if time.monotonic() >= self.until:
            self.owner, self.depth = uuid.uuid4().hex, 0
        wanted, asked = self.depth + 1, time.monotonic()
        if not await self.client.eval(ENTER, 1, self.name, self.owner, wanted, self.ttl_ms):
            raise Taken(self.name)
        self.depth, self.until = wanted, asked + self.ttl_ms / 1000
        return self

    async def __aexit__(self, *error):
        if self.depth:
            self.depth -= 1
            await self.client.eval(LEAVE, 1, self.name, self.owner, self.depth)


UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
TAKE = """
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
return 1
"""


class CountsByItself:
    """Counts in the process as long as its lease lasts; the node sees the outermost only."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token, self.depth, self.until = "", 0, 0.0

    async def acquire(self) -> bool:
        asked = time.monotonic()
        if self.depth and asked < self.until:
            self.depth += 1
            return True
        self.token = uuid.uuid4().hex
        self.depth = 0
        if not await self.client.eval(TAKE, 1, self.name, self.token, self.ttl_ms):
            return False
        self.depth, self.until = 1, asked + self.ttl_ms * 0.00098
        return True

    async def release(self) -> bool:
        if not self.depth:
            return False
        self.depth -= 1
        return bool(self.depth or await self.client.eval(UNLOCK, 1, self.name, self.token))


ADD = """
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
for _, one in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  if string.sub(one, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1] .. ARGV[2])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
return 1
"""


class AnEntryEach:
    """Each acquire has an entry of its own with an end of its own: what is lost goes by itself."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.owner, self.entries = uuid.uuid4().hex, []

    async def __aenter__(self):
        entry = uuid.uuid4().hex
        if not await self.client.eval(ADD, 1, self.name, self.owner, entry, self.ttl_ms):
            raise Taken(self.name)
        self.entries.append(entry)
        return self

    async def __aexit__(self, *error):
        if self.entries:
            await self.client.zrem(self.name, self.owner + self.entries.pop())


class CountsAndLooks:
    """Counts on the node, and says how often it has the lock: what was not answered is not counted."""

    ENTER = """
    local depth = tonumber(redis.call('hget', KEYS[1], ARGV[1]) or 0)
    if depth == 0 and redis.call('exists', KEYS[1]) == 1 then return -1 end
    if depth ~= tonumber(ARGV[2]) then redis.call('hset', KEYS[1], ARGV[1], ARGV[2]) end
    depth = redis.call('hincrby', KEYS[1], ARGV[1], 1)
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
    return depth
    """
    LEAVE = """
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 1 end
    return redis.call('del', KEYS[1])
    """

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.owner, self.depth = uuid.uuid4().hex, 0

    async def acquire(self) -> bool:
        depth = await self.client.eval(self.ENTER, 1, self.name, self.owner, self.depth, self.ttl_ms)
        if depth < 1:
            self.depth = 0
            return False
        self.depth = depth
        return True

    async def release(self) -> bool:
        had, self.depth = self.depth, max(self.depth - 1, 0)
        return bool(had and await self.client.eval(self.LEAVE, 1, self.name, self.owner, had) >= 0)


class ReentrantOnce(DepthIsSent):
    """Broken: never counts further than one, so that the inner end gives the lock back."""

    async def __aenter__(self):
        await super().__aenter__()
        self.depth = 1
        return self


class CountsOnNode:
    """Broken: counts on the node alone. One acquire that was not answered, and the count never is 0 again."""

    ENTER = """
    if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
    """
    LEAVE = """
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then redis.call('del', KEYS[1]) end
    return 1
    """

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.owner = uuid.uuid4().hex

    async def acquire(self) -> bool:
        return bool(await self.client.eval(self.ENTER, 1, self.name, self.owner, self.ttl_ms))

    async def release(self) -> bool:
        return bool(await self.client.eval(self.LEAVE, 1, self.name, self.owner))


class CountsAnybodyDown(CountsOnNode):
    """Broken: does not ask whose count it is that it counts down."""

    ENTER = """
    local owner = redis.call('hget', KEYS[1], 'owner')
    if owner and owner ~= ARGV[1] then return 0 end
    redis.call('hset', KEYS[1], 'owner', ARGV[1])
    redis.call('hincrby', KEYS[1], 'count', 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
    """
    LEAVE = """
    if redis.call('exists', KEYS[1]) == 0 then return 0 end
    if redis.call('hincrby', KEYS[1], 'count', -1) <= 0 then redis.call('del', KEYS[1]) end
    return 1
    """


class ShortensInside(CountsByItself):
    """Broken: who takes the lock again gives its key an end anew, with seconds for milliseconds."""

    async def acquire(self) -> bool:
        granted = await super().acquire()
        if granted and self.depth > 1:
            await self.client.pexpire(self.name, self.ttl_ms // 1000 * 100)
        return granted


class NeverLooksAtTheEnd(CountsByItself):
    """Broken: counts on when its lease is over."""

    async def acquire(self) -> bool:
        if self.depth:
            self.until = time.monotonic() + 1
        return await super().acquire()


class CountsTooLate(CountsByItself):
    """Broken: counts down when the node has answered, and not if that failed; then it counts on."""

    async def release(self) -> bool:
        if self.depth == 1 and not await self.client.eval(UNLOCK, 1, self.name, self.token):
            return False
        self.depth -= 1
        return True


class TakesAgain:
    """May be entered twice, and was not made for that: an acquire that is sent again is granted again."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    async def __aenter__(self):
        if not await self.client.eval(TAKE, 1, self.name, self.token, self.ttl_ms):
            raise Taken(self.name)
        return self

    async def __aexit__(self, *error):
        await self.client.eval(UNLOCK, 1, self.name, self.token)


class NotReentrant(TakesAgain):
    """The same, and its name says so."""
