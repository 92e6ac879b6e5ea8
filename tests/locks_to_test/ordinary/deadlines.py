"""Locks that say whether a lease is held by a deadline of their own."""

import asyncio
import time
import uuid

import redis.asyncio

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
PROLONG = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])
"""


class Extended:
    """Its deadline moves with an extension that succeeded."""

    def __init__(self, client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, f"lock:{name}", ttl_ms
        self.token, self.ends = uuid.uuid4().hex, 0.0

    async def acquire(self):
        ends = time.monotonic() + self.ttl_ms * 0.98 / 1000
        if not await self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            return False
        self.ends = ends
        return True

    async def extend(self, ttl_ms):
        ends = time.monotonic() + ttl_ms * 0.98 / 1000
        prolonged = bool(await self.client.eval(PROLONG, 1, self.name, self.token, ttl_ms))
        self.note(ends, prolonged)
        return prolonged

    def note(self, ends, prolonged):
        if prolonged:
            self.ends = ends

    async def release(self):
        self.ends = 0.0
        return bool(await self.client.eval(UNLOCK, 1, self.name, self.token))

    def is_held(self):
        return time.monotonic() < self.ends


class ExtendedAnyway(Extended):
    """Its deadline moves whatever the node answered."""

    def note(self, ends, prolonged):
        self.ends = ends


class OnMostNodes:
    """Redlock, all nodes at once; ``per_second`` is how it counts the time that the nodes took."""

    per_second = 1000
    answer_s = 0.2
    share, spare_ms = 0.99, 2.0

    def __init__(self, clients: list[redis.asyncio.Redis], name: str, ttl_ms: int = 10_000):
        self.clients, self.name, self.ttl_ms = clients, f"lock:{name}", ttl_ms
        self.token, self.ends = uuid.uuid4().hex, 0.0

    async def acquire(self):
        began = time.monotonic()
        try:
            votes = await self._ask("SET", self.name, self.token, "NX", "PX", self.ttl_ms)
        except asyncio.CancelledError:
            await asyncio.shield(self.release())
            raise
        took_ms = (time.monotonic() - began) * self.per_second
        left_ms = self.ttl_ms * self.share - self.spare_ms - took_ms
        if sum(vote is True for vote in votes) > len(self.clients) // 2 and left_ms > 0:
            self.ends = time.monotonic() + left_ms / 1000
            return True
        await self.release()
        return False

    async def release(self):
        self.ends = 0.0
        await self._ask("EVAL", UNLOCK, 1, self.name, self.token)

    def is_held(self):
        return time.monotonic() < self.ends

    async def _ask(self, *command):
        asked = [asyncio.wait_for(client.execute_command(*command), self.answer_s) for client in self.clients]
        return await asyncio.gather(*asked, return_exceptions=True)


class CountsInSeconds(OnMostNodes):
    """Takes seconds from milliseconds."""

    per_second = 1


class NoMargin(OnMostNodes):
    """Keeps nothing for clocks that run at different rates, and never says until when it has the lock."""

    share, spare_ms = 1.0, 0.0


class LooksFirst(OnMostNodes):
    """An extension asks whose the lock is before it prolongs it, and waits long for both answers."""

    answer_s = 5.0

    async def extend(self, ttl_ms):
        began = time.monotonic()
        owners = await self._ask("GET", self.name)
        if sum(owner == self.token.encode() for owner in owners) <= len(self.clients) // 2:
            return False
        votes = await self._ask("EVAL", PROLONG, 1, self.name, self.token, ttl_ms)
        ends = self.counted_from(began) + (ttl_ms * 0.99 - 2) / 1000
        if sum(vote == 1 for vote in votes) <= len(self.clients) // 2 or time.monotonic() >= ends:
            return False
        self.ends = ends
        return True

    def counted_from(self, began):
        return began


class LooksFirstAndCountsLate(LooksFirst):
    """Its extended lease is counted from the answers."""

    def counted_from(self, began):
        return time.monotonic()
